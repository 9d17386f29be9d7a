"""The measurements of the semi-supervised reproduction: errors counted one by one, curves and plan read back."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from unweave.base.schedule import at_step
from unweave.core.batch import Batch
from unweave.core.block import Block
from unweave.core.dataspec import DataSpec
from unweave.core.factors import Factors
from unweave.core.order import Table
from unweave.data import DataSet, Split, load
from unweave.runs import Run, train
from unweave.studies.reproductions import structured
from unweave.studies.reproductions._lab import Lab
from unweave.studies.reproductions._reproduction import REPRODUCTIONS, PlannedRun
from unweave.systems.structured import Structured, StructuredConfig

CLAIMS = {claim.name: claim for claim in REPRODUCTIONS["structured"].claims}
LABELS, CURVES = (100, 600, 1000, 3000), (100, 600, 3000)
RATES = {100: (0.002, 0.1, 0.5, 0.9), 600: (0.012, 0.1, 0.5, 0.9), 3000: (0.06, 0.1, 0.5, 0.9)}
TINY = {
    "nets.hidden": [8],
    "classifier.kind": "dense",
    "classifier.hidden": [8],
    "training.batch_size": 16,
    "shift": 0,
}


class StubLab(Lab):
    """A lab with stubs in place of runs, one test set, and results that need no computing."""

    def __init__(self, folder, runs=None, data=None, given=None, seeds=(0,)):
        super().__init__("quick", seeds, folder)
        self.runs, self.test, self.given = runs or {}, data, given or {}
        self.asked: list[tuple[str, dict]] = []

    def run(self, row, seed):
        return self.runs[row, seed]

    def held_out(self, row, seed, name, **settings):
        return self.data(name, **settings)

    def data(self, name, **settings):
        self.asked.append((name, settings))
        return self.test

    def kept(self, name, make):
        return self.given[name] if name in self.given else super().kept(name, make)


def digit_data(guesses, digits):
    """Observations that hold the digit a `Guessing` system takes them for, with their true digits."""
    x = np.asarray(guesses, dtype=np.float32).reshape(-1, 1, 1, 1)
    factors = Factors(
        ("slant", "digit"), np.stack([np.zeros(len(x)), np.asarray(digits)], axis=1), ("continuous", "discrete")
    )
    return DataSet("stub", DataSpec((1, 1, 1), "real", len(x)), lambda rows: x[rows], factors)


class Guessing:
    """q(y|x) is greatest at the digit that the observation holds, by a little."""

    def __init__(self):
        self.sizes = []
        self.blocks = (Block("digit", (10,), kind="simplex"), Block("style", (2,)))

    def encode(self, batch):
        self.sizes.append(batch.rows)
        guess = batch.observations.flatten().long()
        return {"digit": (torch.full((batch.rows, 10), 0.1) + 0.01 * torch.eye(10)[guess]).numpy()}


def measured_error(folder, guesses, digits):
    system = Guessing()
    lab = StubLab(folder, {("m100", 0): SimpleNamespace(system=lambda: system)}, digit_data(guesses, digits))
    return structured.error(lab, "m100", 0), lab, system


# Errors ---------------------------------------------------------------------------------------------------------------


def test_error_is_the_count_of_wrong_digits(tmp_path):
    rng = np.random.default_rng(0)
    digits = rng.integers(0, 10, 2345)
    guesses = np.where(rng.random(2345) < 0.8, digits, rng.integers(0, 10, 2345))
    found, lab, system = measured_error(tmp_path, guesses, digits)
    wrong = 0
    for guess, digit in zip(guesses, digits, strict=True):
        wrong += guess != digit
    assert found == pytest.approx(100 * wrong / 2345)
    assert 10 < found < 30
    assert system.sizes == [1000, 1000, 345]  # every row, once
    assert lab.asked == [("mnist", {"split": "test"})]
    assert structured.error(lab, "m100", 0) == found
    assert len(system.sizes) == 3  # kept


@pytest.mark.parametrize(("shift", "expected"), [(0, 0.0), (1, 100.0)])
def test_error_of_the_best_and_of_the_worst(tmp_path, shift, expected):
    digits = np.arange(50) % 10
    assert measured_error(tmp_path, (digits + shift) % 10, digits)[0] == expected


@pytest.mark.parametrize("labels", LABELS)
def test_each_claim_reads_its_own_number_of_labels(tmp_path, labels):
    published = {100: 9.71, 600: 3.84, 1000: 2.88, 3000: 1.57}
    claim = CLAIMS[f"error-{labels}"]
    assert claim.rows == (f"m{labels}",)
    given = {f"error-m{m}-{seed}": m + seed / 10 for m in LABELS for seed in (0, 1)}
    lab = StubLab(tmp_path, given=given)
    assert [claim.measure(lab, seed) for seed in (0, 1)] == [labels, labels + 0.1]
    assert claim.holds.test([published[labels] - 0.01, published[labels] + 0.01])
    assert not claim.holds.test([published[labels] + 0.01])


# Curves ---------------------------------------------------------------------------------------------------------------


def curve_results(by_rate, labels=100, seeds=3):
    """Kept errors of a curve: mean of each supervision rate, seeds around it by -1, 0 and 1 points; later ones wild."""
    return {
        f"error-m{labels}-rho{round(1000 * rate)}-{seed}": mean + (seed - 1 if seed < 3 else 1000)
        for rate, mean in by_rate.items()
        for seed in range(seeds)
    }


def test_rates_begin_with_the_natural_one():
    for labels in CURVES:
        assert structured.shares(labels) == pytest.approx(RATES[labels])
    assert structured.row_of(600) == "m600"
    assert structured.row_of(3000, 3000 / 50_000) == "m3000-rho60"
    rows = [structured.row_of(m, rho) for m in CURVES for rho in structured.shares(m)]
    assert rows == [f"m{m}-rho{round(1000 * rate)}" for m in CURVES for rate in RATES[m]]


@pytest.mark.parametrize(
    ("errors", "times", "points"),
    [
        ((30.0, 12.0, 10.0, 20.0), 0.5 / 0.002, 20.0),
        ((30.0, 29.5, 31.0, 40.0), 0.1 / 0.002, 0.5),
        ((9.0, 12.0, 10.0, 20.0), 1.0, 0.0),  # M / (N + M) is best
    ],
)
@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_best_rate_and_its_gain(tmp_path, errors, times, points, seeds):
    given = curve_results(dict(zip(RATES[100], errors, strict=True)), seeds=seeds)
    lab = StubLab(tmp_path, given=given, seeds=range(seeds))
    used = min(seeds, 3)
    slow = [[given[f"error-m100-rho{round(1000 * rate)}-{s}"] for s in range(used)] for rate in RATES[100]]
    np.testing.assert_allclose(structured.curve(lab, 100), slow)
    assert structured.best_over_natural(lab, -1) == pytest.approx(times)
    assert structured.gain(lab, -1) == pytest.approx(points)
    for name, value, least in (("best-rho", times, 1.01), ("gain-of-rho", points, 1)):
        claim = CLAIMS[name]
        assert claim.holds.test([claim.measure(lab, -1)]) is (value >= least)
        assert claim.rows == tuple(f"m100-rho{round(1000 * rate)}" for rate in RATES[100])
        assert not claim.per_seed


def test_the_best_rate_is_that_of_the_mean_not_of_a_seed(tmp_path):
    given = curve_results({0.002: 20.0, 0.1: 10.0, 0.5: 11.0, 0.9: 30.0})
    given["error-m100-rho2-1"] = 0.0  # the mean stays above
    lab = StubLab(tmp_path, given=given, seeds=range(3))
    assert structured.best_over_natural(lab, -1) == pytest.approx(0.1 / 0.002)
    assert structured.gain(lab, -1) == pytest.approx(20 * 2 / 3 - 10)


# The plan -------------------------------------------------------------------------------------------------------------


def configured(run):
    return StructuredConfig.preset(run.preset).override(run.settings)


@pytest.mark.parametrize(("seeds", "scale"), [(5, "quick"), (2, "quick"), (5, "paper")])
def test_the_plan_has_the_table_the_curves_and_the_sweep(scale, seeds):
    runs = structured.plan(scale, range(seeds))
    expected = {(f"m{m}", seed): (m, None, 10) for m in LABELS for seed in range(seeds)}
    for seed in range(min(seeds, 3)):
        expected |= {(f"m{m}-rho{round(1000 * rate)}", seed): (m, rate, 10) for m in CURVES for rate in RATES[m]}
    expected["style2", 0] = (1000, None, 2)
    assert {(run.row, run.seed) for run in runs} == set(expected)
    assert len(runs) == len(expected) == 4 * seeds + 12 * min(seeds, 3) + 1
    of_the_table = {"quick": 0.5, "paper": None}[scale]  # None: M / (N + M)
    for run in runs:
        config = configured(run)
        labels, rate, dims = expected[run.row, run.seed]
        assert (run.system, run.data, run.data_settings) == ("structured", "mnist", {})
        assert (config.labels, config.latent, config.label_seed) == (labels, dims, run.seed)
        assert config.rho == (of_the_table if rate is None else pytest.approx(rate))
        if scale == "quick":
            assert config.training.steps == (400 if rate else 3000 if labels == 3000 else 2000)
            rates = [at_step(config.training.optimiser.lr, step) for step in (0, config.training.steps)]
            assert rates == pytest.approx([0.001, 0.0])  # the rate ends where training ends


def test_rows_of_one_kind_differ_in_labels_and_rates_alone():
    runs = structured.plan("quick", [0])
    free = {"labels", "label_seed", "rho", "latent"}
    for kind in ("table", "curve"):
        same = [configured(run).to_dict() for run in runs if ("rho" in run.row) == (kind == "curve")]
        for settings in same:  # of the table, more labels are trained on for longer
            settings["training"] = {**settings["training"], "steps": 0}
            settings["training"]["optimiser"] = {**settings["training"]["optimiser"], "lr": 0}
        assert len(same) > 4
        for name in set(same[0]) - free:
            assert all(settings[name] == same[0][name] for settings in same), name


def test_curves_hold_alpha_at_both_scales():
    for scale in ("quick", "paper"):
        for run in structured.plan(scale, [0]):
            if "rho" in run.row:
                assert configured(run).alpha == 50


def test_fifty_thousand_rows_of_the_training_file_are_trained_on():
    run = structured.plan("quick", [0])[0]
    assert "split" not in run.data_settings  # of the data: the training file
    file = DataSet("train", DataSpec((1,), "real", 60_000), lambda rows: rows[:, None].astype(np.float32))
    parts = Split().override(run.split).rows(file)
    assert {name: len(rows) for name, rows in parts.items()} == {"train": 50_000, "validation": 10_000}
    assert not np.intersect1d(parts["train"], parts["validation"]).size
    assert structured.natural(100) == pytest.approx(100 / len(parts["train"]))


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def built(run, digits):
    """The system of a planned run with small networks, and the training part of the small digits."""
    rows = Split().override(run.split).rows(digits)["train"]
    spec = DataSpec(digits.spec.shape, "unit", len(rows), labels=digits.factors.counts())
    batch = configured(run).training.batch_size
    system = Structured(configured(run).override({**TINY, "training.batch_size": batch}), spec)
    return system, Table(rows, digits.factors.take(rows))


def test_labelled_rows_are_trained_on_balanced_and_new_for_each_seed(digits):
    chosen = {}
    for run in structured.plan("quick", range(3)):
        if run.row == "m100":
            system, table = built(run, digits)
            chosen[run.seed] = system.labelled(table)["digit"]
            validation = Split().override(run.split).rows(digits)["validation"]
            assert len(np.unique(chosen[run.seed])) == 100
            assert np.isin(chosen[run.seed], table.rows).all()
            assert not np.isin(chosen[run.seed], validation).any()
            counts = np.bincount(digits.factors.column("digit")[chosen[run.seed]].astype(int), minlength=10)
            assert counts.tolist() == [10] * 10
    assert len(chosen) == 3
    assert all(len(np.intersect1d(chosen[a], chosen[b])) < 40 for a, b in ((0, 1), (0, 2), (1, 2)))


@pytest.mark.parametrize(("row", "expected"), [("m100-rho2", 102), ("m100-rho500", 400 * 64)])
def test_batches_have_the_planned_share_of_labels(digits, row, expected):
    run = next(run for run in structured.plan("quick", [0]) if run.row == row)
    system, table = built(run, digits)
    labelled = system.labelled(table)["digit"]
    order, found = system.order(table, seed=0), 0
    for step in range(system.config.training.steps):
        rows = order.rows(step)
        assert len(rows) == 128
        found += np.isin(rows, labelled).sum()
    assert abs(found - expected) <= 1


# Figures --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab(tmp_path_factory, digits):
    """Real runs of a few steps on the small digits."""
    folder = tmp_path_factory.mktemp("structured")
    split = Split().override(structured.MNIST["split"])
    planned = [PlannedRun("m100", "structured", "digits", 0), PlannedRun("style2", "structured", "digits", 0)]
    for run, latent in zip(planned, (3, 2), strict=True):
        train(
            "structured",
            "digits",
            settings={**TINY, "labels": 50, "rho": 0.5, "latent": latent, "training.steps": 3},
            split=split,
            run=folder / run.name,
            threads=1,
            device="cpu",
            progress=False,
        )
    return Lab("quick", [0], folder, planned, {"mnist": "digits"})


def test_error_of_a_real_run_against_one_digit_at_a_time(lab, digits, tmp_path):
    rows = np.arange(1700, 1760)
    run, wrong = lab.run("m100", 0), 0
    for row in rows:
        y = run.system().encode(Batch.of(torch.from_numpy(digits.observations([row]))))["digit"][0]
        wrong += max(range(10), key=lambda k: y[k]) != digits.factors.column("digit")[row]
    found = structured.error(StubLab(tmp_path, {("m100", 0): run}, digits.take(rows)), "m100", 0)
    assert found == pytest.approx(100 * wrong / len(rows))


def picture(path):
    from PIL import Image

    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size < 150_000
    with Image.open(path) as image:
        return np.asarray(image.convert("L")).astype(int)


@pytest.mark.parametrize(
    ("draw", "operation", "wanted", "params", "cells"),
    [
        (structured.draw_analogies, "traverse", range(10), {"dims": "digit"}, (10, 10)),
        (structured.draw_sweep, "sweep", [7], {"steps": 11}, (11, 11)),
    ],
)
def test_pictures_are_of_digits_that_were_not_trained_on(
    lab, digits, tmp_path, monkeypatch, draw, operation, wanted, params, cells
):
    asked = []
    operate = Run.operate

    def watched(self, name, rows=None, **settings):
        shown = operate(self, name, rows, **settings)
        asked.append((name, rows, settings, shown))
        return shown

    monkeypatch.setattr(Run, "operate", watched)
    draw(lab, tmp_path / "f.png")
    [(name, rows, settings, shown)] = asked
    assert (name, settings) == (operation, params)
    validation = Split().override(structured.MNIST["split"]).rows(digits)["validation"]
    expected = []
    for digit in wanted:
        for row in validation:
            if digits.factors.column("digit")[row] == digit:
                expected.append(row)
                break
    assert list(rows) == expected
    assert shown.images.shape[:2] == cells
    assert np.ptp(shown.images, axis=(0, 1)).max() > 1e-4  # cells differ
    drawn = picture(tmp_path / "f.png")
    assert ((drawn > 20) & (drawn < 235)).mean() > 0.3  # grey digits, not paper with a title


def test_curves_and_table_are_drawn(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    given = {}
    for m in CURVES:
        given |= curve_results(dict(zip(RATES[m], (30.0, 12.0, 10.0, m / 100), strict=True)), labels=m)
    given |= {f"error-m{m}-{seed}": m / 100 + seed**2 for m in LABELS for seed in range(3)}
    bars, errorbar = [], Axes.errorbar

    def watched(self, x, y, spread, **options):
        bars.append((list(x), list(y), list(spread)))
        return errorbar(self, x, y, spread, **options)

    monkeypatch.setattr(Axes, "errorbar", watched)
    structured.draw_errors(StubLab(tmp_path, given=given, seeds=range(3)), tmp_path / "f.png")
    for m, (x, y, spread) in zip(CURVES, bars[:-1], strict=True):
        assert x == pytest.approx(RATES[m])
        assert y == pytest.approx([30.0, 12.0, 10.0, m / 100])
        assert spread == pytest.approx([1.0] * 4)  # of -1, 0 and 1, over one less than three
    x, y, spread = bars[-1]
    assert x == list(LABELS)
    assert y == pytest.approx([m / 100 + 5 / 3 for m in LABELS])
    assert spread == pytest.approx([(13 / 3) ** 0.5] * 4)  # of 0, 1 and 4
    drawn = picture(tmp_path / "f.png")
    for half in np.array_split(drawn, 2, axis=1):
        assert (half < 250).mean() > 0.02
