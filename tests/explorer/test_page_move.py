"""Move: sliders, buttons, the pad, strips and play, each against what the system renders for the edited code."""

import numpy as np
import pytest
from browser import (
    address_of,
    choose_random,
    link,
    link_of,
    pass_time,
    ready,
    record,
    same,
    seen,
    until,
    wait_address,
    wait_picture,
)

ROW = 17


def slider(page, name):
    return page.locator(f"input[type=range][data-knob='{name}']")


def value_of(page, name):
    """Where a slider stands, with all digits."""
    return float(slider(page, name).input_value())


def kept_value(page, name):
    """What the address keeps of a dimension: a slider that plays stands at the nearest of its own steps."""
    link_of(page)
    return float(dict(part.rsplit(":", 1) for part in address_of(page)["set"].split(";"))[name])


def best(expected, place=0):
    """The name of a real dimension in use, by its rank."""
    return [knob["name"] for knob in expected.by_information() if knob["kind"] == "real"][place]


def reach(expected, name, part):
    """The value a part of the way from -2 to 2 deviations of a dimension."""
    (column,) = expected.knob(name)["columns"]
    mean, deviation = expected.about["mean"][column], expected.about["deviation"][column]
    return mean + (4 * part - 2) * deviation


@pytest.fixture
def page(visit):
    made = visit(link(run="hf", row=ROW))
    ready(made)
    return made


@pytest.mark.slow
def test_a_slider_by_keyboard_changes_the_picture_as_the_system_does(page, hf):
    name = best(hf)
    before = value_of(page, name)
    slider(page, name).focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    after = value_of(page, name)
    assert after > before
    wait_picture(page, "#edited-picture", hf.picture(hf.turned(hf.code(ROW), name, after)))
    assert not same(seen(page, "#edited-picture"), seen(page, "#reconstruction-picture"))
    found = wait_address(page, set=f"{name}:{round(after, 4):g}")
    assert "seed" not in found
    assert page.locator(".figure.edited").first.inner_text().split() == ["Yours", name, f"{after:.2f}"]


def test_the_picture_changes_while_a_slider_is_dragged(page, hf):
    name = best(hf, 1)
    box = slider(page, name).bounding_box()
    middle = box["y"] + box["height"] / 2
    pictures = []

    def follows():
        expected = hf.picture(hf.turned(hf.code(ROW), name, value_of(page, name)))
        return same(seen(page, "#edited-picture"), expected)

    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    for part in (0.1, 0.5, 0.95):
        page.mouse.move(box["x"] + part * box["width"], middle, steps=4)
        until(follows, f"the picture at {part} of the way", page)
        pictures.append(seen(page, "#edited-picture"))
    page.mouse.up()
    assert not any(same(pictures[a], pictures[b], by=3) for a, b in ((0, 1), (1, 2), (0, 2)))


def test_a_discrete_block_is_a_row_of_buttons(page, hf):
    page.locator("[data-block=digit] summary").click()
    buttons = page.locator("[data-block=digit] .choices button")
    assert buttons.count() == 10
    for number, act in ((7, lambda node: node.click()), (2, lambda node: node.press("Enter"))):
        act(buttons.nth(number))
        wait_picture(page, "#edited-picture", hf.picture(hf.turned(hf.code(ROW), "digit", number)))
        pressed = page.locator("[data-block=digit] .choices button[aria-pressed=true]")
        until(lambda pressed=pressed, number=number: values_of(pressed) == [str(number)], "one is on", page)
        wait_address(page, set=f"digit:{number}")


def values_of(buttons):
    return [button.get_attribute("data-value") for button in buttons.all()]


def test_a_category_is_called_by_its_label_and_shown(page, hf):
    """Never a number alone: a picture, and the label with its share, or that it holds several."""
    page.locator("[data-block=digit] summary").click()
    buttons = page.locator("[data-block=digit] .choices button")
    knob = hf.knob("digit")
    assert knob["factor"] == "digit"
    words = []
    for category in knob["categories"]:
        claimed = category["label"] is not None
        share = f" · {category['share'] * 100:.0f} %" if claimed else ""
        words.append(f"{category['label']}{share}" if claimed else "mixed" if category["rows"] else "unused")
    assert buttons.all_text_contents() == words
    mean = np.asarray(hf.about["mean"])
    for number in (0, 9):
        picture = hf.picture(hf.turned(mean, "digit", number))
        wait_picture(page, f"[data-block=digit] button[data-value='{number}'] canvas", picture)


def test_the_words_of_a_category_are_those_of_the_button(page, hf):
    """Beside the picture that is turned, and on the cells of the strip."""
    page.locator("[data-block=digit] summary").click()
    button = page.locator("[data-block=digit] .choices button[data-value='3']")
    called = button.get_attribute("aria-label")
    button.click()
    wait_address(page, set="digit:3")
    assert called.removeprefix("digit ") in page.locator(".stage-card").inner_text()


def test_two_dimensions_on_the_pad_by_mouse_and_keyboard(page, hf):
    names = [best(hf), best(hf, 1)]
    assert [page.locator(f"#pad-{axis}").input_value() for axis in "xy"] == names
    box = page.locator("#pad").bounding_box()
    page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 0.1 * box["height"])
    parts = (0.75, 0.9)

    def edited(parts):
        code = hf.code(ROW)
        for name, part in zip(names, parts, strict=True):
            code = hf.turned(code, name, reach(hf, name, part))
        return hf.picture(code)

    wait_picture(page, "#edited-picture", edited(parts), by=3)  # a click is a whole number of pixels
    page.locator("#pad").focus()
    before = [value_of(page, name) for name in names]
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("ArrowDown")
    until(lambda: value_of(page, names[0]) < before[0] and value_of(page, names[1]) < before[1], "both moved", page)
    wait_picture(page, "#edited-picture", edited((0.65, 0.875)), by=3)
    page.locator("#pad-x").select_option(names[1])
    assert page.locator("#pad-y").input_value() != names[1]


@pytest.mark.slow
def test_reset_of_one_dimension_and_of_all(page, hf):
    first, second = best(hf), best(hf, 1)
    for name in (first, second):
        slider(page, name).focus()
        page.keyboard.press("End")
    wait_picture(
        page,
        "#edited-picture",
        hf.picture(hf.turned(hf.turned(hf.code(ROW), first, value_of(page, first)), second, value_of(page, second))),
    )
    page.get_by_role("button", name=f"Reset {first}").click()
    wait_picture(page, "#edited-picture", hf.picture(hf.turned(hf.code(ROW), second, value_of(page, second))))
    page.locator("#reset").click()
    wait_picture(page, "#edited-picture", hf.picture(hf.code(ROW)))
    wait_address(page, set="")
    assert page.locator("#reset").is_disabled()


@pytest.mark.slow
def test_random_is_a_draw_from_the_prior_and_its_link_draws_the_same(page, visit, hf):
    drawn = np.asarray(hf.state.draw(choose_random(page)))
    wait_picture(page, "#edited-picture", hf.picture(drawn))
    again = visit(link_of(page))
    wait_picture(again, "#edited-picture", hf.picture(drawn))
    page.locator("#reset").click()
    wait_picture(page, "#edited-picture", hf.picture(hf.code(ROW)))


def test_strips_of_all_active_dimensions(page, hf):
    used = [knob["name"] for knob in hf.by_information() if knob["nats"] >= hf.about["used"]]
    strips = page.locator(".strip-card .strip")
    assert [strip.get_attribute("data-strip") for strip in strips.all()] == used
    for name in used:
        cells = page.locator(f".strip-card [data-strip='{name}'] .strip-cell")
        assert cells.count() == 9
        for place in (0, 8):
            value = float(cells.nth(place).get_attribute("data-value"))
            assert value == pytest.approx(reach(hf, name, place / 8), abs=1e-6)
            selector = f".strip-card [data-strip='{name}'] [data-place='{place}'] canvas"
            wait_picture(page, selector, hf.picture(hf.turned(hf.code(ROW), name, value)))
    cell = page.locator(f".strip-card [data-strip='{used[0]}'] .strip-cell").nth(8)
    value = float(cell.get_attribute("data-value"))
    cell.click()
    wait_picture(page, "#edited-picture", hf.picture(hf.turned(hf.code(ROW), used[0], value)))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    wait_address(page, set=f"{used[0]}:{round(reach(hf, used[0], 7 / 8), 4):g}")


def test_play_goes_through_a_traversal_until_it_is_stopped(page, hf):
    name = best(hf, 1)
    page.locator(".strip-name", has_text=name).click()
    play = page.locator("#play")
    assert play.inner_text() == f"Play {name}"
    play.click()
    values = {value_of(page, name)}
    low, high = reach(hf, name, 0), reach(hf, name, 1)

    def wide():
        values.add(value_of(page, name))
        return max(values) - min(values) > 0.5 * (high - low)

    until(wide, "the slider moves to and fro", page)
    assert play.get_attribute("aria-pressed") == "true"
    play.click()
    stood = kept_value(page, name)
    wait_picture(page, "#edited-picture", hf.picture(hf.turned(hf.code(ROW), name, stood)))
    assert value_of(page, name) == pytest.approx(stood, abs=(high - low) / 300)
    pass_time(page)
    assert kept_value(page, name) == stood


@pytest.mark.slow
def test_play_of_a_category_shows_one_after_the_other(page, hf):
    page.locator("[data-block=digit] summary").click()
    page.locator("[data-block=digit] .knob-name").click()
    page.locator("#play").click()
    met = set()

    def several():
        met.update(values_of(page.locator("[data-block=digit] .choices button[aria-pressed=true]")))
        return len(met) >= 3

    until(several, "three categories were on", page)
    page.locator("#play").click()


@pytest.mark.slow
def test_with_calm_motion_play_goes_in_steps(visit, hf):
    page = visit(link(run="hf", row=ROW), reduced_motion="reduce")
    ready(page)
    name = best(hf)
    recorded = record(slider(page, name), "aria-valuetext")
    page.locator("#play").click()
    steps = [pytest.approx(reach(hf, name, place / 8), abs=0.006) for place in range(9)]
    until(lambda: any(float(told) == steps[1] for told in recorded()[1:]), "the second step of the strip", page)
    page.locator("#play").click()
    assert all(any(float(told) == step for step in steps) for told in recorded()[1:])


@pytest.mark.slow
def test_a_knob_of_a_clip_moves_all_its_steps(visit, clips):
    row, name = int(clips.state.rows[1]), clips.by_information()[0]["name"]
    page = visit(link(run="clips", row=row))
    ready(page)
    slider(page, name).focus()
    page.keyboard.press("End")
    edited = clips.turned(clips.code(row), name, value_of(page, name))
    wait_picture(page, "#edited-picture", clips.picture(edited))
    page.locator(".strip-cell").first.click()
    value = float(page.locator(".strip-cell").first.get_attribute("data-value"))
    wait_picture(page, "#edited-picture", clips.picture(clips.turned(edited, name, value)))
