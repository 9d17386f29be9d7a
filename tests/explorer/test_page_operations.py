"""Operations: every one of the registry as a form with a result, those of a user's own included."""

from typing import Literal

import numpy as np
import pytest
from browser import link, link_of, pixels, same, until, wait_address
from test_page_mix import wait_grid

from unweave.base.config import Config
from unweave.core.capabilities import Decodes
from unweave.knobs import Names
from unweave.media import Shown
from unweave.operations import OPERATIONS, operation


def opened(visit, run="hf", **values):
    page = visit(link("operations", run=run, **values))
    page.wait_for_selector("[data-testid=result]")
    return page


@pytest.mark.slow
def test_an_operation_is_run_from_its_form(visit, hf):
    page = opened(visit, row=17)
    offered = [node.get_attribute("data-operation") for node in page.locator("[data-operation]").all()]
    assert offered == hf.about["operations"]
    page.locator("[data-operation=traverse]").click()
    name = hf.by_information()[0]["name"]
    page.locator("#param-dims").fill(name)
    page.locator("#param-steps").fill("5")
    page.locator("#param-unit").select_option("latent")
    page.locator("[data-testid=use-current]").click()
    until(lambda: page.locator("#operation-rows").input_value() == "17", "the row of Explore", page)
    page.locator("#run-operation").click()
    wait_grid(page, hf, hf.state.run.operate("traverse", [17], dims=[name], steps=5, unit="latent"))
    wait_address(page, op="traverse", orows="17", **{"p.dims": name, "p.steps": "5", "p.unit": "latent"})


@pytest.fixture
def brighten(monkeypatch):
    """An operation with a parameter of every kind."""
    monkeypatch.setattr(OPERATIONS, "_extra", {})

    class BrightParams(Config):
        """How bright."""

        by: float = 0.25
        """What is added."""
        times: int = 1
        """How often, where `by` is not enough."""
        upside: bool = False
        """Whether it is turned around."""
        kind: Literal["plain", "negative"] = "plain"
        """Which."""
        names: Names = ()
        """Some names."""

    @OPERATIONS.register
    @operation(BrightParams, needs=(Decodes,), inputs=1, default_inputs=2)
    def brighten(system, inputs, params):
        """Shows inputs brighter."""
        images = np.clip(inputs.observations + params.by * params.times, 0, 1)
        images = 1 - images if params.kind == "negative" else images
        images = images[..., ::-1, :] if params.upside else images
        return Shown(f"Brighter {' '.join(params.names)}", images[None], ("",), tuple(map(str, inputs.rows)))

    return brighten


def test_a_new_operation_appears_as_a_form_with_a_result(visit, hf, brighten):
    page = opened(visit)
    page.locator("[data-operation=brighten]").click()
    page.locator("#param-by").fill("0.125")
    page.locator("#param-times").fill("2")
    page.locator("#param-upside").check()
    page.locator("#param-kind").select_option("negative")
    page.locator("#param-names").fill("style, digit")
    page.locator("#operation-rows").fill("3, 5")
    assert page.locator("#param-times-hint code").inner_text() == "by"
    page.keyboard.press("Enter")
    until(lambda: page.locator(".result-title:visible").inner_text() == "Brighter style digit", "its title", page)
    given = {"by": 0.125, "times": 2, "upside": True, "kind": "negative", "names": ["style", "digit"]}
    wait_grid(page, hf, hf.state.run.operate("brighten", [3, 5], **given))
    again = visit(link_of(page))
    wait_grid(again, hf, hf.state.run.operate("brighten", [3, 5], **given))
    assert again.locator("#param-upside").is_checked()


def test_a_bad_parameter_is_answered_with_a_sentence(visit):
    visit.expected += ["400", "404"]
    page = opened(visit, op="traverse")
    for field, value, sentence in (
        ("#param-dims", "nothing", "unknown"),
        ("#param-low", "5", "low must be below high"),
        ("#param-steps", "100000", "more than a page shows"),
    ):
        before = page.locator(field).input_value()
        page.locator(field).fill(value)
        page.locator("#run-operation").click()
        until(
            lambda sentence=sentence: sentence in page.locator(".result-pane:visible .note").inner_text(), value, page
        )
        page.locator(field).fill(before)
    page.locator("#run-operation").click()
    page.wait_for_selector("[data-testid=result]")
    assert page.locator(".result-pane:visible .note").inner_text() == ""


@pytest.mark.slow
@pytest.mark.parametrize("run", ["hf", "ml", "plain", "clips"])
def test_every_operation_shows_something_at_once(visit, run, request):
    expected = request.getfixturevalue(run)
    page = opened(visit, run)
    for name in expected.about["operations"]:
        page.locator(f"[data-operation={name}]").click()
        until(lambda name=name: page.locator("h2", has_text=name).count(), name, page)
        until(lambda: page.locator(".result-pane.busy").count() == 0, "its result", page)
        page.wait_for_selector("[data-testid=result] canvas")
        assert page.locator(".result-title:visible").inner_text()


@pytest.mark.slow
def test_a_clip_goes_on_and_is_played_forward(visit, clips):
    row = int(clips.state.rows[0])
    page = opened(visit, "clips", op="predict", orows=row, **{"p.steps": 3})
    result = clips.state.run.operate("predict", [row], steps=3)
    wait_grid(page, clips, result)
    frames = clips.grid(result.images)[0][: clips.about["shape"][0]]  # the clip itself, in the first line
    page.evaluate(
        """() => {
            window.played = [];
            const player = document.querySelector(".result .player");
            const { prototype } = CanvasRenderingContext2D;
            const { drawImage } = prototype;
            prototype.drawImage = function (...given) {
                drawImage.apply(this, given);
                if (this.canvas === player) window.played.push(this.canvas.toDataURL("image/png"));
            };
        }"""
    )
    page.locator(".result-play:visible").click()
    until(lambda: page.evaluate("window.played.length") > 2 * len(frames), "the clip is played twice", page)
    played = [pixels(text) for text in page.evaluate("window.played")]
    assert not same(frames[0], frames[1], by=0)
    for place, picture in enumerate(played, start=1):  # it stood at the first, and begins again after the last
        assert same(picture, frames[place % len(frames)], by=0), place


@pytest.mark.slow
def test_forms_are_used_by_keyboard(visit, hf):
    page = opened(visit)
    page.locator("[data-operation=reconstruct]").focus()
    page.keyboard.press("Enter")
    page.locator("#operation-rows").focus()
    page.keyboard.type("4,8")
    page.keyboard.press("Enter")
    wait_grid(page, hf, hf.state.run.operate("reconstruct", [4, 8]))
