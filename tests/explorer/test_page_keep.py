"""Keep: links that restore a view, files, and the same in Python and on the command line."""

import csv
import io
import shlex

import numpy as np
import pytest
from browser import address_of, link, ready, same, seen, until, wait_address, wait_picture
from PIL import Image

import unweave
from unweave.cli import main
from unweave.operations._pictures import as_pictures

ROW = 17


def edits(hf):
    """A category and a dimension set by hand."""
    return "digit", hf.by_information()[0]["name"]


def edited(hf, value=1.25):
    category, name = edits(hf)
    return hf.turned(hf.turned(hf.code(ROW), category, 4), name, value)


@pytest.fixture
def page(visit, hf):
    category, name = edits(hf)
    made = visit(link(run="hf", row=ROW, set=f"{category}:4;{name}:1.25"))
    ready(made)
    wait_picture(made, "#edited-picture", hf.picture(edited(hf)))
    return made


def saved(page, kind):
    """The bytes of a download of the view, and its name."""
    with page.expect_download() as found:
        page.locator(f".view:visible [data-testid=keep-{kind}]").first.click()
    return found.value.path().read_bytes(), found.value.suggested_filename


def lines_of(page):
    """The lines of code of a view, by their titles."""
    details = page.locator(".view:visible [data-testid=keep-code]")
    if details.get_attribute("open") is None:
        details.locator("summary").click()
    page.wait_for_selector(".view:visible .code-line code")
    names = details.locator(".code-line > span:first-child").all_text_contents()
    return dict(zip(names, details.locator("code").all_text_contents(), strict=True))


def test_the_copied_link_restores_the_view(visit, hf):
    page = visit(link(run="hf", row=ROW), permissions=["clipboard-read", "clipboard-write"])
    ready(page)
    names = [knob["name"] for knob in hf.by_information() if knob["kind"] == "real"]
    slider = page.locator(f"input[data-knob='{names[1]}']")
    slider.focus()
    page.keyboard.press("End")
    page.locator("#pad-x").select_option(names[3])
    page.locator(".view:visible [data-testid=copy-link]").click()
    page.get_by_text("Link copied.").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    again = visit(copied)
    ready(again)
    value = float(slider.input_value())
    wait_picture(again, "#edited-picture", hf.picture(hf.turned(hf.code(ROW), names[1], value)))
    assert float(again.locator(f"input[data-knob='{names[1]}']").input_value()) == pytest.approx(value, abs=1e-3)
    assert again.locator("#pad-x").input_value() == names[3]
    assert again.locator("#play").inner_text() == f"Play {names[1]}"
    assert again.locator("[data-row][aria-pressed=true]").count() <= 1


@pytest.mark.slow
def test_an_address_typed_by_hand_is_followed(page, hf):
    category, name = edits(hf)
    assert page.locator("[data-block=digit] .choices").is_visible()  # what was changed is not left in a fold
    page.goto(page.url.partition("#")[0] + link(run="hf", row=ROW + 1, set=f"{name}:-1"))
    wait_picture(page, "#edited-picture", hf.picture(hf.turned(hf.code(ROW + 1), name, -1)))
    page.go_back()
    wait_picture(page, "#edited-picture", hf.picture(edited(hf)))
    assert category in address_of(page)["set"]


def test_files_of_what_is_seen(page, hf):
    content, name = saved(page, "csv")
    assert name == f"hf-{ROW}.csv"
    table = list(csv.DictReader(io.StringIO(content.decode())))
    assert [line["dimension"] for line in table] == hf.about["columns"]
    np.testing.assert_allclose([float(line["input"]) for line in table], hf.code(ROW), rtol=1e-6)
    np.testing.assert_allclose([float(line["yours"]) for line in table], edited(hf), rtol=1e-6)
    content, name = saved(page, "png")
    assert name == f"hf-{ROW}.png"
    with Image.open(io.BytesIO(content)) as image:
        drawn = np.asarray(image.convert("L"))
    assert min(drawn.shape) > 40
    assert len(np.unique(drawn)) > 10
    content, name = saved(page, "gif")
    assert name == f"hf-{ROW}.gif"
    with Image.open(io.BytesIO(content)) as image:
        assert image.n_frames >= 9


def test_the_python_line_makes_the_same_picture(page, hf):
    line = lines_of(page)["Python"]
    result = eval(line, {"unweave": unweave})
    picture = as_pictures(result.images, hf.state.dataset.spec).grid[0, 2]
    assert same(seen(page, "#edited-picture"), picture)


@pytest.mark.slow
def test_the_command_makes_the_same_picture(page, hf, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(lines_of(page)["Command line"])
    assert words[0] == "unweave"
    with pytest.raises(SystemExit) as ended:
        main([*words[1:], "--out", "shown.png"])
    assert ended.value.code == 0
    content, _ = saved(page, "png")
    with Image.open(io.BytesIO(content)) as page_image, Image.open(tmp_path / "shown.png") as command_image:
        np.testing.assert_array_equal(np.asarray(page_image), np.asarray(command_image))


@pytest.mark.slow
def test_lines_can_be_copied(visit):
    page = visit(link("training", run="hf"), permissions=["clipboard-read", "clipboard-write"])
    line = lines_of(page)["Python"]
    page.get_by_role("button", name="Copy: Python").click()
    until(lambda: page.evaluate("navigator.clipboard.readText()") == line, "the line is in the clipboard", page)
    assert set(eval(line, {"unweave": unweave})) >= {"step", "total"}


@pytest.mark.slow
def test_links_of_the_other_views_restore_them(visit, hf):
    name = hf.by_information()[1]["name"]
    rows = ",".join(str(row) for row in hf.state.rows[3:5])
    for there, shown, words in (
        (link("mix", run="hf", rows=rows, parts="style"), ".result-title", "Swap: style"),
        (link("mix", run="hf", rows=rows, mode="interpolate", steps=4), "thead", "0.33"),
        (link("understand", run="hf", knob=name, factor="digit"), ".detail-card h2", f"{name} and digit"),
        (link("understand", run="hf", map="importance"), ".map-card .note", "Importance of each dimension"),
        (link("training", run="hf", whole=1), "#training-status", "step 120"),
        (link("operations", run="hf", op="traverse", **{"p.steps": 3, "orows": 9}), "thead", "-2\t0\t2"),
    ):
        page = visit(there)
        page.locator(f".view:visible {shown}", has_text=words.split("\t")[0]).first.wait_for()
        before = page.locator(f".view:visible {shown}").first.inner_text()
        assert words in before.replace("plays\t", "")
        page.reload()
        until(
            lambda page=page, shown=shown, before=before: (
                page.locator(f".view:visible {shown}").count()
                and page.locator(f".view:visible {shown}").first.inner_text() == before
            ),
            f"{there} after a reload",
            page,
        )


@pytest.mark.slow
def test_files_of_the_other_views(visit, hf):
    ends = {"png": b"\x89PNG", "gif": b"GIF8", "csv": b""}
    heads = {
        "understand": "dimension,digit",
        "training": "step,",
        "mix": "row,column,x0",
        "operations": "row,column,x0",
    }
    views = {"mix": "png csv", "understand": "png csv", "training": "png csv", "operations": "png gif csv"}
    for view, kinds in views.items():
        page = visit(link(view, run="hf", op="traverse"))
        page.locator(".view:visible :is(.heat, .chart, [data-testid=result])").first.wait_for()
        for kind in kinds.split():
            content, name = saved(page, kind)
            assert name.startswith("hf-")
            assert name.endswith(kind)
            assert content.startswith(ends[kind])
            if kind == "csv":
                assert content.decode().startswith(heads[view])


@pytest.mark.slow
def test_the_back_button_of_the_browser_leaves_nothing_behind(page, hf):
    page.locator("#reset").click()
    wait_address(page, set="")
    wait_picture(page, "#edited-picture", hf.picture(hf.code(ROW)))
    page.reload()
    ready(page)
    wait_picture(page, "#edited-picture", hf.picture(hf.code(ROW)))
