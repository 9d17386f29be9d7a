"""Scores say of how many rows of which split they are, warn of few, and go to others when asked."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from unweave.base.errors import UnknownNameError
from unweave.cli import cli
from unweave.data import Split, from_arrays
from unweave.runs import Run, train
from unweave.runs.scored import told_of_rows

SMALL = {"nets.kind": "dense", "nets.hidden": [8], "training.steps": 3, "training.batch_size": 8}
SPLIT = Split(train=0.8, validation=0.1)


def data():
    rng = np.random.default_rng(0)
    factors = {"colour": np.arange(200) % 3, "who": np.arange(200) % 40}
    return from_arrays(rng.random((200, 6, 6), dtype=np.float32), factors=factors, name="photos")


@pytest.fixture
def run(tmp_path):
    return train("vae", data(), settings=SMALL, split=SPLIT, run=tmp_path / "run", progress=False, threads=1)


@pytest.mark.parametrize(
    ("split", "rows", "told"),
    [
        (None, 20, "the 20 test rows of photos, which has 200 rows"),
        ("test", 20, "the 20 test rows of photos, which has 200 rows"),
        ("train", 160, "the 160 training rows of photos, which has 200 rows"),
        ("validation", 20, "the 20 validation rows of photos, which has 200 rows"),
        ("all", 200, "all 200 rows of photos, 160 of them trained on"),
    ],
)
def test_the_rows_that_were_asked_are_scored_told_and_kept(run, split, rows, told):
    found = run.evaluate(["mapc", "mig"], split=split)
    assert found.about == told
    assert f"scored: {told}" in found.table().splitlines()
    chosen = run.split_rows()[split or "test"] if split != "all" else np.arange(200)
    np.testing.assert_array_equal(run.code_rows(), chosen)
    record = json.loads((run.path / "scores.json").read_text())
    assert (record["rows"], record["split"], record["evaluation"]["about"]) == (rows, split or "test", told)
    assert told in run.report().read_text()
    assert Run.open(run.path, data=data()).scores().about == told


def test_what_was_encoded_is_scored_until_another_split_is_asked(run):
    run.encode_split("train")
    assert run.evaluate(["mapc"]).about.startswith("the 160 training rows")
    assert run.evaluate(["mapc"], split="test").about.startswith("the 20 test rows")
    assert run.evaluate(["mapc"]).about.startswith("the 20 test rows")


def test_a_warning_says_how_to_score_more(run):
    told = "20 rows are few: chance alone makes codes seem to know all of who, 87 % of colour, which intervals do not"
    few = run.evaluate(["mig"])
    assert told in few.warning
    assert f"`unweave evaluate {run.path} --split all` scores 200 (rows trained on among them)" in few.warning
    assert few.warning in run.report().read_text().replace("&#39;", "'")
    every = run.evaluate(["mig"], split="all")
    assert "of who" in every.warning
    assert "--split" not in every.warning  # there are no more


def test_other_scores_of_the_same_rows_lose_nothing(run):
    run.evaluate()
    before = run.scores()
    run.evaluate(["mapc"])  # for which alone nothing of factors is to be said
    after = run.scores()
    assert (after.warning, after.skipped, set(after), set(after.notes)) == (
        before.warning,
        before.skipped,
        set(before),
        set(before.notes),
    )
    assert "who" in after.warning


def test_other_rows_of_the_same_split_are_other_rows(run):
    run.evaluate(["mapc"], split="train")
    run.encode_split("train", most=50)
    assert run.scores() is None
    assert run.evaluate(["mapc"]).about == "50 of the 160 training rows of photos, which has 200 rows"


def test_a_split_that_is_none(run):
    with pytest.raises(UnknownNameError, match="unknown split of this run 'tets': did you mean 'test'"):
        run.evaluate(["mapc"], split="tets")
    assert not (run.path / "codes.npz").exists()


def test_rows_of_more_than_are_scored():
    splits = {"train": np.arange(90_000), "test": np.arange(20_000)}
    told = "10,000 of the 20,000 test rows of dots, which has 110,000 rows"
    assert told_of_rows("dots", 110_000, splits, "test", 10_000) == told
    told = "10,000 of the 110,000 rows of dots, at random, those trained on among them"
    assert told_of_rows("dots", 110_000, splits, "all", 10_000) == told


def test_on_the_command_line(tmp_path):
    folder = tmp_path / "run"
    train("vae", "digits", settings=SMALL, run=folder, progress=False, threads=1)
    words = ["evaluate", str(folder), "--quiet", "--score", "mig"]
    few = CliRunner().invoke(cli, words).output.splitlines()
    assert few[-2] == "scored: the 180 test rows of digits, which has 1,797 rows"
    assert few[-1].startswith("warning: 180 rows are few: ")
    every = CliRunner().invoke(cli, [*words, "--split", "all"]).output.splitlines()
    assert every[-1] == "scored: all 1,797 rows of digits, 1,617 of them trained on"
    np.save(tmp_path / "codes.npy", np.zeros((9, 2)))
    alone = CliRunner().invoke(cli, ["evaluate", str(tmp_path / "codes.npy"), "--split", "all"])
    assert alone.exit_code == 2
    assert "--split goes with a run" in alone.output
