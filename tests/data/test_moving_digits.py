"""Moving digits: against a loop that moves each digit one step after the other and copies it pixel by pixel."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.base.errors import ConfigError, DataError
from unweave.data import load
from unweave.data.moving_digits import MovingDigits, places


@pytest.fixture(autouse=True)
def no_files(tmp_path, monkeypatch):
    """An empty cache folder: digits of scikit-learn, and nothing is downloaded."""
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))

    def offline(*args: object, **kwargs: object) -> None:
        raise OSError("no network in tests")

    monkeypatch.setattr("pooch.retrieve", offline)


def slow_walk(start: float, velocity: float, steps: int, free: float) -> list[float]:
    """One step after the other; a digit that would leave turns round at the border."""
    place, walked = start, []
    for _ in range(steps):
        walked.append(place)
        place += velocity
        while not 0 <= place <= free:
            place = -place if place < 0 else 2 * free - place
            velocity = -velocity
    return walked


def slow_clip(pictures: np.ndarray, factors: np.ndarray, steps: int) -> np.ndarray:
    """(T, 3, 64, 64) from pictures (2, 28, 28) and factors (2, 5): digit, x, y, vx, vy."""
    clip = np.zeros((steps, 3, 64, 64))
    for plane in range(2):
        _, x, y, vx, vy = factors[plane]
        across, down = slow_walk(x, vx, steps, 36), slow_walk(y, vy, steps, 36)
        for step in range(steps):
            left, top = round(across[step]), round(down[step])
            for row in range(28):
                for column in range(28):
                    clip[step, plane, top + row, left + column] = pictures[plane, row, column]
    return clip


@pytest.mark.parametrize("split", ["train", "test"])
def test_clips_match_a_loop_over_steps_and_pixels(split, monkeypatch):
    bank = np.random.default_rng(0).random((6, 28, 28)).astype(np.float32)
    monkeypatch.setattr(MovingDigits, "_digits", lambda self: (*_bank(bank), None, "six random squares"))
    data = MovingDigits(clips=40, steps=12, speed=0.3, split=split, seed=3).load()
    assert data.spec.shape == (12, 3, 64, 64)
    rows = np.array([7, 39, 0, 7])
    clips = data.observations(rows)
    assert clips.dtype == np.float32
    for clip, row in zip(clips, rows, strict=True):
        factors = data.factors.values[row].reshape(2, 5)
        pictures = bank[factors[:, 0].astype(int)]  # the label of square k is k
        np.testing.assert_allclose(clip, slow_clip(pictures, factors, 12), atol=1e-6)


def test_small_frames_are_means_of_large_ones():
    large, small = (MovingDigits(clips=20, size=size, speed=0.2, seed=1).load() for size in (64, 32))
    means = large.observations(range(20)).reshape(20, 10, 3, 32, 2, 32, 2).mean(axis=(4, 6))
    np.testing.assert_allclose(small.observations(range(20)), means, atol=1e-6)
    for name in ("red_x", "green_y", "red_vx", "green_vy"):
        np.testing.assert_allclose(small.factors.column(name), large.factors.column(name) / 2)
    np.testing.assert_array_equal(small.factors.column("red_digit"), large.factors.column("red_digit"))


def _bank(bank: np.ndarray):
    from unweave.data import from_arrays

    return (from_arrays(bank, {"digit": np.arange(len(bank))}),)


def test_places_are_thrown_back_at_both_ends():
    rng = np.random.default_rng(1)
    start, velocity = rng.uniform(0, 18, 50), rng.uniform(-40, 40, 50)
    walked = places(start, velocity, 9, 18.0)
    for n in range(50):
        np.testing.assert_allclose(walked[n], slow_walk(start[n], velocity[n], 9, 18.0), atol=1e-9)
    assert walked.min() >= 0
    assert walked.max() <= 18


def test_a_clip_depends_on_seed_split_and_number_alone():
    few, many = (MovingDigits(clips=clips, seed=5).load() for clips in (8, 300))
    np.testing.assert_array_equal(few.observations([6, 1]), many.observations([6, 1]))
    np.testing.assert_array_equal(few.factors.values, many.factors.values[:8])
    np.testing.assert_array_equal(many.observations([3, 250])[1], many.observations([250])[0])
    longer = MovingDigits(clips=8, seed=5, steps=14).load()
    np.testing.assert_array_equal(longer.observations([2])[:, :10], few.observations([2]))
    for other in ({"seed": 6}, {"split": "test", "seed": 5}):
        assert not np.isclose(
            MovingDigits(clips=8, **other).load().factors.values[:, 1:5], few.factors.values[:, 1:5]
        ).any()


def test_planes_places_and_velocities():
    data = MovingDigits(clips=3000).load()
    clips = data.observations(np.arange(20))
    assert clips[:, :, 2].max() == 0
    assert (clips[:, :, :2].sum(axis=(3, 4)) > 10).all(), "a digit is never outside"
    assert clips.max() <= 1
    red_x, red_vx = data.factors.column("red_x"), data.factors.column("red_vx")
    assert 0 <= red_x.min() < 0.1
    assert 35.9 < red_x.max() <= 36
    assert -4 <= red_vx.min() < -3.9
    assert 3.9 < red_vx.max() <= 4
    together = np.corrcoef(data.factors.values.T)
    assert np.abs(together - np.eye(10)).max() < 0.08, "digits, places and velocities are drawn independently"
    assert data.factors.kinds == ("discrete", *["continuous"] * 4) * 2
    totals = clips.sum(axis=(3, 4))[:, :, :2]
    np.testing.assert_allclose(totals, np.broadcast_to(totals[:, :1], totals.shape), rtol=1e-5)


def test_the_digits_are_those_the_factors_say():
    small = load("digits")
    data = MovingDigits(clips=30, split="test").load()
    still = data.observations(np.arange(30))[:, 0, 1]  # green, first frame
    digit, x, y = (data.factors.column(f"green_{name}") for name in ("digit", "x", "y"))
    labels = small.factors.column("digit")[1400:]
    for n in range(30):
        top, left = round(y[n]) + 4, round(x[n]) + 4  # 20 pixels with a margin of 4
        cut = still[n, top : top + 20, left : left + 20]
        assert still[n].sum() == pytest.approx(cut.sum())
        enlarged = np.array(
            [_enlarged(image) for image in small.observations(1400 + np.flatnonzero(labels == digit[n]))[:, 0]]
        )
        assert np.abs(enlarged - cut).max(axis=(1, 2)).min() < 1e-6


def _enlarged(image: np.ndarray) -> np.ndarray:
    """8 x 8 to 20 x 20 by linear interpolation between pixel centres, first down, then across."""
    at = (np.arange(20) + 0.5) * 0.4 - 0.5
    down = np.array([np.interp(at, np.arange(8), column) for column in image.T]).T
    return np.array([np.interp(at, np.arange(8), row) for row in down])


def test_notes_say_which_digits():
    assert (
        "scikit-learn's digits enlarged (train: 1,400); MNIST's files are not in the cache folder"
        in load("moving_digits", clips=2).notes
    )
    assert "scikit-learn's digits enlarged (test: 397)" in load("moving_digits", digits="sklearn", split="test").notes
    with pytest.raises(DataError, match="was not found"):
        load("moving_digits", digits="mnist")


def test_mnist_is_taken_when_it_is_there(real_data, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(real_data))
    for split, count in (("train", "60,000"), ("test", "10,000")):
        data = load("moving_digits", clips=4, split=split)
        assert data.notes[0] == f"digits of MNIST ({split}: {count})"
        digits = load("mnist", split=split)
        rows = np.flatnonzero(digits.factors.column("digit") == data.factors.column("red_digit")[2])
        left, top = (round(data.factors.column(f"red_{axis}")[2]) for axis in "xy")
        square = data.observations([2])[0, 0, 0, top : top + 28, left : left + 28]
        assert any(np.array_equal(square, image) for image in digits.observations(rows)[:, 0])
    assert "scikit-learn" in load("moving_digits", clips=4, digits="sklearn").notes[0]


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"size": 48}, "size"), ({"speed": 0}, "speed"), ({"steps": 1}, "steps"), ({"digits": "svhn"}, "digits")],
)
def test_settings_that_cannot_be(settings, name):
    with pytest.raises(ConfigError, match=name):
        MovingDigits(**settings)
