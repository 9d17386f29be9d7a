"""Look: inputs of the data and of one's own, their reconstruction, and their code block by block."""

import io

import numpy as np
import pytest
from browser import link, link_of, ready, same, seen, until, wait_address, wait_picture
from PIL import Image

from unweave.explorer import uploads


def own_image(seed=0):
    """PNG bytes of a picture that no data set has."""
    memory = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (30, 20, 3), dtype=np.uint8)).save(memory, "PNG")
    return memory.getvalue()


def pictured(expected, content):
    """Pixels and code of what a system sees of an image file."""
    observed = uploads.observation(content, expected.state.dataset.spec, expected.state.run.source())
    return expected.grid(observed[None])[0, 0], np.asarray(expected.state.coded(observed)["code"])


def drop(page, content, where="[data-testid=drop-zone]"):
    """Drop a file on the zone for own images, or elsewhere; whether the browser was kept from opening it instead."""
    return page.locator(where).first.evaluate(
        """(zone, bytes) => {
            const files = new DataTransfer();
            files.items.add(new File([new Uint8Array(bytes)], "own.png", { type: "image/png" }));
            const event = (kind) => new DragEvent(kind, { dataTransfer: files, bubbles: true, cancelable: true });
            return !zone.dispatchEvent(event("dragover")) && !zone.dispatchEvent(event("drop"));
        }""",
        list(content),
    )


def test_an_input_its_reconstruction_and_its_factors(visit, hf):
    page = visit(link(run="hf", row=17))
    ready(page)
    wait_picture(page, "#input-picture", hf.row(17), by=0)
    wait_picture(page, "#reconstruction-picture", hf.picture(hf.code(17)))
    wait_picture(page, "#edited-picture", hf.picture(hf.code(17)))
    assert page.locator(".facts").inner_text().split() == ["digit", hf.state.factors_of(17)["digit"]]
    assert "hfvae" in page.locator("#run-line").inner_text()


def test_inputs_are_chosen_by_mouse_and_by_keyboard(visit, hf):
    page = visit()
    ready(page)
    thumbs = page.locator(".thumb")
    rows = [int(thumb.get_attribute("data-row")) for thumb in thumbs.all()]
    assert rows == hf.state.rows[: len(rows)].tolist()
    assert thumbs.nth(0).get_attribute("aria-pressed") == "true"
    thumbs.nth(4).click()
    wait_address(page, row=str(rows[4]))
    wait_picture(page, "#input-picture", hf.row(rows[4]), by=0)
    wait_picture(page, "#edited-picture", hf.picture(hf.code(rows[4])))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    wait_picture(page, "#input-picture", hf.row(rows[5]), by=0)
    chosen = page.locator(".thumb[aria-pressed=true]")
    until(lambda: chosen.get_attribute("data-row") == str(rows[5]), "it is marked", page)


@pytest.mark.slow
def test_a_row_is_asked_for_by_its_number(visit, hf):
    visit.expected.append("400")
    page = visit()
    ready(page)
    page.locator("[data-testid=row-number]").fill("123")
    page.keyboard.press("Enter")
    wait_picture(page, "#input-picture", hf.row(123), by=0)
    page.locator("[data-testid=row-number]").fill("99999")
    page.keyboard.press("Enter")
    page.get_by_text("there is no row 99999").wait_for()
    wait_address(page, row="123")
    wait_picture(page, "#input-picture", hf.row(123), by=0)


def test_the_code_block_by_block_sorted_and_what_is_unused_folded_away(visit, hf):
    page = visit(link(run="hf", row=17))
    ready(page)
    blocks = page.locator(".knob-block")
    assert [block.get_attribute("data-block") for block in blocks.all()] == ["digit", "style"]
    order = [knob["name"] for knob in hf.by_information() if knob["block"] == "style"]
    used = [knob["name"] for knob in hf.by_information() if knob["nats"] >= hf.about["used"]]
    assert 2 <= len(used) < len(order)
    names = blocks.nth(1).locator(".knob-name .name")
    assert names.all_text_contents() == order
    assert [name for name in order if page.locator(f"input[data-knob='{name}']").is_visible()] == used
    page.get_by_text(f"{len(order) - len(used)} unused dimensions").click()
    for name in order:
        slider = page.locator(f"input[data-knob='{name}']")
        slider.wait_for(state="visible")
        value = hf.code(17)[hf.knob(name)["columns"][0]]
        assert float(slider.get_attribute("aria-valuetext")) == pytest.approx(value, abs=0.006)


def test_an_own_image_by_the_file_dialog_and_by_dropping(visit, hf):
    page = visit()
    ready(page)
    content = own_image()
    page.locator("[data-testid=own-image]").set_input_files(
        {"name": "own.png", "mimeType": "image/png", "buffer": content}
    )
    picture, code = pictured(hf, content)
    wait_picture(page, "#input-picture", picture, by=0)
    wait_picture(page, "#reconstruction-picture", hf.picture(code))
    assert "your image" in page.locator(".figure.input").first.inner_text()
    other, code = pictured(hf, own_image(1))
    drop(page, own_image(1))
    wait_picture(page, "#input-picture", other, by=0)
    wait_picture(page, "#edited-picture", hf.picture(code))
    assert "own" in link_of(page)
    again = visit(link_of(page))
    wait_picture(again, "#input-picture", other, by=0)


@pytest.mark.slow
def test_a_file_dropped_beside_the_zone_does_not_end_the_page(visit, hf, clips):
    page = visit(link(run="hf", row=17))
    ready(page)
    assert drop(page, own_image(), "#input-picture")
    wait_picture(page, "#input-picture", pictured(hf, own_image())[0], by=0)
    assert drop(page, own_image(1), "h1, header")
    wait_picture(page, "#input-picture", pictured(hf, own_image(1))[0], by=0)
    page = visit(link(run="clips", row=17))
    ready(page)
    assert drop(page, own_image(), "#input-picture")  # clips are not read from files
    page.get_by_role("tab", name="Training").click()
    page.wait_for_selector(".chart")
    assert drop(page, own_image(), ".chart")
    page.get_by_role("tab", name="Explore").click()
    wait_picture(page, "#input-picture", clips.row(17), by=0)
    assert "own" not in link_of(page)


@pytest.mark.slow
def test_what_is_no_image_is_told_of_and_the_input_stays(visit, hf):
    visit.expected.append("400")
    page = visit(link(run="hf", row=17))
    ready(page)
    drop(page, b"no image at all")
    page.get_by_text("this is no image that can be read").wait_for()
    assert same(seen(page, "#input-picture"), hf.row(17), by=0)


@pytest.mark.slow
def test_more_inputs_come_and_none_twice(visit, clips):
    page = visit()
    ready(page)
    before = page.locator(".thumb").count()
    page.locator("[data-testid=more-rows]").click()
    until(lambda: page.locator(".thumb").count() == 2 * before, "as many inputs again", page)
    page.locator("[data-testid=more-rows]").evaluate("node => { node.click(); node.click(); }")
    until(lambda: page.locator(".thumb").count() == 4 * before, "two clicks in a row bring twice as many", page)
    rows = [thumb.get_attribute("data-row") for thumb in page.locator(".thumb").all()]
    assert len(set(rows)) == len(rows)
    assert page.locator("[data-testid=more-rows]").is_visible()
    few = visit(link(run="clips"))
    ready(few)
    rows = [thumb.get_attribute("data-row") for thumb in few.locator(".thumb").all()]
    assert sorted(map(int, rows)) == sorted(clips.state.rows.tolist())
    assert few.locator("[data-testid=more-rows]").is_hidden()


@pytest.mark.slow
def test_a_clip_is_its_frames_side_by_side(visit, clips):
    row = int(clips.state.rows[0])
    page = visit(link(run="clips", row=row))
    ready(page)
    wait_picture(page, "#input-picture", clips.row(row), by=0)
    wait_picture(page, "#reconstruction-picture", clips.picture(clips.code(row)))
    frames, size = clips.about["shape"][0], clips.about["shape"][3]
    picture = seen(page, "#input-picture")
    assert picture.shape[1] > (frames - 1) * picture.shape[0]
    assert size == clips.about["shape"][2]
    assert page.locator("[data-testid=drop-zone]").is_hidden()
    thumb = page.locator(".thumb img").first
    until(lambda: thumb.evaluate("image => image.naturalWidth") == picture.shape[1], "the thumbnail is there", page)
    box = thumb.bounding_box()
    assert box["width"] == pytest.approx(box["height"], abs=1)  # one frame, not a strip
    assert thumb.evaluate("image => getComputedStyle(image).animationName") == "none"
    thumb.hover()
    until(lambda: thumb.evaluate("image => getComputedStyle(image).animationName") == "frames", "it moves", page)
