"""The measurements of the ML-VAE reproduction: codes whose accuracy is known in closed form, and real runs by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from unweave.core.batch import Batch
from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.core.dataspec import DataSpec
from unweave.core.factors import Factors
from unweave.core.system import SYSTEMS
from unweave.data import DataSet, Split, load
from unweave.metrics import _group_classifier
from unweave.runs import train
from unweave.studies.reproductions import _mlvae_figures as figures
from unweave.studies.reproductions import _mlvae_measures as measures
from unweave.studies.reproductions import mlvae
from unweave.studies.reproductions._lab import Lab
from unweave.studies.reproductions._reproduction import REPRODUCTIONS

CLAIMS = {claim.name: claim for claim in REPRODUCTIONS["mlvae"].claims}
TINY = {"nets.kind": "dense", "nets.hidden": [16], "training.steps": 5, "training.batch_size": 40}


class StubLab(Lab):
    """A lab with stubs in place of runs, one data set, and results that need no computing."""

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


# Codes of which everything is known -----------------------------------------------------------------------------------


class KnownRun:
    """Two people, coded in normal numbers `signal` standard deviations away from 0, person 0 below and 1 above.

    The first 100 rows were trained on: they have no code, and reading one would show.
    """

    def __init__(self, signals, rows=4100, seed=0, factor="subject"):
        rng = np.random.default_rng(seed)
        person = np.arange(rows) % 2
        blocks = tuple(Block(name, (1,)) for name in signals)
        values = {}
        for name, signal in signals.items():
            values[name] = ((2 * person - 1) * signal + rng.standard_normal(rows))[:, None]
            values[name][:100] = np.nan
        self.codes = Codes(blocks, values, {name: np.full((rows, 1), 0.5) for name in signals})
        factors = Factors((factor, "azimuth"), np.stack([person, rng.random(rows)], 1), ("discrete", "continuous"))
        self.data = DataSet("faces", DataSpec((1,), "real", rows), lambda rows: rows[:, None], factors)
        self.encoded = 0

    def dataset(self):
        return self.data

    def split_rows(self):
        rows = np.arange(len(self.data))
        return {"train": rows[:80], "validation": rows[80:100], "test": rows[100:]}

    def encode_rows(self, rows):
        self.encoded += 1
        return self.codes.take(rows)


def named(signal, k=1):
    """% of groups of k that are named right: the mean of k numbers is on its own side of 0."""
    return 50 * (1 + math.erf(signal * math.sqrt(k) / math.sqrt(2)))


def unknown_bits(signal):
    """H(person | code of one image) by a sum over a fine grid; the odds of the two are exp(2 signal code)."""
    z = np.linspace(-12, 12, 20_001)
    density = np.exp(-((z - signal) ** 2) / 2) / math.sqrt(2 * math.pi)
    return float((density * np.logaddexp(0, -2 * signal * z)).sum() * (z[1] - z[0]) / math.log(2))


@pytest.fixture
def short_training(monkeypatch):
    """A line between two people is learned in few steps."""
    monkeypatch.setattr(_group_classifier, "STEPS", 200)
    monkeypatch.setattr(_group_classifier, "TRAINING_GROUPS", 3000)


GOOD = {"content": 1.0, "style": 0.2, "z": 0.5}
BAD = {"content": 0.2, "style": 1.0, "z": 1.0}


def face_lab(folder, signals, seed=0):
    runs = {
        ("faces-mlvae", seed): KnownRun({name: signals[name] for name in ("content", "style")}),
        ("faces-vae", seed): KnownRun({"z": signals["z"]}, seed=1),
    }
    return StubLab(folder, runs)


@pytest.mark.parametrize("signals", [GOOD, BAD])
def test_measured_accuracies_are_those_of_the_codes(tmp_path, signals, short_training):
    lab = face_lab(tmp_path, signals)
    content, style, z = (signals[name] for name in ("content", "style", "z"))
    expected = {
        "over_vae": named(content) - named(z),
        "rise": named(content, 10) - named(content),
        "over_style": named(content) - named(style),
        "style_rise": named(style, 10) - named(style),
    }
    assert measures.over_vae(lab, 0, measures.FACES) == pytest.approx(expected["over_vae"], abs=5)
    assert measures.rise(lab, 0, "faces-mlvae") == pytest.approx(expected["rise"], abs=5)
    assert measures.over_style(lab, 0, "faces-mlvae") == pytest.approx(expected["over_style"], abs=5)
    assert measures.style_rise(lab, 0, "faces-mlvae") == pytest.approx(expected["style_rise"], abs=5)
    for k in (1, 4, 10):
        assert measures.value(lab, "faces-mlvae", 0, "content", k) == pytest.approx(named(content, k), abs=4)
        for name in ("content", "style"):  # of one image whatever k is
            own = measures.value(lab, "faces-mlvae", 0, f"{name}_own", k)
            assert own == pytest.approx(named(signals[name]), abs=4)
            bits = measures.value(lab, "faces-mlvae", 0, f"{name}_own", k, "entropy")
            assert bits == pytest.approx(unknown_bits(signals[name]), abs=0.06)
    # Content over the VAE and over style holds for good codes and fails for bad ones.
    for name in ("faces-content-over-vae", "faces-style-under-content"):
        assert CLAIMS[name].holds.test([CLAIMS[name].measure(lab, 0)]) is (signals is GOOD)
    assert CLAIMS["faces-content-rises"].holds.test([CLAIMS["faces-content-rises"].measure(lab, 0)])
    assert [run.encoded for run in lab.runs.values()] == [1, 1]  # all from one pass, kept


def test_faces_are_measured_on_the_people_of_the_test_part(tmp_path):
    run = KnownRun({"z": 1.0})
    codes, people = measures.codes_of(StubLab(tmp_path, {("faces-vae", 2): run}), "faces-vae", 2)
    np.testing.assert_array_equal(codes["z"], run.codes["z"][100:])
    assert people.tolist() == [row % 2 for row in range(100, 4100)]
    other = KnownRun({"z": 1.0}, rows=200, factor="person")  # a substitute's first factor
    assert measures.codes_of(StubLab(tmp_path, {("faces-vae", 2): other}), "faces-vae", 2)[1].tolist() == [0, 1] * 50


# Claims on curves that are given --------------------------------------------------------------------------------------


def told(accuracy, entropy=None, members=range(1, 11)):
    members = list(members)
    return {
        "members": members,
        "accuracy": list(np.interp(members, *zip(*accuracy.items(), strict=True))),
        "entropy": list(np.interp(members, *zip(*(entropy or {1: 1.0}).items(), strict=True))),
        "groups": [9] * len(members),
        "classes": 10,
    }


def curve_lab(folder, seeds=(0,), **codes):
    """codes: content, style, z and the like -> told(...), the same for all seeds and for digits and faces."""
    of_vae = {name: curve for name, curve in codes.items() if name in ("z", "z_own")}
    of_mlvae = {name: curve for name, curve in codes.items() if name not in of_vae}
    given = {}
    for seed in seeds:
        given |= {f"curves-{row}-{seed}": of_mlvae for row in ("mlvae", "faces-mlvae")}
        given |= {f"curves-{row}-{seed}": of_vae for row in ("vae", "faces-vae")}
    return StubLab(folder, given=given, seeds=seeds)


def good_curves():
    return {
        "content": told({1: 0.80, 4: 0.95, 10: 0.99}, {1: 0.8, 10: 0.1}),
        "style": told({1: 0.30, 10: 0.35}),
        "z": told({1: 0.60, 10: 0.97}, {1: 1.4, 10: 0.1}),
        "content_own": told({1: 0.85}),
        "style_own": told({1: 0.35}),
        "z_own": told({1: 0.84}),
    }


def bad_curves():
    return {
        "content": told({1: 0.60, 4: 0.65, 5: 0.60}, {1: 1.4}),
        "style": told({1: 0.30, 10: 0.80}),
        "z": told({1: 0.70, 10: 0.97}, {1: 0.8}),
        "content_own": told({1: 0.60}),
        "style_own": told({1: 0.70}),
        "z_own": told({1: 0.84}),
    }


EXPECTED = {
    "content-over-vae": (20, -10),
    "content-rises": (19, 0),
    "content-monotone": (100 * 0.04 / 6, -5),
    "style-under-content": (50, -10),
    "accumulated-style-flat": (5, 50),
    "bits-under-vae": (0.6, -0.6),
    "evidence-corrects": (75, 12.5),
    "faces-content-over-vae": (20, -10),
    "faces-content-rises": (19, 0),
    "faces-style-under-content": (50, -10),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_claim_holds_on_good_curves_and_fails_on_bad_ones(tmp_path, name):
    claim = CLAIMS[name]
    for curves, expected, held in zip((good_curves(), bad_curves()), EXPECTED[name], (True, False), strict=True):
        value = claim.measure(curve_lab(tmp_path, **curves), 0)
        assert value == pytest.approx(expected, abs=1e-9)
        assert claim.holds.test([value]) is held


def test_all_claims_are_tested_here():
    assert set(CLAIMS) == {*EXPECTED, "variance-one-over-k"}


def test_claims_read_the_rows_they_name(tmp_path):
    """Without the curves of a row that it names a claim cannot be measured; it needs no others."""
    for name in EXPECTED:
        lab = curve_lab(tmp_path, **good_curves())
        lab.given = {f"curves-{row}-0": lab.given[f"curves-{row}-0"] for row in CLAIMS[name].rows}
        assert math.isfinite(CLAIMS[name].measure(lab, 0))
        for row in CLAIMS[name].rows:
            fewer = StubLab(tmp_path, given={key: v for key, v in lab.given.items() if key != f"curves-{row}-0"})
            with pytest.raises(KeyError):
                CLAIMS[name].measure(fewer, 0)


def test_values_are_found_by_k_and_steps_by_a_loop(tmp_path):
    rng = np.random.default_rng(0)
    accuracy = rng.random(10).tolist()
    lab = StubLab(
        tmp_path, given={"curves-mlvae-3": {"content": {"members": list(range(1, 11)), "accuracy": accuracy}}}
    )
    assert measures.value(lab, "mlvae", 3, "content", 4) == pytest.approx(100 * accuracy[3])
    steps = [100 * (accuracy[k] - accuracy[k - 1]) for k in range(1, 10)]
    assert measures.worst_step(lab, 3, "mlvae") == pytest.approx(min(steps))
    assert min(steps) < 0
    sparse = {"members": [2, 4, 10], "accuracy": [0.1, 0.2, 0.3], "entropy": [3.0, 2.0, 1.0]}
    lab = StubLab(tmp_path, given={"curves-mlvae-0": {"content": sparse}})
    assert measures.value(lab, "mlvae", 0, "content", 4) == pytest.approx(20)
    assert measures.value(lab, "mlvae", 0, "content", 10, "entropy") == 1.0


def test_variance_of_equal_posteriors(tmp_path, monkeypatch):
    claim = CLAIMS["variance-one-over-k"]
    assert claim.holds.test([claim.measure(StubLab(tmp_path), -1)])
    assert claim.rows == ()
    assert not claim.per_seed

    def averaged(means, spreads):
        """What would be measured if evidence did not accumulate: the variance stays, and is 100 times 1/100."""
        return means.mean(-2), spreads.mean(-2)

    monkeypatch.setattr("unweave.base.normals.product_of_normals", averaged)
    value = claim.measure(StubLab(tmp_path), -1)
    assert value == pytest.approx(99)
    assert not claim.holds.test([value])


# The plan -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_the_plan_has_each_model_and_its_rival_for_every_seed(scale):
    runs = mlvae.plan(scale, [0, 3])
    rows = ["mlvae", "vae", "faces-mlvae", "faces-vae"]
    assert [(run.row, run.seed) for run in runs] == [(row, seed) for seed in (0, 3) for row in rows]
    for ours, rival in zip(runs[::2], runs[1::2], strict=True):
        config, other = (
            SYSTEMS[run.system].config_class.preset(run.preset).override(run.settings) for run in (ours, rival)
        )
        assert (ours.system, rival.system) == ("mlvae", "vae")
        assert config.content + config.style == other.latent
        assert config.content == config.style
        assert (config.nets, config.likelihood, config.training) == (other.nets, other.likelihood, other.training)
        assert (ours.data, ours.data_settings, ours.split) == (rival.data, rival.data_settings, rival.split)
        faces = ours.row.startswith("faces")
        assert ours.data == ("yaleb" if faces else "mnist")
        assert config.group == ("subject" if faces else "digit")
        # As many images in a batch of groups as in one of the rival's.
        groups = config.groups_per_batch
        assert groups * config.members_of(groups) == other.training.batch_size


def test_nobody_is_in_two_parts(tmp_path):
    run = next(run for run in mlvae.plan("quick", [0]) if run.row == "faces-mlvae")
    person = np.repeat(np.arange(38), 5)
    factors = Factors(("subject",), person[:, None], ("discrete",))
    faces = DataSet("faces", DataSpec((1,), "real", len(person)), lambda rows: rows[:, None], factors)
    parts = Split().override(run.split).rows(faces)
    people = {name: set(person[rows].tolist()) for name, rows in parts.items()}
    assert {name: len(those) for name, those in people.items()} == {"train": 21, "validation": 7, "test": 10}
    assert len(set.union(*people.values())) == 38  # so no two have one in common


def test_digits_of_the_test_file_are_not_trained_on(tmp_path):
    for run in mlvae.plan("quick", [0])[:2]:
        assert "split" not in run.data_settings  # of the data: the training file
        file = DataSet("train", DataSpec((1,), "real", 60_000), lambda rows: rows[:, None])
        parts = Split().override(run.split).rows(file)
        assert {name: len(rows) for name, rows in parts.items()} == {"train": 50_000, "validation": 10_000}
        assert not np.intersect1d(parts["train"], parts["validation"]).size


# Real runs of a few steps ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A run of the ML-VAE on the first 1,200 of the small digits; the others take the place of MNIST's test file."""
    folder = tmp_path_factory.mktemp("mlvae")
    digits = load("digits")
    run = train(
        "mlvae",
        digits.take(np.arange(1200)),
        settings={**TINY, "content": 3, "style": 2, "group": "digit"},
        run=folder / "mlvae-0",
        threads=1,
        device="cpu",
        progress=False,
    )
    return StubLab(folder, {("mlvae", 0): run}, digits.take(np.arange(1200, 1797)))


def alone(lab, row):
    """Mean and standard deviation of the content of one image by itself."""
    x = torch.from_numpy(lab.test.observations([row]))
    codes = lab.run("mlvae", 0).system().encode(Batch.of(x))
    return codes["content"][0].astype(np.float64), codes.spread("content")[0].astype(np.float64)


def test_digits_are_coded_one_by_one_from_the_test_file(real):
    real.asked.clear()
    codes, classes = measures.codes_of(real, "mlvae", 0)
    assert real.asked == [("mnist", {"split": "test"})]
    assert codes.rows == len(classes) == len(real.test)
    np.testing.assert_array_equal(classes, real.test.factors.column("digit"))
    for row in (0, 1, 17, 300, 596):
        mean, spread = alone(real, row)
        np.testing.assert_allclose(codes["content"][row], mean, atol=1e-5)
        np.testing.assert_allclose(codes.spread("content")[row], spread, atol=1e-5)


def test_all_codes_of_a_run_have_curves(real, tmp_path, short_training, monkeypatch):
    monkeypatch.setattr(_group_classifier, "STEPS", 20)
    lab = StubLab(tmp_path, real.runs, real.test)
    found = measures.curves(lab, "mlvae", 0)
    assert set(found) == {"content", "style", "content_own", "style_own"}
    for name, curve in found.items():
        assert curve["members"] == list(range(1, 11))
        assert curve["classes"] == 10
        assert (np.ptp(curve["accuracy"]) == 0) == name.endswith("_own")
    assert measures.curves(StubLab(tmp_path / "again", real.runs, real.test), "mlvae", 0) == found


@pytest.mark.parametrize(("each", "grouped"), [(1, True), (4, False)])
def test_content_of_shown_digits(real, each, grouped):
    system, inputs = figures.digit_inputs(real, 10, each=each, grouped=grouped)
    digit = real.test.factors.column("digit")
    assert system is not None
    number = 0
    for value in range(10):
        members = [row for row in range(len(real.test)) if digit[row] == value][:10]
        posteriors = [alone(real, row) for row in members]
        precision = sum(spread**-2 for _, spread in posteriors)
        together = sum(mean * spread**-2 for mean, spread in posteriors) / precision
        for place in range(each):
            assert inputs.rows[number] == members[place]
            assert inputs.groups[number] == value
            np.testing.assert_array_equal(inputs.observations[number], real.test.observations([members[place]])[0])
            expected = together if grouped else posteriors[place][0]
            np.testing.assert_allclose(inputs.codes["content"][number], expected, atol=1e-4)
            number += 1
    assert number == len(inputs.rows)


def slow_worst(lab):
    """Of each digit the row whose content is nearest to another digit's mean compared with its own; the three worst."""
    digit = lab.test.factors.column("digit").astype(int)
    contents = [alone(lab, row)[0] for row in range(len(digit))]
    middles = [np.mean([c for c, d in zip(contents, digit, strict=True) if d == value], axis=0) for value in range(10)]
    worst = {}
    for row, (content, own) in enumerate(zip(contents, digit, strict=True)):
        away = [math.dist(content, middle) for middle in middles]
        lack = away[own] - min(far for value, far in enumerate(away) if value != own)
        if own not in worst or lack > worst[own][0]:
            worst[own] = (lack, row)
    return [row for _, row in sorted(worst.values())[-3:]]


def picture(path):
    from PIL import Image

    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size < 150_000
    with Image.open(path) as image:
        return np.asarray(image.convert("L")).astype(float)


def cell(sheet, row, column):
    """(8, 8) of the picture in a cell: digits are enlarged 6 times, with gaps of 2 pixels."""
    top, left = 50 * row, 50 * column
    return sheet[top : top + 48 : 6, left : left + 48 : 6]


def alike(shown, observation):
    return np.corrcoef(shown.ravel(), observation.ravel())[0, 1] > 0.98


@pytest.mark.parametrize(
    ("draw", "cells"),
    [
        (figures.swapping, (11, 11)),
        (figures.interpolation, (9, 9)),
        (figures.generation, (10, 14)),
        (figures.accumulation, (12, 5)),
    ],
)
def test_pictures_have_the_digits_they_are_made_of(real, tmp_path, draw, cells):
    draw(real, tmp_path / "f.png")
    sheet = picture(tmp_path / "f.png")
    assert sheet.shape == tuple(50 * count - 2 for count in cells)
    x = real.test.observations(np.arange(len(real.test)))[:, 0]
    digit = real.test.factors.column("digit")
    first = [[row for row in range(len(digit)) if digit[row] == value][:4] for value in range(10)]
    if draw is figures.swapping:
        assert (cell(sheet, 0, 0) == 255).all()
        for value in range(10):
            assert alike(cell(sheet, 0, 1 + value), x[first[value][0]])
            assert alike(cell(sheet, 1 + value, 0), x[first[value][0]])
    elif draw is figures.generation:
        for value in range(10):
            for place in range(4):
                assert alike(cell(sheet, value, place), x[first[value][place]])
    elif draw is figures.accumulation:
        shown = [[cell(sheet, 4 * group + place, 0) for place in range(4)] for group in range(3)]
        for row in slow_worst(real):
            others = [other for other in range(len(digit)) if digit[other] == digit[row] and other != row]
            four = [x[number] for number in (row, *others[:3])]
            assert sum(all(map(alike, each, four)) for each in shown) == 1
    assert np.ptp(sheet[-48:, -48:]) > 0  # what the system draws is not blank


def together(lab, rows):
    """Mean of the content that these test images have together, one after the other."""
    weight = total = 0.0
    for row in rows:
        mean, spread = alone(lab, row)
        weight, total = weight + spread**-2, total + mean * spread**-2
    return total / weight


def test_cells_have_the_content_and_the_style_of_the_captions(real, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(figures, "save", lambda shown, system, path: made.append(shown.images))
    for draw in (figures.swapping, figures.interpolation, figures.generation, figures.accumulation):
        draw(real, tmp_path)
    swapped, between, generated, accumulated = made
    system, digit = real.run("mlvae", 0).system(), real.test.factors.column("digit")
    first = [np.flatnonzero(digit == value)[:10] for value in range(10)]
    content = [together(real, rows) for rows in first]
    codes = [system.encode(Batch.of(torch.from_numpy(real.test.observations([rows[0]])))) for rows in first]
    style = [code["style"][0] for code in codes]

    def rendered(content, style):
        return system.render(codes[0].replace(content=np.float32(content)[None], style=np.float32(style)[None]))[0]

    def same(picture, content, style):
        np.testing.assert_allclose(picture, rendered(content, style), atol=1e-5)

    assert np.abs(rendered(content[2], style[5]) - rendered(content[5], style[2])).max() > 1e-4  # told apart
    for i, j in ((2, 5), (5, 2), (9, 0), (4, 4)):
        same(swapped[1 + i, 1 + j], content[j], style[i])
    for down, right in ((0, 0), (0, 8), (8, 0), (3, 6)):
        s, t = down / 8, right / 8
        same(between[down, right], (1 - t) * content[3] + t * content[9], (1 - s) * style[3] + s * style[9])
    drawn = system.draw(10, 0)["style"]
    for value, column in ((0, 0), (7, 3), (9, 9)):
        same(generated[value, 4 + column], together(real, first[value][:4]), drawn[column])
    x = real.test.observations(np.arange(len(real.test)))
    for line in (0, 4, 8):
        rows = [int(np.flatnonzero((x == accumulated[line + place, 0]).all(axis=(1, 2, 3)))[0]) for place in range(4)]
        own = system.encode(Batch.of(torch.from_numpy(x[rows[:1]])))["style"][0]
        for k in range(1, 5):
            same(accumulated[line, k], together(real, rows[:k]), own)


def test_accuracy_curves_are_drawn_in_per_cent_and_bits(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    lines, plot = [], Axes.plot

    def watched(self, x, y, **options):
        lines.append((options.get("label"), list(x), np.array(y)))
        return plot(self, x, y, **options)

    monkeypatch.setattr(Axes, "plot", watched)
    lab = curve_lab(tmp_path, seeds=(0, 1), **good_curves())
    lab.given["curves-mlvae-1"] = {**lab.given["curves-mlvae-1"], "content": told({1: 0.5, 10: 0.5}, {1: 2.0})}
    figures.accuracy_picture(lab, tmp_path / "f.png", measures.DIGITS)
    drawn = [(label, y) for label, k, y in lines if label == "content" and k == list(range(1, 11))]
    accuracy, bits = drawn[0][1], drawn[1][1]
    first = good_curves()["content"]
    assert accuracy.tolist() == pytest.approx([100 * (a + 0.5) / 2 for a in first["accuracy"]])
    assert bits.tolist() == pytest.approx([(b + 2) / 2 for b in first["entropy"]])
    assert sum(label == "VAE" for label, _, _ in lines) == 2
    sheet = picture(tmp_path / "f.png")
    for half in np.array_split(sheet, 2, axis=1):
        assert (half < 250).mean() > 0.02
