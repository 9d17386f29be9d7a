"""The measurements of the video reproduction: on systems whose codes, pictures and costs are known, against loops."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from unweave.core.batch import Batch
from unweave.core.codes import Codes
from unweave.core.dataspec import DataSpec
from unweave.core.terms import Terms
from unweave.data import DataSet, source
from unweave.runs import train
from unweave.studies.reproductions import video
from unweave.studies.reproductions._lab import Lab
from unweave.studies.reproductions._reproduction import REPRODUCTIONS, PlannedRun
from unweave.systems.video import Video, VideoConfig

T, FACTORS, DIMS = 4, 2, 2
SHAPE = (T, 3, 2, 2)
STD = 0.4
SMALL = {
    "dims": DIMS,
    "transition_hidden": [4],
    "inference_hidden": 4,
    "nets.kind": "dense",
    "nets.hidden": [6],
    "likelihood.kind": "gaussian",
    "likelihood.std": STD,
}
CLAIMS = {claim.name: claim for claim in REPRODUCTIONS["video"].claims}


class StubLab(Lab):
    """A lab with systems in place of runs, arrays in place of data, and results that need no computing.

    systems: (row, seed) -> system;   clips: (N, *SHAPE);   given: kept result -> its value
    """

    def __init__(self, folder, systems=None, clips=None, given=None, seeds=(0,)):
        super().__init__("quick", seeds, folder)
        self.systems, self.clips, self.given = systems or {}, clips, given or {}
        self.asked: list[tuple[str, dict]] = []

    def run(self, row, seed):
        return SimpleNamespace(system=lambda: self.systems[row, seed])

    def held_out(self, row, seed, name, **settings):
        return self.data(name, **settings)

    def data(self, name, **settings):
        self.asked.append((name, settings))
        clips = self.clips[: settings["clips"]]
        return DataSet("stub", DataSpec(SHAPE, "real", len(clips)), lambda rows: clips[rows])

    def kept(self, name, make):
        return self.given[name] if name in self.given else super().kept(name, make)


class KnownVideo(Video):
    """The red plane of a frame is its code, row by row: factor_0 has the upper two pixels, factor_1 the lower two.

    mix:   (3, 2) how much of each factor a plane shows; pixel (a, c) is (sum over i of mix[plane, i] z^i[c])^2
    scale: of the costs
    """

    def __init__(self, mix=((1, 0), (0, 1), (0, 0)), scale=1.0):
        super().__init__(VideoConfig().override({**SMALL, "beta": 7.0}), DataSpec(SHAPE, "real", 10))
        self.mix, self.scale, self.seeds_drawn = np.array(mix, dtype=np.float64), scale, []

    def encode(self, batch):
        z = batch.observations[:, :, 0].numpy()  # (B, T, factor, number)
        return Codes(self.blocks, {f"factor_{i}": z[:, :, i] for i in range(FACTORS)})

    def draw_posterior(self, batch, seed):
        self.seeds_drawn.append(seed)
        return self.encode(batch)

    def render(self, codes, context=None):
        z = np.stack([codes[f"factor_{i}"] for i in range(FACTORS)], axis=2)  # (N, T, factor, number)
        return np.repeat(np.einsum("pi,ntic->ntpc", self.mix, z)[:, :, :, None] ** 2, 2, axis=3)

    def objective(self, player, batch, step):
        costs = {"reconstruction": batch.observations.flatten(1).sum(1), "kl_first": torch.full((batch.rows,), 1.5)}
        costs["kl_transition"] = batch.observations[:, 1, 2].flatten(1).sum(1) ** 2
        return Terms({name: self.scale * cost for name, cost in costs.items()}, {"kl_first": self.config.beta})


def random_clips(rows, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, *SHAPE)).astype(np.float32)


def chains(sources, correlation, rows=video.CLIPS, seed=0):
    """Clips whose number i at t + 1 is `correlation` times number sources[i] at t, plus noise; all of variance 1."""
    rng = np.random.default_rng(seed)
    z = np.zeros((rows, T, FACTORS * DIMS))
    z[:, 0] = rng.standard_normal(z[:, 0].shape)
    for t in range(1, T):
        noise = math.sqrt(1 - correlation**2) * rng.standard_normal(z[:, 0].shape)
        z[:, t] = correlation * z[:, t - 1][:, list(sources)] + noise
    clips = np.zeros((rows, *SHAPE), dtype=np.float32)
    clips[:, :, 0] = z.reshape(rows, T, 2, 2)
    return clips


OWN, OTHERS, ACROSS = (0, 1, 2, 3), (2, 3, 0, 1), (3, 2, 1, 0)  # factors are (0, 1) and (2, 3)


def nats(correlation, numbers):
    """Information of that many pairs of correlated normal numbers."""
    return -numbers / 2 * math.log(1 - correlation**2)


def holds(name, lab, seed=0):
    claim = CLAIMS[name]
    value = claim.measure(lab, seed)
    return claim.holds.test([value])


# The clips ------------------------------------------------------------------------------------------------------------


def test_chunks_are_all_test_clips_in_order(tmp_path):
    lab = StubLab(tmp_path, clips=random_clips(video.CLIPS))
    parts = list(video.batches(lab, "factored", 0, clips=2 * video.CHUNK + 100))
    assert [part.rows for part in parts] == [video.CHUNK, video.CHUNK, 100]
    np.testing.assert_array_equal(torch.cat([part.x for part in parts]), lab.clips[: 2 * video.CHUNK + 100])
    assert lab.asked == [
        ("moving_digits", {**video.DATA["quick"], "clips": 2 * video.CHUNK + 100, "split": "test"}),
    ]
    assert sum(part.rows for part in video.batches(lab, "factored", 0)) == video.CLIPS


def test_no_digit_of_the_measured_clips_is_trained_on(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "empty"))  # scikit-learn's digits
    lab = StubLab(tmp_path, clips=random_clips(video.CLIPS))
    next(video.batches(lab, "factored", 0))
    (name, settings), planned = lab.asked[0], video.plan("quick", [0])[0]
    measured, trained = source(name, **settings).load(), source(planned.data, **planned.data_settings).load()
    assert measured.spec.shape == trained.spec.shape
    seen, unseen = ({x.tobytes() for x in data.read.digits.observations(range(300))} for data in (trained, measured))
    assert len(seen) > 250
    assert len(unseen) > 250
    assert not seen & unseen
    clips = trained.observations(np.arange(20)), measured.observations(np.arange(20))
    assert not (clips[0] == clips[1]).all(axis=(1, 2, 3, 4)).any()


def test_posterior_draws_join_the_chunks_with_a_seed_each(tmp_path):
    system = KnownVideo()
    lab = StubLab(tmp_path, {("factored", 3): system}, random_clips(video.CLIPS))
    codes = video.posterior_draws(lab, "factored", 3)
    assert codes.rows == video.CLIPS
    np.testing.assert_array_equal(codes["factor_0"], lab.clips[:, :, 0, 0])
    np.testing.assert_array_equal(codes["factor_1"], lab.clips[:, :, 0, 1])
    assert len(set(system.seeds_drawn)) == len(system.seeds_drawn) == -(-video.CLIPS // video.CHUNK)


# Information ----------------------------------------------------------------------------------------------------------


def measured_information(folder, row, clips, seed=0):
    return video.information(StubLab(folder, {(row, seed): KnownVideo()}, clips), row, seed)


def test_information_of_factors_that_keep_to_themselves(tmp_path):
    found = measured_information(tmp_path, "factored", chains(OWN, 0.95))
    assert found["same"] == pytest.approx(nats(0.95, 2), abs=0.15)
    assert found["cross"] == pytest.approx(0, abs=0.05)
    assert found["ratio"] == pytest.approx(found["same"] / max(found["cross"], 1e-3))
    lab = StubLab(tmp_path, given={"information-factored-0": found})
    assert holds("information-ratio", lab)
    assert holds("information-same", lab)


def test_information_of_factors_that_follow_each_other(tmp_path):
    found = measured_information(tmp_path, "factored", chains(OTHERS, 0.95))
    assert found["cross"] == pytest.approx(nats(0.95, 2), abs=0.15)
    assert found["same"] == pytest.approx(0, abs=0.05)
    lab = StubLab(tmp_path, given={"information-factored-0": found})
    assert not holds("information-ratio", lab)
    assert not holds("information-same", lab)


def test_a_ratio_without_information_does_not_hold(tmp_path):
    found = measured_information(tmp_path, "factored", chains(OWN, 0.5))
    assert found["same"] == pytest.approx(nats(0.5, 2), abs=0.1)
    lab = StubLab(tmp_path, given={"information-factored-0": found})
    assert holds("information-ratio", lab)
    assert not holds("information-same", lab)


def test_the_entangled_code_is_divided_as_suits_it_best(tmp_path, monkeypatch):
    """Numbers 0 and 3 belong together, and 1 and 2: the factors as they are have all information crosswise."""
    assert video.PARTITIONS == 20
    monkeypatch.setattr(video, "PARTITIONS", 6)  # a third of all divisions is the right one
    clips = chains(ACROSS, 0.95)
    as_it_is = measured_information(tmp_path / "f", "factored", clips)
    divided = measured_information(tmp_path / "e", "entangled", clips)
    assert as_it_is["same"] == pytest.approx(0, abs=0.05)
    assert as_it_is["cross"] == pytest.approx(nats(0.95, 2), abs=0.15)
    assert divided["same"] == pytest.approx(nats(0.95, 2), abs=0.15)
    assert divided["cross"] == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize(("entangled", "expected", "held"), [(1.75, 4.0, True), (14.0, 0.5, False)])
def test_ratio_over_entangled(tmp_path, entangled, expected, held):
    given = {"information-factored-0": {"ratio": 7.0}, "information-entangled-0": {"ratio": entangled}}
    lab = StubLab(tmp_path, given=given)
    assert video.ratio_over_entangled(lab, 0) == expected
    assert holds("information-over-entangled", lab) is held


# Bound ----------------------------------------------------------------------------------------------------------------


def test_bound_is_minus_all_costs_per_frame_unweighted(tmp_path):
    system, clips = KnownVideo(), random_clips(video.CLIPS)
    found = video.bound(StubLab(tmp_path, {("factored", 0): system}, clips), "factored", 0)
    total = 0.0
    for clip in clips.astype(np.float64):
        total += clip.sum() + 1.5 + clip[1, 2].sum() ** 2
    assert found["elbo"] == pytest.approx(-total / len(clips) / T, rel=1e-5)
    constant = sum(-math.log(STD * math.sqrt(2 * math.pi)) for _ in range(3 * 2 * 2))
    assert found["above_constant"] == pytest.approx(found["elbo"] - constant)


@pytest.mark.parametrize("off", [0.0, 0.3])
def test_bound_of_a_perfect_model_is_the_constant(tmp_path, off):
    """All weights 0: the posterior is the prior, every frame is decoded alike, and clips miss it by `off`."""
    system = Video(VideoConfig().override(SMALL), DataSpec(SHAPE, "unit", 10)).eval()
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.zero_()
    decoded = system.render(system.encode(Batch.of(torch.zeros(1, *SHAPE))))
    assert np.ptp(decoded) == 0
    clips = np.repeat(decoded + np.float32(off), video.CLIPS, axis=0)
    state = torch.random.get_rng_state()
    found = video.bound(StubLab(tmp_path, {("entangled", 1): system}, clips), "entangled", 1)
    assert torch.equal(state, torch.random.get_rng_state())
    assert found["above_constant"] == pytest.approx(-12 * off**2 / (2 * STD**2), abs=1e-4)
    assert found["elbo"] == pytest.approx(found["above_constant"] - 12 * math.log(STD * math.sqrt(2 * math.pi)))


def test_measurements_of_one_run_are_the_same_each_time(tmp_path):
    torch.manual_seed(0)
    system = Video(VideoConfig().override(SMALL), DataSpec(SHAPE, "real", 10)).eval()
    clips = random_clips(video.CLIPS)
    labs = [StubLab(tmp_path / name, {("factored", 0): system, ("factored", 1): system}, clips) for name in "ab"]
    first, second = (video.bound(lab, "factored", 0)["elbo"] for lab in labs)
    assert first == second
    assert video.bound(labs[0], "factored", 1)["elbo"] != first  # other draws from the posterior
    draws = [video.posterior_draws(lab, "factored", 0) for lab in labs]
    np.testing.assert_array_equal(*(codes["factor_0"] for codes in draws))
    centres = system.encode(Batch.of(torch.from_numpy(clips)))["factor_0"]
    assert not np.allclose(draws[0]["factor_0"], centres)  # draws, not means


def bounds(factored, entangled):
    return {
        f"bound-{row}-0": {"elbo": value, "above_constant": value + 90.0}
        for row, value in (("factored", factored), ("entangled", entangled))
    }


@pytest.mark.parametrize(
    ("factored", "entangled", "whole", "above"),
    [
        (-101.0, -100.0, 1.0, 10.0),
        (-103.0, -100.0, 3.0, 30.0),
        (-99.0, -100.0, -1.0, -10.0),  # better than the entangled model
        (98.0, 100.0, 2.0, 100 * 2 / 190),
        (97.9, 100.0, 2.1, 100 * 2.1 / 190),
    ],
)
def test_gap_in_per_cent_of_the_entangled_bound(tmp_path, factored, entangled, whole, above):
    lab = StubLab(tmp_path, given=bounds(factored, entangled))
    assert video.gap(lab, 0) == pytest.approx(whole)
    assert video.gap_above_constant(lab, 0) == pytest.approx(above)
    assert holds("bound", lab) is (whole <= 2)
    assert holds("bound-above-constant", lab) is (above <= 5)


def test_gap_reads_each_row_for_itself(tmp_path):
    clips = np.abs(random_clips(video.CLIPS))  # costs above 0
    systems = {("factored", 0): KnownVideo(scale=1.25), ("entangled", 0): KnownVideo()}
    assert video.gap(StubLab(tmp_path, systems, clips), 0) == pytest.approx(25, rel=1e-5)


# One digit each -------------------------------------------------------------------------------------------------------


def slow_movement(mix, clips):
    """Energy of change by factor and plane, one pixel after the other."""
    energy = [[0.0, 0.0], [0.0, 0.0]]
    for clip in clips.astype(np.float64):
        z = clip[:, 0]  # (T, factor, number)
        for moving in range(2):
            for plane in range(2):
                for column in range(2):
                    pixels = [
                        sum(mix[plane][i] * z[t if i == moving else 1, i, column] for i in range(2)) ** 2
                        for t in range(T)
                    ]
                    # From the held step on; both rows of the picture have the pixel.
                    energy[moving][plane] += 2 * sum((pixel - pixels[1]) ** 2 for pixel in pixels[1:])
    return energy


@pytest.mark.parametrize(
    ("mix", "expected"),
    [
        (((1, 0), (0, 1), (0, 0)), 100),
        (((0, 2), (3, 0), (0, 0)), 100),  # the other matching
        (((1, 1), (1, 1), (0, 0)), 50),
        (((1, 0), (1, 0), (0, 0)), 50),  # one factor moves both, the other nothing
        (((1, 0), (0, 1), (9, 9)), 100),  # there is no digit in the blue plane
        (((1, 0.5), (0.2, 1), (0, 0)), None),
    ],
)
def test_one_digit_each_against_a_loop_over_pixels(tmp_path, mix, expected):
    clips = random_clips(500)
    clips[:, 0] *= 50  # the first step, before the one that is held, does not count
    lab = StubLab(tmp_path, {("factored", 0): KnownVideo(mix)}, clips)
    slow = np.array(slow_movement(mix, clips))
    np.testing.assert_allclose(video.movement(lab, "factored", 0), slow, rtol=1e-4, atol=1e-6)
    matched = 100 * max(np.trace(slow), np.trace(slow[::-1])) / slow.sum()
    assert video.one_digit_each(lab, 0) == pytest.approx(matched, rel=1e-4)
    if expected is not None:
        assert matched == pytest.approx(expected)
    else:
        assert 51 < matched < 99
    assert holds("one-digit-each", lab) is bool(matched >= 90)
    assert {settings["split"] for _, settings in lab.asked} == {"test"}


# The plan -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_the_two_rows_differ_in_the_transitions_alone(scale):
    runs = video.plan(scale, [4, 7])
    assert [(run.row, run.seed) for run in runs] == [(row, seed) for seed in (4, 7) for row in video.ROWS]
    for factored, entangled in zip(runs[::2], runs[1::2], strict=True):
        settings = []
        for run in (factored, entangled):
            assert (run.system, run.data) == ("video", "moving_digits")
            config = VideoConfig.preset(run.preset).override(run.settings)
            assert config.transitions == run.row
            assert config.factors == 2
            settings.append({**config.to_dict(), "transitions": ""})
        assert settings[0] == settings[1]
        assert factored.data_settings == entangled.data_settings
        assert factored.split == entangled.split
        data = source(factored.data, **factored.data_settings)
        assert data.split == "train"
        assert data.clips > video.CLIPS
        assert {name: getattr(data, name) for name in video.DATA[scale]} == video.DATA[scale]


def test_each_claim_reads_the_rows_it_names(tmp_path):
    """With results for other rows only, a claim has nothing to measure on."""
    own = {
        "factored": {
            "information-factored-0": {"same": 2.0, "ratio": 5.0},
            "movement-factored-0": [[1.0, 0.0], [0.0, 1.0]],
        },
        "entangled": {"information-entangled-0": {"same": 2.0, "ratio": 5.0}},
    }
    given = bounds(-100.0, -100.0)
    for row, results in own.items():
        results |= {name: value for name, value in given.items() if row in name}
    for claim in CLAIMS.values():
        known = {name: value for row in claim.rows for name, value in own[row].items()}
        assert math.isfinite(claim.measure(StubLab(tmp_path, given=known), 0)), claim.name
        for left_out in claim.rows:
            fewer = {name: value for name, value in known.items() if left_out not in name}
            with pytest.raises(KeyError):
                claim.measure(StubLab(tmp_path, given=fewer, clips=random_clips(1)), 0)


# Figures --------------------------------------------------------------------------------------------------------------


def picture(path):
    from PIL import Image

    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size < 150_000
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


@pytest.fixture(scope="module")
def trained_lab(tmp_path_factory):
    """A real run of a few steps, on small clips."""
    folder = tmp_path_factory.mktemp("video")
    train(
        "video",
        "moving_digits",
        data_settings={"clips": 40, "steps": 3, "size": 32, "digits": "sklearn"},
        settings={**SMALL, "training.steps": 3, "training.batch_size": 8},
        run=folder / "factored-0",
        threads=1,
        device="cpu",
        progress=False,
    )
    return Lab("quick", [0], folder, [PlannedRun("factored", "video", "moving_digits", 0)])


@pytest.mark.parametrize(("draw", "strips"), [(video.draw_independent, 1), (video.draw_prediction, 2)])
def test_strips_show_clips_that_were_not_trained_on(trained_lab, draw, strips, tmp_path, monkeypatch):
    from unweave.runs.run import Run

    asked = []
    chosen = Run._inputs

    def watched(self, operation, rows):
        inputs = chosen(self, operation, rows)
        asked.append(inputs)
        return inputs

    monkeypatch.setattr(Run, "_inputs", watched)
    draw(trained_lab, tmp_path / "f.png")
    run = trained_lab.run("factored", 0)
    assert len(asked[0].rows) == strips
    assert not set(asked[0].rows) & set(run.split_rows()["train"])
    shown = picture(tmp_path / "f.png")
    # The clip itself is there: about as many reddish pixels as its red digit has, enlarged or not.
    red = (shown[..., 0] > 100) & (shown[..., 1] < 30) & (shown[..., 2] < 30)
    clips = run.dataset().observations(asked[0].rows)
    assert red.sum() >= ((clips[:, :, 0] > 0.45) & (clips[:, :, 1] < 0.05)).sum() > 50


def test_correlations_are_drawn_as_they_are(tmp_path):
    sheets = {}
    for name, sources in (("own", OWN), ("across", ACROSS)):
        system = KnownVideo()
        lab = StubLab(tmp_path, {(row, 0): system for row in video.ROWS}, chains(sources, 0.95))
        video.draw_correlation(lab, tmp_path / f"{name}.png")
        sheets[name] = picture(tmp_path / f"{name}.png")
    width = sheets["own"].shape[1]
    differ = (sheets["own"] != sheets["across"]).any(axis=2)
    for half in (differ[:, : width // 2], differ[:, width // 2 : -width // 8]):
        assert half.mean() > 0.1  # bright along one diagonal or along the other
