"""Compare: two runs under the same input and slider."""

import numpy as np
import pytest
from browser import link, ready, same, seen, until, wait_address, wait_picture

ROW = 17


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
    page.locator("#random").click()
    until(
        lambda: not same(seen(page, "#other-edited-picture"), plain.picture(plain.code(ROW)), by=0),
        "the other run is drawn as well",
        page,
    )


@pytest.mark.slow
def test_runs_that_do_not_read_the_same_input_say_so(visit, hf):
    visit.expected.append("400")
    page = visit(link(run="hf", row=1500, vs="clips"))
    ready(page)
    page.get_by_text("there is no row 1500").wait_for()
    wait_picture(page, "#edited-picture", hf.picture(hf.code(1500)))


@pytest.mark.slow
def test_another_run_is_opened_from_the_header(visit, plain):
    page = visit(link(run="hf", row=ROW))
    ready(page)
    page.locator("#run-select").select_option("plain")
    wait_address(page, run="plain", row=str(ROW))
    wait_picture(page, "#input-picture", plain.row(ROW), by=0)
    wait_picture(page, "#edited-picture", plain.picture(plain.code(ROW)))
    until(lambda: page.locator(".knob-block").first.get_attribute("data-block") == "z", "its own dimensions", page)
