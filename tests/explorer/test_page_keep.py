"""Keep: links that restore a view, files, and the same in Python and on the command line."""

import csv
import io
import shlex

import numpy as np
import pytest
from browser import address_of, choose_random, link, link_of, ready, same, seen, until, wait_address, wait_picture
from PIL import Image

import unweave
from unweave.cli import main
from unweave.media import Shown, save_png
from unweave.media.pictures import as_pictures

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


def pixels(content):
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def sheet(expected, row, code, title, folder):
    """The pixels of a PNG with an input, its reconstruction and the picture of a code, made without the operation."""
    rendered = [
        expected.state.run.system().render(expected.state.reference.unflat(np.asarray(each, np.float32)[None]))[0]
        for each in (expected.code(row), code)
    ]
    images = np.stack([expected.state.dataset.observations([row])[0], *rendered])[None]
    shown = Shown(title, images, (f"#{row}",), ("input", "reconstruction", "edited"))
    return pixels(save_png(shown, folder / "sheet.png", expected.state.dataset.spec).read_bytes())


def made_by(line, expected):
    """The third picture that a line of Python makes."""
    result = eval(line, {"unweave": unweave})
    return as_pictures(result.images, expected.state.dataset.spec).grid[0, 2]


def lines_of(page):
    """The lines of code of a view, by their titles."""
    details = page.locator(".view:visible [data-testid=keep-code]")
    if details.get_attribute("open") is None:
        details.locator("summary").click()
    page.wait_for_selector(".view:visible .code-line code")
    pairs = "nodes => nodes.map((node) => [node.firstChild.textContent, node.querySelector('code').textContent])"
    return dict(details.locator(".code-line").evaluate_all(pairs))


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
    there = link(run="hf", row=ROW + 1, set=f"{name}:-1")
    copy = "document.querySelector('.view:not([hidden]) [data-testid=copy-link]').click()"  # writes the address at once
    page.evaluate(f"there => {{ location.hash = there; {copy}; }}", there)
    wait_picture(page, "#edited-picture", hf.picture(hf.turned(hf.code(ROW + 1), name, -1)))


def test_files_of_what_is_seen(page, hf, tmp_path):
    content, name = saved(page, "csv")
    assert name == f"hf-{ROW}.csv"
    table = list(csv.DictReader(io.StringIO(content.decode())))
    assert [line["dimension"] for line in table] == hf.about["columns"]
    np.testing.assert_allclose([float(line["input"]) for line in table], hf.code(ROW), rtol=1e-6)
    np.testing.assert_allclose([float(line["yours"]) for line in table], edited(hf), rtol=1e-6)
    content, name = saved(page, "png")
    assert name == f"hf-{ROW}.png"
    title = "Edit: " + ", ".join(f"{name}={value}" for name, value in zip(edits(hf), (4, 1.25), strict=True))
    assert same(pixels(content), sheet(hf, ROW, edited(hf), title, tmp_path))


@pytest.mark.slow
def test_the_gif_is_that_of_the_input_and_waits_while_its_code_is_changed(page, hf):
    gif = page.locator(".view:visible [data-testid=keep-gif]")
    assert gif.is_disabled()
    assert "Reset first" in gif.get_attribute("title")
    page.locator("#reset").click()
    until(gif.is_enabled, "the GIF can be made", page)
    content, name = saved(page, "gif")
    assert name == f"hf-{ROW}.gif"
    with Image.open(io.BytesIO(content)) as image:
        assert image.n_frames >= 9


def test_the_python_line_makes_the_same_picture(page, hf):
    assert same(seen(page, "#edited-picture"), made_by(lines_of(page)["Python"], hf))


def soft_seed(expected, name):
    """A seed whose draw no single value of a knob makes: a mixed category, or values that change over time."""
    columns = expected.knob(name)["columns"]
    return next(
        seed
        for seed in range(100)
        if np.ptp(drawn := np.take(expected.state.draw(seed), columns)) > 0.3 and np.abs(drawn - 1).min() > 0.2
    )


@pytest.mark.slow
@pytest.mark.parametrize("run", ["hf", "clips"])
def test_a_draw_and_what_is_turned_after_it_are_kept_as_seen(run, request, visit, tmp_path):
    expected = request.getfixturevalue(run)
    knobs = expected.about["knobs"]
    seed = soft_seed(expected, next(knob["name"] for knob in knobs if len(knob["columns"]) > 1))
    turned = [knob["name"] for knob in expected.by_information() if knob["kind"] == "real"][-1]
    page = visit(link(run=run, row=ROW))
    ready(page)
    page.evaluate("seed => { Math.random = () => (seed + 0.5) / 1e6; }", seed)
    assert choose_random(page) == seed
    drawn = np.asarray(expected.state.draw(seed))
    wait_picture(page, "#edited-picture", expected.picture(drawn))
    assert same(made_by(lines_of(page)["Python"], expected), seen(page, "#edited-picture"))
    sheets = sheet(expected, ROW, drawn, f"Edit of draw {seed}: nothing is set", tmp_path)
    assert same(pixels(saved(page, "png")[0]), sheets)
    page.goto(page.url.partition("#")[0] + link_of(page) + f"&set={turned}:1.5")
    wait_picture(page, "#edited-picture", expected.picture(expected.turned(drawn, turned, 1.5)))
    line = until(lambda: f"set='{turned}=1.5'" in (found := lines_of(page)["Python"]) and found, "its line", page)
    assert same(made_by(line, expected), seen(page, "#edited-picture"))
    assert f"--seed {seed}" in lines_of(page)["Command line"]


@pytest.mark.slow
def test_of_an_own_image_no_line_is_shown_that_makes_something_else(page):
    memory = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 20), dtype=np.uint8)).save(memory, "PNG")
    own = {"name": "own.png", "mimeType": "image/png", "buffer": memory.getvalue()}
    lines_of(page)
    page.locator("[data-testid=own-image]").set_input_files(own)
    page.get_by_text("No command makes the same pictures").wait_for()
    assert page.locator(".view:visible .code-line").count() == 0


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
