"""Recognition of a run's pictures: kept with its scores, left out with a reason where it cannot be said."""

import numpy as np
import pytest

from unweave.base.errors import MetricError
from unweave.data import from_arrays
from unweave.data.dsprites import DSprites
from unweave.runs import Run, train

SMALL = {"nets.kind": "dense", "nets.hidden": [32], "training.steps": 4, "training.batch_size": 16}


def sprites():
    return DSprites(resolution=32, steps=(2, 1, 10, 10), cached=False).load()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(
        "vae", sprites(), settings=SMALL, run=tmp_path_factory.mktemp("run") / "run", progress=False, threads=1
    )


def with_pictures(run, monkeypatch, pictures):
    """The run as if its system reconstructed observations so."""
    run.codes()
    monkeypatch.setattr(run, "encode_rows", run.dataset().observations)
    monkeypatch.setattr(run.system(), "render", pictures)


def test_perfect_and_empty_reconstructions(run, monkeypatch):
    with monkeypatch.context() as patch:
        with_pictures(run, patch, lambda x: x)
        perfect = run.recognition()
    assert perfect.value == perfect.parts["originals"] > 0.9
    assert perfect.settings["factor"] == "shape"
    assert set(perfect.parts["per_class"]) == {"square", "ellipse", "heart"}
    with monkeypatch.context() as patch:
        with_pictures(run, patch, np.zeros_like)
        empty = run.recognition("shape")
    assert empty.value < 0.5


def test_it_is_among_the_scores_of_a_run(run):
    result = run.evaluate(["mapc", "recognition"])
    assert list(result) == ["mapc", "recognition"]
    assert result.seconds["recognition"] > 0
    kept = Run.open(run.path, data=sprites()).scores()["recognition"]
    assert kept.value == result["recognition"].value == run.recognition().value
    assert kept.interval[0] <= kept.value <= kept.interval[1]
    assert "recognition" in (run.path / "scores.csv").read_text()
    assert "recognition" not in run.evaluate(["mapc"])
    assert list(run.evaluate(["recognition"])) == ["recognition"]


def test_judged_rows_are_unknown_to_the_classifier(run):
    """Codes of training rows may be kept: those that are judged are taken out of what the classifier knows."""
    run.encode_split("train")
    score = run.recognition()
    run.encode_split("test")
    every = len(run.split_rows()["train"])
    assert score.settings["rows"] == every // 2
    assert score.settings["rows"] + score.settings["training"] == every


def test_where_it_cannot_be_said_there_is_a_reason(tmp_path):
    rng = np.random.default_rng(0)
    noise = rng.random((600, 1, 8, 8), dtype=np.float32)
    plain = train("vae", from_arrays(noise), settings=SMALL, run=tmp_path / "plain", progress=False, threads=1)
    assert "no factors" in plain.evaluate().skipped["recognition"]
    with pytest.raises(MetricError, match="no factors"):
        plain.evaluate(["recognition"])
    numbers = from_arrays(noise, factors=rng.integers(3, size=(600, 1)), names=("a",))
    unnamed = train("vae", numbers, settings=SMALL, run=tmp_path / "numbers", progress=False, threads=1)
    assert "values with names" in unnamed.evaluate().skipped["recognition"]
    chance = unnamed.recognition("a")  # by name it can be asked, and `originals` says what it is worth
    assert chance.parts["originals"] < 0.6
    labels = train(
        "vae",
        from_arrays(noise, factors=named(600)),
        settings=SMALL,
        run=tmp_path / "labels",
        progress=False,
        threads=1,
    )
    assert "is no judge" in labels.evaluate().skipped["recognition"]


def named(rows):
    from unweave.core.factors import Factors

    return Factors(
        ("a",), np.random.default_rng(1).integers(3, size=(rows, 1)), ("discrete",), (("one", "two", "three"),)
    )
