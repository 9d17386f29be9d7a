"""The report: one safe, self-contained file, whatever the run has or lacks."""

import base64
import io
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from toy_run import ToyRun

from unweave.core.score import Score
from unweave.metrics import Evaluation, evaluate
from unweave.report import facts, write_report
from unweave.report.build import _score_rows, build_report

VOID = {"meta", "img", "br", "link", "input", "hr"}
PARTS = ("dimensions", "reconstructions", "knowledge", "scores", "training", "samples", "settings", "again")


class Page(HTMLParser):
    """Elements with attributes, text, and whether every element is closed."""

    def __init__(self, text: str):
        super().__init__()
        self.elements, self.open, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text += data

    def sections(self):
        return [attributes["id"] for tag, attributes in self.elements if tag == "section"]


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    run = ToyRun(tmp_path_factory.mktemp("scored"))
    scores = evaluate(run.codes(), run.dataset().factors, scores=["mig", "information"])
    importance = np.random.default_rng(0).random((10, 5))
    forest = Score("dci_forest", 0.5, (0.4, 0.6), {"importance": importance}, {"factors": run.dataset().factors.names})
    run._scores = Evaluation({**scores, "dci_forest": forest})
    return run, build_report(run)


def read_image(source: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(source.removeprefix("data:image/png;base64,"))))


def test_a_whole_report(scored):
    run, text = scored
    page = Page(text)
    assert not page.open, f"{page.open[-1]} is not closed"
    assert tuple(page.sections()) == PARTS
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.elements:
        if tag == "a":
            assert attributes["href"].removeprefix("#") in PARTS
        if tag == "img":
            assert attributes["alt"]
        if tag == "svg":
            assert attributes["aria-label"]
    assert "6 of 8" in page.text
    assert "2 unused" in page.text
    assert f"{run.scores()['mig'].value:.3f}" in page.text
    assert "@misc{blobs" in page.text
    assert "unweave train blobs" in page.text
    assert "on 2 threads of a CPU" in page.text


def test_threads_that_were_chosen_are_told(tmp_path):
    run = ToyRun(tmp_path, threads=[1, 2, 1])
    run.manifest.threads = None
    text = Page(build_report(run)).text
    assert "on 1 to 2 threads of a CPU" in text
    assert "chosen while it trained, see threads.csv" in text
    assert "--threads" not in text


def test_nothing_is_fetched(scored):
    _, text = scored
    page = Page(text)
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "base")
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "data:").startswith(("data:image/png", "data:", "#")), (tag, attributes)
    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text
    assert not re.search(r"url\((?!#|\" \+)", text)
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_names_are_escaped(scored):
    _, text = scored
    assert "soft &lt;shapes&gt;" in text
    assert "soft <shapes>" not in text


def test_figures_are_well_formed_and_follow_the_page(scored):
    _, text = scored
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == 3 + 3  # information, knowledge, Hinton; three terms
    for drawing in drawings:
        ElementTree.fromstring(drawing.replace("xlink:href", "href"))
        assert "var(--" in drawing
        assert "#00fe" not in drawing
        assert "DejaVu" not in drawing
    assert "<style" not in "".join(drawings)


def test_strips_show_the_traversal(scored):
    _, text = scored
    strips = [a for tag, a in Page(text).elements if tag == "img" and a.get("class") == "strip"]
    assert len(strips) == 8
    cells = [a for _, a in Page(text).elements if a.get("class") == "thumb"]
    assert sorted(int(a["data-cells"]) for a in cells) == [3, 3, 9, 9, 9, 9, 9, 9]
    for strip, cell in zip(strips, cells, strict=True):
        image = read_image(strip["src"])
        count, width, gap = int(cell["data-cells"]), int(cell["data-width"]), int(cell["data-gap"])
        assert image.size == (count * (width + gap) - gap, int(cell["data-height"]))
        assert image.size == (int(strip["width"]), int(strip["height"]))
    first = np.array(read_image(strips[0]["src"]).convert("L")).astype(int)
    width, gap = int(cells[0]["data-width"]), int(cells[0]["data-gap"])
    across = [first[:-6, k * (width + gap) :][:, :width].sum(axis=0).argmax() for k in (0, 4, 8)]
    assert across[0] < across[1] < across[2], "the first row moves the blob to the right"


def test_dimensions_are_in_the_order_of_information(scored):
    run, text = scored
    names = re.findall(r'<div class="name">([^<]+)', text)
    nats = run.scores()["information"].parts["per_dimension"]
    known = [name for name in names if name in nats]
    assert known == sorted(known, key=lambda name: -nats[name])
    assert re.search(r"z\[0\].*?<span class=\"chip\">x <small>\d+ %", text, re.DOTALL)


def test_without_factors_the_supervised_parts_say_why(tmp_path):
    run = ToyRun(tmp_path, factors=False)
    run._scores = evaluate(run.codes(), None, scores=["information"])
    text = build_report(run)
    page = Page(text)
    assert tuple(page.sections()) == PARTS
    assert "comes without ground-truth factors" in page.text
    assert "has no factors" in page.text
    assert "Hinton" not in page.text
    assert 'class="chip' not in text


def test_without_scores_the_rest_is_there(tmp_path):
    page = Page(build_report(ToyRun(tmp_path)))
    assert "has not been scored yet" in page.text
    assert "I(z; v) as a percentage" in page.text


@pytest.mark.parametrize("log_rows", [0, 1, 3])
def test_few_log_rows(tmp_path, log_rows):
    page = Page(build_report(ToyRun(tmp_path, log_rows=log_rows)))
    assert ("The log has no rows yet" in page.text) == (log_rows == 0)
    assert ("total_correlation" in page.text) == (log_rows > 0)


@pytest.mark.parametrize("blobs", [{"vector": True}, {"vector": True, "side": 80}, {"channels": 3}, {"channels": 2}])
def test_other_observations(tmp_path, blobs):
    run = ToyRun(tmp_path, **blobs)
    text = build_report(run)
    images = [read_image(a["src"]) for tag, a in Page(text).elements if tag == "img"]
    assert len(images) == 8 + 2
    if blobs.get("channels") == 3:
        assert {image.mode for image in images} == {"RGBA"}


def test_clips(tmp_path):
    run = ToyRun(tmp_path, system="Clips", steps=4, side=20)
    text = build_report(run)
    page = Page(text)
    assert re.findall(r'<div class="name">([^<]+)', text)[:2] == ["place[:,0]", "place[:,1]"]
    assert "at all steps together, and the middle frame is shown" in page.text
    images = [read_image(a["src"]) for tag, a in page.elements if tag == "img"]
    assert len(images) == 5 + 2  # two places, light, shape, count; reconstructions; samples
    pair = np.array(images[5].convert("RGB")).astype(int)
    assert pair.shape == (2 * 60 + 2, 4 * 61 - 1, 3)  # two lines of four frames of 20 pixels, enlarged
    clip = run.dataset().observations(facts.spread_rows(run.codes(), 1, run.manifest.seed))[0]
    for step in range(4):
        shown = pair[1:60:3, step * 61 + 1 : step * 61 + 60 : 3].transpose(2, 0, 1)  # the middle of each 3 x 3 pixels
        np.testing.assert_array_equal(shown, np.round(255 * clip[step].astype(np.float64)))


def test_systems_that_cannot_render_lack_the_pictures(tmp_path):
    run = ToyRun(tmp_path)
    run._system = type("Encoder", (), {"card": run.system().card, "config_class": type(run.system()).config_class})()
    page = Page(build_report(run))
    assert "reconstructions" not in page.sections()
    assert "samples" not in page.sections()
    assert not [a for tag, a in page.elements if tag == "img"]


def test_the_file_is_written_small_and_the_same_again(tmp_path):
    run = ToyRun(tmp_path / "run")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "citations.bib").write_text("@misc{cited, title={<b>}}")
    (tmp_path / "run" / "environment.json").write_text('{"torch": "9.9"}')
    path = write_report(run)
    assert path == tmp_path / "run" / "report.html"
    text = path.read_text(encoding="utf-8")
    assert len(text) < 1_000_000
    assert "@misc{cited, title={&lt;b&gt;}}" in text
    assert "9.9" in text
    assert write_report(run).read_text(encoding="utf-8") == text


def test_skipped_scores_and_notes_are_told(tmp_path):
    run = ToyRun(tmp_path, scores=Evaluation({}, {}, ()))
    scores = evaluate(run.codes(), run.dataset().factors, scores=["information"])
    run._scores = Evaluation(dict(scores), {"kim": "too few rows & values"}, ("left out: tint",))
    page = Page(build_report(run))
    assert "1 that do not apply here" in page.text
    assert "too few rows & values" in page.text
    assert "left out: tint" in page.text


def test_numbers_read_at_a_glance():
    scores = {
        "ud90": Score("ud90", 4.0, (4.0, 5.0)),
        "mig": Score("mig", 1.0, (0.98, 1.0)),
        "mine": Score("mine", -12.3456, None, higher_is_better=None),
        "nan": Score("nan", float("nan")),
    }
    rows = {row["name"]: row for row in _score_rows(scores)}
    assert (rows["ud90"]["value"], rows["ud90"]["interval"], rows["ud90"]["bar"]) == ("4", "4 to 5", None)
    assert (rows["mig"]["value"], rows["mig"]["interval"]) == ("1.000", "0.980 to 1.000")
    assert rows["mig"]["bar"] == pytest.approx({"value": 100.0, "left": 98.0, "width": 2.0})
    assert (rows["mine"]["value"], rows["mine"]["interval"], rows["mine"]["better"]) == ("−12.35", "", "")
    assert rows["nan"]["value"] == "–"


def test_the_page_about_reports_runs(run_page, root):
    assert run_page(root / "docs" / "report.md") == 1
