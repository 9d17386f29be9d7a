"""Reproductions: a toy paper is trained, measured, drawn and told; what is finished is reused; failures are results."""

import functools
import html.parser
import json
import os
import re
import statistics
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from unweave.base.errors import DataError, UnweaveError
from unweave.cli import cli, main
from unweave.data import load
from unweave.studies import _complete
from unweave.studies._complete import Share
from unweave.studies._study import PlannedRun
from unweave.studies.reproductions import _evidence, _runner
from unweave.studies.reproductions._digest import code_digest
from unweave.studies.reproductions._lab import Lab
from unweave.studies.reproductions._page import formatted
from unweave.studies.reproductions._reproduction import (
    REPRODUCTIONS,
    SCALES,
    Claim,
    Figure,
    Reproduction,
    at_least,
    at_most,
    between,
)
from unweave.studies.reproductions._runner import run_reproduction

SMALL = {"training.batch_size": 8, "nets.hidden": [8], "latent": 3}
STEPS = {"quick": 3, "paper": 4}


def plan(scale, seeds):
    settings = {**SMALL, "training.steps": STEPS[scale]}
    rows = [("small", "digits", {}), ("round", "blobs", {"resolution": 8})]
    return [
        PlannedRun(row, "vae", data, seed, settings=settings, data_settings=more, split={"train": 0.8})
        for seed in seeds
        for row, data, more in rows
    ]


MEASURED = []


def spread(lab, seed):
    MEASURED.append(seed)
    run = lab.run("small", seed)
    return float(np.std(run.encode_rows(run.split_rows()["test"][:50])["z"]))


def steps_of_all(lab, seed):
    assert seed == -1
    return sum(lab.run("round", number).steps for number in lab.seeds)


def draw(lab, path):
    from PIL import Image

    seeds = len(lab.seeds)
    Image.fromarray(np.full((4, 4 * seeds), 200, dtype=np.uint8)).save(path)


TOY = Reproduction(
    name="toy",
    summary="codes of a toy",
    needs=("digits",),
    plan=plan,
    claims=(
        Claim("some", "Codes differ between inputs.", "they do", "units", spread, at_least(0.001), rows=("small",)),
        Claim("vast", "Codes are vast.", "1000", "units", spread, at_least(1000), rows=("small",)),
        Claim("steps", "All take steps.", "6", "steps", steps_of_all, between(6, 6), rows=("round",), per_seed=False),
    ),
    figures=(Figure("grey", "Grey & flat.", draw, rows=("small",)),),
    notes="Shorter than `the paper`.\n\n- few steps\n- small <nets>",
)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The toy registered, in an empty folder; runs train in this process, which is quicker. Gives what was started."""
    monkeypatch.setitem(REPRODUCTIONS._extra, "toy", TOY)
    monkeypatch.chdir(tmp_path)
    started = []

    def here(path, threads, *words):
        started.append(words[0])
        cli.main(args=[*words], prog_name="unweave", standalone_mode=False)

    monkeypatch.setattr(_complete, "_command", here)
    MEASURED.clear()
    return started


def reproduce(**options):
    return run_reproduction("toy", **{"seeds": 2, "say": lambda line: None, **options})


def by_name(entries):
    return {entry["name"]: entry for entry in entries}


def call(*words):
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    return stopped.value.code


class Elements(html.parser.HTMLParser):
    """Images, text and whether every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.images, self.texts = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.images.append(dict(attributes))
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_evidence_has_every_seed_and_how_it_was_made(toy, tmp_path):
    evidence = reproduce(out=tmp_path / "out")
    assert json.loads((tmp_path / "out" / "evidence.json").read_text()) == evidence
    claims = by_name(evidence["claims"])
    values = [value["value"] for value in claims["some"]["values"]]
    assert [value["seed"] for value in claims["some"]["values"]] == [0, 1]
    assert claims["some"]["mean"] == statistics.fmean(values)
    assert claims["some"]["sd"] == statistics.stdev(values)
    assert values[0] != values[1]
    assert claims["some"]["holds"]
    assert not claims["vast"]["holds"]
    assert claims["steps"]["mean"] == 6
    assert claims["steps"]["sd"] is None
    assert all(claim["seeds"] == [0, 1] for claim in claims.values())
    assert evidence["seeds"] == [0, 1]
    assert evidence["command"] == "unweave reproduce toy --scale quick --seeds 2 --jobs 1"
    assert {"commit", "date", "environment", "notes"} <= set(evidence)
    assert evidence["substitute"] == {}
    runs = by_name(evidence["runs"])
    assert set(runs) == {"small-0", "small-1", "round-0", "round-1"}
    assert all(run["steps"] == 3 and run["split"] == {"train": 0.8} and not run["reused"] for run in runs.values())
    manifest = json.loads((tmp_path / "runs/reproduce/toy/quick/small-0/run.json").read_text())
    assert manifest["split"]["train"] == 0.8
    assert toy == ["train"] * 4


def test_the_page_opens_and_shows_claims_and_figures(toy, tmp_path):
    reproduce(out=tmp_path / "out")
    page = Elements((tmp_path / "out" / "index.html").read_text())
    assert page.open == []
    assert [image["alt"] for image in page.images] == ["Grey & flat."]
    assert (tmp_path / "out" / page.images[0]["src"]).read_bytes().startswith(b"\x89PNG")
    text = " ".join(page.texts)
    for told in (
        "Codes are vast.",
        "FAILS",
        "holds",
        "seed 1",
        "all seeds",
        "--seeds 2",
        "Shorter than",
        "small <nets>",
    ):
        assert told in text, told


def test_finished_runs_and_measurements_are_reused(toy, tmp_path):
    first = reproduce(out=tmp_path / "out")
    toy.clear()
    MEASURED.clear()
    again = reproduce(out=tmp_path / "out")
    assert toy == []
    assert MEASURED == []
    assert all(run["reused"] for run in again["runs"])
    assert all(value["reused"] for claim in again["claims"] for value in claim["values"])
    assert [claim["mean"] for claim in again["claims"]] == [claim["mean"] for claim in first["claims"]]

    more = reproduce(out=tmp_path / "out", seeds=3)
    assert toy == ["train"] * 2
    assert MEASURED == [2, 2]  # "some" and "vast" at the new seed only
    assert by_name(more["claims"])["steps"]["mean"] == 9  # over all seeds: another number with other seeds


def test_a_run_that_changed_is_measured_again(toy, tmp_path):
    first = by_name(reproduce(out=tmp_path / "out")["claims"])["some"]
    folder = tmp_path / "runs" / "reproduce" / "toy" / "quick"
    # other weights in place of a run: its measurements are no longer true
    (folder / "small-0" / "weights.safetensors").write_bytes((folder / "small-1" / "weights.safetensors").read_bytes())
    (folder / "small-0" / "state.safetensors").unlink()
    MEASURED.clear()
    again = by_name(reproduce(out=tmp_path / "out")["claims"])["some"]
    assert MEASURED == [0, 0]
    assert again["values"][0]["value"] == pytest.approx(again["values"][1]["value"])
    assert again["values"][1]["value"] == first["values"][1]["value"]


def test_a_run_of_another_plan_is_not_counted(toy, tmp_path, monkeypatch):
    reproduce(only=["some"])
    other = [PlannedRun("small", "vae", "digits", 0, settings={**SMALL, "training.steps": 3}, split={"train": 0.7})]
    with pytest.raises(UnweaveError, match=r"other settings than are planned \(split\): move it"):
        _complete.complete(other[0], tmp_path / "runs" / "reproduce" / "toy" / "quick", Share(1, 1, True), score=False)


def test_only_joins_what_was_measured_before(toy, tmp_path):
    out = tmp_path / "out"
    first = reproduce(out=out, only=["steps"], seeds=1)
    assert toy == ["train"]  # nothing but what the claim reads
    assert [claim["name"] for claim in first["claims"]] == ["steps"]
    both = reproduce(out=out, only=["vast", "grey"])
    assert [claim["name"] for claim in both["claims"]] == ["vast", "steps"]  # in the order of the paper
    assert by_name(both["claims"])["steps"] == first["claims"][0]
    assert by_name(both["claims"])["steps"]["seeds"] == [0]
    assert [figure["name"] for figure in both["figures"]] == ["grey"]
    assert {run["name"] for run in both["runs"]} == {"round-0", "small-0", "small-1"}
    with pytest.raises(UnweaveError, match="holds evidence at scale quick, which other claims cannot join"):
        reproduce(out=out, only=["vast"], scale="paper")
    with pytest.raises(UnweaveError, match="unknown claim or figure of toy 'vats': did you mean 'vast'"):
        reproduce(out=out, only=["vats"])


def test_scales_have_runs_and_measurements_of_their_own(toy, tmp_path):
    reproduce(only=["steps"])
    assert reproduce(only=["steps"], scale="paper")["claims"][0]["mean"] == 8
    assert (tmp_path / "reproductions" / "toy" / "evidence.json").exists()
    assert (tmp_path / "reproductions" / "toy" / "paper" / "evidence.json").exists()


def test_missing_data_are_told_before_anything_is_trained(toy, tmp_path, monkeypatch):
    def absent(self):
        raise DataError("digits.csv was not found: put it there")

    monkeypatch.setattr("unweave.data.digits.Digits.load", absent)
    with pytest.raises(DataError, match=r"digits.csv was not found: put it there; or `--data NAME` takes another"):
        reproduce()
    assert toy == []


def test_a_substitute_takes_the_place_of_the_first_data_set(toy, tmp_path):
    evidence = reproduce(data="gaussians", only=["some"], seeds=1)
    assert evidence["substitute"] == {"digits": "gaussians"}
    assert {run["data"] for run in evidence["runs"]} == {"gaussians"}
    assert evidence["command"].endswith("--only some --data gaussians")
    out = tmp_path / "reproductions" / "toy-on-gaussians"
    assert "gaussians stands in for digits" in (out / "index.html").read_text()
    # never mixed with measurements on the real data
    with pytest.raises(UnweaveError, match="at scale quick with gaussians for digits"):
        reproduce(only=["vast"], out=out, seeds=1)
    np.save(tmp_path / "mine.npy", np.random.default_rng(0).random((40, 8, 8), dtype=np.float32))
    assert reproduce(data=str(tmp_path / "mine.npy"), only=["some"], seeds=1)["runs"][0]["steps"] == 3


def test_results_on_other_data_never_replace_the_evidence(tmp_path, monkeypatch):
    (tmp_path / "docs" / "evidence").mkdir(parents=True)
    (tmp_path / "src" / "unweave").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    places = [_evidence.default_out("toy", scale, data) for scale, data in (("quick", None), ("paper", None))]
    assert [str(place) for place in places] == ["docs/evidence/toy", "docs/evidence/toy/paper"]
    assert str(_evidence.default_out("toy", "quick", "a/b.npy")) == "reproductions/toy-on-b"


def test_the_command_prints_the_table_and_failing_is_no_error(toy, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    assert call("reproduce", "toy", "--seeds", "2", "--only", "vast", "--only", "steps") == 0
    shown = capsys.readouterr().out
    assert "vast: Codes are vast." in shown
    assert "(2 seeds)" in shown
    assert re.search(r"\d\.\d+ ± \d\.\d+ units", shown)
    assert "mean at least 1000" in shown
    assert "FAILS" in shown
    assert "holds" in shown
    assert "reproductions/toy/index.html" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce"], "which paper? `unweave reproduce --list` names them"),
        (["reproduce", "tyo"], "unknown reproduction 'tyo': did you mean 'toy'"),
        (["reproduce", "toy", "--only", "som"], "unknown claim or figure of toy 'som': did you mean 'some'"),
        (["reproduce", "toy", "--data", "nowhere"], "unknown data set 'nowhere'"),
        (["reproduce", "toy", "--scale", "qick"], "'quick', 'paper'"),
    ],
)
def test_mistakes_are_one_line(toy, words, message, capsys):
    assert call(*words) == 2
    error = capsys.readouterr().err
    assert message in error.strip().splitlines()[-1]
    assert toy == []


def test_the_list_has_the_last_result_of_every_claim(toy, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    (tmp_path / "docs" / "evidence").mkdir(parents=True)
    (tmp_path / "src" / "unweave").mkdir(parents=True)
    evidence = reproduce(only=["vast"])
    assert call("reproduce", "toy", "--list") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "toy: codes of a toy" in told
    assert "FAILS" in told
    assert f"quick, {evidence['date']}" in told
    assert told.count("not measured yet") == 2
    assert call("reproduce", "--list") == 0
    assert all(f"\n{name}: " in "\n" + capsys.readouterr().out for name in ("toy",))


@pytest.mark.parametrize(
    ("measure", "error", "message"),
    [
        (lambda lab, seed: float("nan"), UnweaveError, "claim 'bad', seed 0: measured nan"),
        (lambda lab, seed: lab.run("round", seed).steps, UnweaveError, "row 'round' is read and not declared"),
        (lambda lab, seed: 1 / 0, ZeroDivisionError, "division"),
    ],
)
def test_a_broken_measurement_is_an_error(toy, monkeypatch, measure, error, message):
    bad = Claim("bad", "It breaks.", "1", "units", measure, at_most(1), rows=("small",))
    monkeypatch.setitem(REPRODUCTIONS._extra, "toy", Reproduction("toy", "broken", ("digits",), plan, (bad,)))
    with pytest.raises(error, match=message):
        reproduce(seeds=1)


def test_criteria():
    assert at_least(2).test([1, 3])
    assert not at_least(2, every=True).test([1, 3])
    assert at_most(2).test([1, 3])
    assert not at_most(2, every=True).test([1, 3])
    assert between(2, 3).test([1, 4])
    assert not between(2, 3, every=True).test([1, 4])
    assert not between(0, 1).test([1, 4])
    assert at_least(0.5).words == "mean at least 0.5"


def test_kept_results_are_computed_once(tmp_path):
    calls = MEASURED
    calls.clear()

    def value(lab, number):
        return lab.kept("some", lambda: MEASURED.append(number) or {"x": np.float32(number), "y": (1, 2)})

    first = value(Lab("quick", [0], tmp_path), 1)
    assert first == value(Lab("quick", [0], tmp_path), 1) == {"x": 1.0, "y": [1, 2]}
    assert calls == [1]
    value(Lab("paper", [0], tmp_path), 1)  # another scale
    value(Lab("paper", [0, 1], tmp_path), 1)  # other seeds, which it did not ask for
    assert calls == [1, 1]
    value(Lab("paper", [0], tmp_path), 2)  # the function holds another number
    assert calls == [1, 1, 2]
    with pytest.raises(UnweaveError, match="is not plain data"):
        Lab("quick", [0], tmp_path).kept("odd", object)
    with pytest.raises(UnweaveError, match="cannot be a file"):
        Lab("quick", [0], tmp_path).kept("a/b", dict)


FIRST, SECOND = 1, 1


def helper():
    return FIRST


def outer(lab, seed, extra=0):
    return [helper() for _ in range(3)] + [extra]


def test_the_digest_follows_functions_and_constants(monkeypatch):
    before = code_digest(outer)
    assert code_digest(outer) == before
    monkeypatch.setattr(sys.modules[__name__], "SECOND", 2)
    assert code_digest(outer) == before  # not used
    monkeypatch.setattr(sys.modules[__name__], "FIRST", 2)
    assert code_digest(outer) != before  # used by a function that it uses
    assert code_digest(functools.partial(outer, extra=1)) != code_digest(functools.partial(outer, extra=2))
    made = [lambda lab, seed, number=number: number for number in (1, 2)]
    assert code_digest(made[0]) != code_digest(made[1])


def test_the_digest_is_the_same_in_every_process():
    code = (
        "from unweave.studies.reproductions._digest import code_digest\n"
        "def f(x):\n    return x in {'a', 'b', 'c', 'd'} or x in ('e', f)\n"
        "print(code_digest(f))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_notes_become_paragraphs_lists_and_links():
    made = formatted("See `x` and [it](https://a.org/b).\n- one\n  more\n- two <b>\n\nEnd")
    assert made.split("\n") == [
        '<p>See <code>x</code> and <a href="https://a.org/b">it</a>.</p>',
        "<ul><li>one more</li><li>two &lt;b&gt;</li></ul>",
        "<p>End</p>",
    ]


def test_evidence_of_the_checkout_is_copied_into_the_package(tmp_path, monkeypatch):
    packaged = tmp_path / "src" / "unweave" / "studies" / "reproductions" / "evidence"
    packaged.mkdir(parents=True)
    monkeypatch.setattr(_evidence, "PACKAGED", packaged)
    home = tmp_path / "docs" / "evidence" / "toy"
    home.mkdir(parents=True)
    evidence = {"format": 1, "reproduction": "toy", "scale": "quick", "claims": []}
    _evidence.write_evidence(tmp_path / "elsewhere", evidence)
    assert list(packaged.iterdir()) == []
    _evidence.write_evidence(home, evidence)
    monkeypatch.chdir(tmp_path.parent)
    (home / "evidence.json").unlink()  # as where only the package is installed
    assert _evidence.committed("toy", "quick") == evidence
    assert _evidence.committed("toy", "paper") is None


def test_a_substitute_without_a_test_file_is_measured_on_rows_that_were_not_trained_on(tmp_path):
    digits = load("digits")
    parts = {"train": np.arange(1000), "validation": np.arange(1000, 1200), "test": np.arange(1200, 1797)}

    class Small(Lab):
        def run(self, row, seed):
            return SimpleNamespace(dataset=lambda: digits, split_rows=lambda: parts)

    lab = Small("quick", [0], tmp_path, substitute={"mnist": "digits"})
    found = lab.held_out("vae", 0, "mnist", split="test")
    np.testing.assert_array_equal(found.observations(range(597)), digits.observations(parts["test"]))
    del parts["test"]
    assert len(lab.held_out("vae", 0, "mnist", split="test")) == 200
    del parts["validation"]
    with pytest.raises(UnweaveError, match="vae-0 was trained on all of digits"):
        lab.held_out("vae", 0, "mnist", split="test")
    assert len(lab.held_out("vae", 0, "mnist")) == 1797  # no setting is lost


def test_data_that_are_measured_on_are_asked_for_before_training(tmp_path, monkeypatch):
    """Files of training are there, those of testing are not."""
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    monkeypatch.setattr("pooch.retrieve", lambda *args, **kwargs: (_ for _ in ()).throw(OSError("no network")))
    reproduction = replace(REPRODUCTIONS["structured"], plan=lambda scale, seeds: [])
    lab = Lab("quick", [0], tmp_path, replaceable="mnist")
    with pytest.raises(DataError, match=r"t10k.*`--data NAME` takes another data set in place of mnist"):
        _runner._require_data(lab, [], reproduction, everything=True)


def test_damaged_evidence_is_told(tmp_path):
    (tmp_path / "evidence.json").write_text("{")
    with pytest.raises(UnweaveError, match=r"evidence.json is damaged"):
        _evidence.to_merge_with(tmp_path / "evidence.json", "quick", {})


def test_the_page_on_writing_a_claim_runs(toy, root, run_page, capsys, monkeypatch):
    monkeypatch.setattr(REPRODUCTIONS, "_extra", {})
    monkeypatch.setenv("COLUMNS", "120")  # the claim in one line
    assert run_page(root / "docs" / "reproduce.md") == 1
    assert toy == ["train"]
    shown = capsys.readouterr().out
    assert "error: Reconstructions are close." in shown
    assert "['codes.png', 'evidence.json', 'index.html']" in shown


# All reproductions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REPRODUCTIONS.names())
def test_claims_and_plans_fit_together(name):
    reproduction = REPRODUCTIONS[name]
    assert reproduction.claims
    assert reproduction.notes.strip()
    names = [item.name for item in (*reproduction.claims, *reproduction.figures)]
    assert len(set(names)) == len(names)
    for claim in reproduction.claims:
        assert all((claim.words.endswith("."), claim.paper, claim.unit, claim.holds.words)), claim.name
    assert all(figure.caption.strip() for figure in reproduction.figures)
    for scale in SCALES:
        planned = reproduction.plan(scale, range(3))
        assert planned == reproduction.plan(scale, range(3))
        assert len({run.name for run in planned}) == len(planned)
        rows = {run.row for run in planned}
        used = {row for item in (*reproduction.claims, *reproduction.figures) for row in item.rows}
        assert used == rows, "rows that are read and rows that are trained are the same"
        for run in planned:
            _complete.SYSTEMS[run.system].config_class.preset(run.preset).override(run.settings)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", REPRODUCTIONS.names())
def test_committed_evidence_is_of_these_claims(name, scale, root):
    folder = root / "docs" / "evidence" / name / ("" if scale == "quick" else scale)
    if scale == "paper" and not (folder / "evidence.json").exists():
        pytest.skip(f"{name} has no evidence at scale {scale} yet")
    evidence = json.loads((folder / "evidence.json").read_text())
    claims = {claim.name: (claim.words, claim.paper, claim.holds.words) for claim in REPRODUCTIONS[name].claims}
    found = {record["name"]: (record["words"], record["paper"], record["criterion"]) for record in evidence["claims"]}
    assert found == claims
    for claim in REPRODUCTIONS[name].claims:
        record = by_name(evidence["claims"])[claim.name]
        assert record["holds"] == claim.holds.test([value["value"] for value in record["values"]])
        assert len(record["values"]) >= 3 or not claim.per_seed
    assert not evidence["substitute"]
    for figure in evidence["figures"]:
        assert 0 < (folder / figure["file"]).stat().st_size <= 150_000
    assert (folder / "index.html").exists()
    assert json.loads(_evidence._copy(name, scale).read_text()) == evidence, "the package's copy is the same"
