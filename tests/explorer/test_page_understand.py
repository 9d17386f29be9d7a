"""Understand: the map and what explains its cells, scores, terms over training, and the scatter of all codes."""

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from browser import answer, link, ready, until, wait_address, wait_picture, wait_view

FRAME = {"left": 56, "right": 14 + 104, "top": 12, "bottom": 44}
"""Where a scatter with a legend lies on its canvas."""


@pytest.fixture
def page(visit):
    made = visit(link("understand", run="hf", row=17, all=1))
    wait_view(made, "understand")
    return made


def places(expected, x, y, box):
    """(N, 2) where the points of two columns lie on the page."""
    codes = np.asarray(expected.state.points()["codes"])
    found = []
    sides = (
        (x, box["x"] + FRAME["left"], box["width"] - FRAME["left"] - FRAME["right"]),
        (y, box["y"] + FRAME["top"], box["height"] - FRAME["top"] - FRAME["bottom"]),
    )
    for column, start, length in sides:
        values = codes[:, column]
        room = 0.04 * (values.max() - values.min())
        part = (values - values.min() + room) / (values.max() - values.min() + 2 * room)
        found.append(start + length * (part if column == x else 1 - part))
    return np.stack(found, axis=1)


def test_the_map_and_the_traversal_and_scatter_behind_a_cell(page, hf):
    knows = hf.state.knows
    for knob, line in zip(knows["knobs"], knows["shares"], strict=True):
        cell = page.locator(f".heat[data-knob='{knob}'][data-factor='digit']")
        assert float(cell.get_attribute("data-value")) == pytest.approx(line[0], abs=1e-4)
        assert cell.inner_text() == f"{int(np.floor(100 * line[0] + 0.5))} %"
    name = hf.by_information()[1]["name"]
    page.locator(f".heat[data-knob='{name}']").click()
    wait_address(page, knob=name, factor="digit")
    assert page.locator(".detail-card h2").inner_text() == f"{name} and digit"
    cells = page.locator(f".detail-card [data-strip='{name}'] .strip-cell")
    assert cells.count() == 9
    value = float(cells.nth(8).get_attribute("data-value"))
    expected = hf.picture(hf.turned(hf.code(17), name, value))
    wait_picture(page, ".detail-card [data-place='8'] canvas", expected)
    label = page.locator("[data-testid=detail-scatter]").get_attribute("aria-label")
    assert label.startswith(f"{len(hf.state.rows)} points: {name} against digit")
    page.locator(f".heat[data-knob='{name}']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    following = hf.by_information()[2]["name"]
    wait_address(page, knob=following)
    assert page.evaluate("document.activeElement.dataset.knob") == following


@pytest.mark.slow
def test_importances_of_dci_as_squares(page, hf):
    page.get_by_role("button", name="DCI importance").click()
    page.wait_for_selector(".hinton")
    found = hf.state.knows["importance"]
    values = np.asarray(found["values"])
    sizes = []
    for knob in hf.state.knows["knobs"]:
        square = page.locator(f".heat[data-knob='{knob}'] .square")
        sizes.append(square.bounding_box()["width"])
    expected = np.sqrt(values[:, 0] / values.max())
    np.testing.assert_allclose(np.asarray(sizes) / max(sizes), expected, atol=0.06)
    wait_address(page, map="importance")


@pytest.mark.slow
def test_scores_with_their_intervals(page, hf):
    for score in hf.state.score_table()["scores"]:
        line = page.locator(f"[data-score={score['name']}]")
        value, interval = line.locator(".number").all_text_contents()
        assert float(value) == pytest.approx(score["value"], rel=0.01, abs=1e-9)
        if score["interval"] is not None:
            low, high = (float(end) for end in interval.split(" to "))
            assert (low, high) == pytest.approx(tuple(score["interval"]), rel=0.01, abs=1e-9)


def test_a_point_of_the_scatter_is_loaded_by_a_click(page, hf):
    columns = hf.about["columns"]
    names = [name for knob in hf.by_information() for name in [columns[knob["columns"][0]]] if knob["kind"] == "real"]
    for key, name in zip(("sx", "sy"), names, strict=False):
        page.locator(f"#scatter-{key}").select_option(name)
    page.locator("#scatter-colour").select_option("-")
    page.locator("#scatter-colour").select_option("digit")
    canvas = page.locator("[data-testid=scatter]")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    where = places(hf, columns.index(names[0]), columns.index(names[1]), box)
    lone = int(np.argmax(where[:, 0]))  # at the border, away from others
    page.mouse.move(*where[lone])
    row = int(hf.state.rows[lone])
    page.locator(".cloud-card .tip").get_by_text(f"#{row},").wait_for()
    assert f"digit {hf.state.factors_of(row)['digit']}" in page.locator(".cloud-card .tip").inner_text()
    page.mouse.click(*where[lone])
    wait_address(page, view="explore", row=str(row))
    wait_picture(page, "#input-picture", hf.row(row), by=0)


@pytest.mark.slow
def test_a_point_is_loaded_by_keyboard(page, hf):
    page.locator("[data-testid=scatter]").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    near = page.locator(".cloud-card .near-rows .thumb").first
    row = int(near.get_attribute("data-row"))
    page.keyboard.press("Enter")
    wait_address(page, view="explore", row=str(row))
    wait_picture(page, "#input-picture", hf.row(row), by=0)


@pytest.mark.slow
def test_the_scatter_is_coloured_by_the_chosen_factor(page, hf):
    page.locator("#scatter-colour").select_option("digit")
    colours = """node => {
        const { data } = node.getContext("2d").getImageData(0, 0, node.width - 130, node.height);
        return new Set(new Uint32Array(data.buffer)).size;
    }"""
    canvas = page.locator("[data-testid=scatter]")
    many = canvas.evaluate(colours)
    page.locator("#scatter-colour").select_option("-")
    until(lambda: canvas.evaluate(colours) < many, "fewer colours without a factor", page)
    wait_address(page, colour="-")


@pytest.mark.slow
def test_a_cell_of_the_traversal_opens_it_in_explore(page, hf):
    name = hf.by_information()[0]["name"]
    page.locator(f".heat[data-knob='{name}']").click()
    cell = page.locator(f".detail-card [data-strip='{name}'] .strip-cell").nth(7)
    value = float(cell.get_attribute("data-value"))
    cell.click()
    wait_address(page, view="explore", set=f"{name}:{value:.4f}")
    wait_picture(page, "#edited-picture", hf.picture(hf.turned(hf.code(17), name, round(value, 4))))


@pytest.mark.slow
def test_a_run_without_scores_says_how_to_get_them(visit, plain):
    page = visit(link("understand", run="plain"))
    page.get_by_text("This run has no scores yet").wait_for()
    assert f"unweave evaluate {plain.path}" in page.locator(".no-scores code").inner_text()


def test_terms_over_training(visit, hf):
    page = visit(link("training", run="hf"))
    page.wait_for_selector(".chart")
    log = hf.state.run.log()
    terms = [name for name in log if name not in ("step", "seconds")]
    assert [chart.get_attribute("data-term") for chart in page.locator(".chart").all()] == terms
    for name in terms:
        value = float(page.locator(f"[data-term='{name}'] .value").inner_text())
        assert value == pytest.approx(log[name][-1], rel=0.01, abs=1e-9)
    assert page.locator("#training-status").inner_text() == "step 120 of 120, done"
    drawing = page.locator(f"[data-term='{terms[0]}'] svg")
    box = drawing.bounding_box()
    page.mouse.move(box["x"] + 0.16 * box["width"], box["y"] + 0.5 * box["height"])
    told = page.locator(f"[data-term='{terms[0]}'] .value")
    until(lambda: told.inner_text().endswith("at step 1"), "the value under the pointer", page)


@pytest.mark.slow
def test_answers_that_overlap_bring_each_step_once(visit, hf):
    visit.expected.append("404")  # a picture that is opened by itself has no icon
    page = visit("icon.svg")
    held = []
    page.route("**/api/runs/hf/log?*", lambda route: held.append(route))
    page.goto(visit.address + link("training", run="hf"))
    until(lambda: len(held) == 1, "the view asks for the terms", page)
    page.evaluate("location.hash = '#training?run=hf&whole=1'")
    until(lambda: len(held) == 2, "and again before it has them", page)
    for route in held:
        answer(page, route)
    page.wait_for_selector(".chart")
    with page.expect_download() as found:
        page.locator(".view:visible [data-testid=keep-csv]").click()
    lines = found.value.path().read_text().splitlines()
    assert [float(line.split(",")[0]) for line in lines[1:]] == hf.state.run.log()["step"].tolist()


@pytest.mark.slow
def test_a_run_that_trains_is_followed_live(visit, serve, tmp_path):
    command = [sys.executable, "-m", "unweave", "train", "vae", "--data", "digits", "--run", str(tmp_path / "live")]
    pace = ["--checkpoint-every", "100", "--threads", "1"]  # so that a slow machine too has new weights soon
    settings = ["--set", "training.steps=100000000", "--set", "training.batch_size=16", "--set", "nets.hidden=[8]"]
    training = subprocess.Popen([*command, *pace, *settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: (tmp_path / "live" / "state.safetensors").exists(), "training begins", patience=120)
        page = visit(serve(tmp_path / "live").address + link("training"))
        page.wait_for_selector("#training-status.live")

        def step():
            found = re.match(r"step ([\d,]+)", page.locator("#training-status").inner_text())
            return int(found[1].replace(",", ""))

        first = until(step, "a step is shown", page)
        until(lambda: step() > first + 100, "the step moves on by itself", page, patience=120)
        page.get_by_role("tab", name="Explore").click()
        ready(page)
        assert page.locator("#run-line .live").inner_text() == "training"
        steps = page.locator("#run-line").inner_text()
        until(lambda: page.locator("#run-line").inner_text() != steps, "new weights are taken up", page, patience=120)
    finally:
        training.kill()
        training.wait()


@pytest.mark.slow
def test_before_the_first_checkpoint_the_terms_are_shown(visit, serve, hf, tmp_path):
    visit.expected.append("410")
    run = shutil.copytree(hf.path, tmp_path / "early")
    for name in ("weights.safetensors", "state.safetensors"):
        (run / name).unlink(missing_ok=True)
    page = visit(serve(run).address + link("training"))
    page.wait_for_selector(".chart")
    assert "has no weights yet" in page.locator("#banner").inner_text()
    shutil.copy(hf.path / "weights.safetensors", run)
    page.locator("#retry").dispatch_event("click")  # it may be gone: the page also looks again by itself
    until(lambda: page.locator("#banner").is_hidden(), "the message goes when the weights are there", page)
    page.get_by_role("tab", name="Explore").click()
    ready(page)
    wait_address(page, view="explore")
