"""Compare: two runs under the same input and slider."""

import io
import shutil

import numpy as np
import pytest
from browser import Expected, choose_random, link, ready, same, seen, until, wait_address, wait_picture
from PIL import Image

from unweave.runs import train

ROW = 17
SMALL = {"nets.hidden": [16], "training.steps": 20, "training.batch_size": 16}


def partner(first, name, second):
    """The knob of another run that moves along, and the value it takes for one of the first run."""
    knob = first.knob(name)
    kin = [[each for each in run.by_information() if each["kind"] == knob["kind"]] for run in (first, second)]
    named = [each for each in kin[1] if each["name"] == name]
    twin = named[0] if named else kin[1][[each["name"] for each in kin[0]].index(name)]

    def scale(run, own):
        columns = own["columns"]
        return np.mean(np.take(run.about["mean"], columns)), np.mean(np.take(run.about["deviation"], columns))

    (mean, deviation), (other_mean, other_deviation) = scale(first, knob), scale(second, twin)
    return twin["name"], lambda value: other_mean + (value - mean) / deviation * other_deviation


def test_two_runs_under_the_same_input_and_slider(visit, hf, plain):
    page = visit(link(run="hf", row=ROW))
    ready(page)
    page.locator("#compare-select").select_option("plain")
    wait_address(page, vs="plain")
    wait_picture(page, "#other-input-picture", plain.row(ROW), by=0)
    wait_picture(page, "#other-reconstruction-picture", plain.picture(plain.code(ROW)))
    assert page.locator(".side-title:visible").all_text_contents() == ["hf", "plain"]
    name = hf.by_information()[0]["name"]
    slider = page.locator(f"input[data-knob='{name}']")
    slider.focus()
    page.keyboard.press("End")
    value = float(slider.input_value())
    wait_picture(page, "#edited-picture", hf.picture(hf.turned(hf.code(ROW), name, value)))
    twin, carried = partner(hf, name, plain)
    edited = plain.picture(plain.turned(plain.code(ROW), twin, carried(value)))
    wait_picture(page, "#other-edited-picture", edited)
    other = int(hf.state.rows[3])
    page.locator(f".thumb[data-row='{other}']").first.click()
    wait_picture(page, "#input-picture", hf.row(other), by=0)
    wait_picture(page, "#other-input-picture", plain.row(other), by=0)
    wait_picture(page, "#other-edited-picture", plain.picture(plain.turned(plain.code(other), twin, carried(value))))


@pytest.mark.slow
def test_the_link_restores_a_comparison_and_it_can_be_ended(visit, hf, plain):
    name = hf.by_information()[0]["name"]
    page = visit(link(run="hf", row=ROW, vs="plain", set=f"{name}:1.5"))
    ready(page)
    twin, carried = partner(hf, name, plain)
    expected = plain.picture(plain.turned(plain.code(ROW), twin, carried(1.5)))
    wait_picture(page, "#other-edited-picture", expected)
    assert page.locator("#compare-select").input_value() == "plain"
    page.locator("#compare-select").select_option("")
    page.locator(".other-side").wait_for(state="hidden")
    wait_address(page, vs="")
    assert same(seen(page, "#edited-picture"), hf.picture(hf.turned(hf.code(ROW), name, 1.5)))


@pytest.mark.slow
def test_a_draw_moves_the_other_run_too(visit, hf, plain):
    page = visit(link(run="hf", row=ROW, vs="plain"))
    ready(page)
    wait_picture(page, "#other-edited-picture", plain.picture(plain.code(ROW)))
    seed = choose_random(page)
    drawn, expected = hf.state.draw(seed), plain.code(ROW)
    for knob in hf.about["knobs"]:
        if knob["kind"] == "real":  # `plain` has no category: nothing of it is carried over
            twin, carried = partner(hf, knob["name"], plain)
            expected = plain.turned(expected, twin, carried(drawn[knob["columns"][0]]))
    wait_picture(page, "#other-edited-picture", plain.picture(expected))


@pytest.mark.slow
def test_a_draw_is_carried_to_a_like_run_with_all_its_shares(visit, serve, hf, tmp_path):
    twin = Expected(shutil.copytree(hf.path, tmp_path / "twin"))
    page = visit(serve(hf.path, twin.path).address + link(run="hf", row=ROW, vs="twin", seed=3))
    ready(page)
    drawn = hf.picture(hf.state.draw(3))
    wait_picture(page, "#edited-picture", drawn)
    wait_picture(page, "#other-edited-picture", drawn)


@pytest.fixture(scope="module")
def negatives(tmp_path_factory, hf):
    """A run on images of the same shape that are others: the digits in negative."""
    folder = tmp_path_factory.mktemp("negatives")
    np.save(folder / "negatives.npy", 1 - hf.state.dataset.observations(np.arange(200)))
    train("betavae", folder / "negatives.npy", settings=SMALL, run=folder / "run", progress=False, threads=1)
    return Expected(folder / "run")


@pytest.mark.slow
def test_runs_that_do_not_read_the_same_input_say_so(visit, serve, hf, clips, negatives):
    server = serve(hf.path, clips.path, negatives.path)
    for name, data in (("clips", "moving_digits, not digits"), ("run", "array, not digits")):
        page = visit(server.address + link(run="hf", row=5, vs=name))  # each of them has a row 5
        ready(page)
        page.get_by_text(f"{name} reads other data").wait_for()
        assert data in page.locator(".other-side .note").inner_text()
        assert page.locator("#other-input-picture").is_hidden()
        wait_picture(page, "#edited-picture", hf.picture(hf.code(5)))
    seed = choose_random(page)
    wait_picture(page, "#edited-picture", hf.picture(hf.state.draw(seed)))
    assert page.locator("#other-input-picture").is_hidden()


@pytest.mark.slow
def test_an_own_image_is_the_same_for_runs_on_different_data(visit, serve, hf, negatives):
    page = visit(serve(hf.path, negatives.path).address + link(run="hf", row=5, vs="run"))
    ready(page)
    memory = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)).save(memory, "PNG")
    own = {"name": "own.png", "mimeType": "image/png", "buffer": memory.getvalue()}
    page.locator("[data-testid=own-image]").set_input_files(own)
    page.locator("#other-input-picture").wait_for(state="visible")
    until(lambda: same(seen(page, "#other-input-picture"), seen(page, "#input-picture"), by=0), "one image", page)
    assert page.locator(".other-side .note").inner_text() == ""


@pytest.mark.slow
def test_another_run_is_opened_from_the_header(visit, plain):
    page = visit(link(run="hf", row=ROW))
    ready(page)
    page.locator("#run-select").select_option("plain")
    wait_address(page, run="plain", row=str(ROW))
    wait_picture(page, "#input-picture", plain.row(ROW), by=0)
    wait_picture(page, "#edited-picture", plain.picture(plain.code(ROW)))
    until(lambda: page.locator(".knob-block").first.get_attribute("data-block") == "z", "its own dimensions", page)
