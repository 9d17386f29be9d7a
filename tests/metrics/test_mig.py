"""The mutual information gap against loops with scikit-learn, known answers and invariances."""

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.metrics._interval import unseen
from unweave.metrics.mig import mig


def factors_of(rows, rng, sizes=(3, 6, 40)):
    return np.stack([rng.integers(size, size=rows) for size in sizes], axis=1).astype(float)


def mig_by_loops(codes, factors, bins):
    gaps = []
    for k in range(factors.shape[1]):
        present = ~np.isnan(factors[:, k])
        factor = factors[present, k]
        shared = []
        for d in range(codes.shape[1]):
            edges = np.histogram_bin_edges(codes[:, d], bins)
            shared.append(mutual_info_score(np.digitize(codes[present, d], edges[1:-1]), factor))
        shared.sort()
        gaps.append((shared[-1] - shared[-2]) / mutual_info_score(factor, factor))
    return np.array(gaps)


def test_agrees_with_loops_with_values_missing():
    rng = np.random.default_rng(0)
    factors = factors_of(1500, rng)
    codes = np.concatenate([factors, factors[:, :2]], axis=1) + rng.normal(size=(1500, 5))
    factors[rng.random(factors.shape) < 0.1] = np.nan
    expected = mig_by_loops(codes, factors, 20)
    score = mig(codes, factors, bins=20)
    np.testing.assert_allclose(score.parts["gap"], expected, atol=1e-10)
    assert score.value == pytest.approx(expected.mean())
    assert score.interval[0] < score.value < score.interval[1]
    assert expected.min() > 0.001


def test_perfect_codes_score_one():
    # All combinations: other dimensions know exactly nothing, and a factor of 40 values has a bin for each.
    grid = np.stack(np.meshgrid(range(3), range(6), range(40), indexing="ij"), axis=-1).reshape(-1, 3).astype(float)
    score = mig(grid, grid)
    assert score.value == pytest.approx(1.0)
    assert score.settings["bins"] == (20, 20, 40)
    np.testing.assert_allclose(score.parts["entropy"], np.log([3, 6, 40]))
    np.testing.assert_allclose(score.parts["mutual_information"], np.diag(np.log([3, 6, 40])), atol=1e-10)
    # With the customary 20 bins two values share a bin.
    assert mig(grid, grid, bins=20).parts["gap"][2] == pytest.approx(np.log(20) / np.log(40))


def test_perfect_continuous_codes_score_near_one():
    factors = np.random.default_rng(0).uniform(size=(20000, 3))
    assert mig(factors, factors, repeats=5).value > 0.98


def test_noise_scores_near_zero():
    rng = np.random.default_rng(0)
    assert mig(rng.normal(size=(5000, 6)), factors_of(5000, rng), repeats=5).value < 0.01


def test_duplicated_codes_score_zero():
    factors = factors_of(1000, np.random.default_rng(0))
    score = mig(np.concatenate([factors, factors], axis=1), factors)
    assert score.value == pytest.approx(0.0, abs=1e-12)
    assert score.interval == pytest.approx(unseen((0.0, 0.0), 1000, bounds=(0.0, 1.0)), abs=1e-12)


def test_one_dimension_has_nothing_to_subtract():
    factors = factors_of(1000, np.random.default_rng(0))
    score = mig(factors[:, :1], factors[:, :1])
    assert score.value == pytest.approx(1.0)


def test_permuting_and_rescaling_dimensions_changes_nothing():
    rng = np.random.default_rng(0)
    factors = factors_of(1000, rng)
    codes = factors + rng.normal(size=factors.shape)
    score = mig(codes, factors)
    for other in (mig(codes[:, [2, 0, 1]], factors), mig(codes * [3.7, 0.01, 1e5] + 5, factors)):
        assert other.value == pytest.approx(score.value, abs=1e-12)
        assert other.interval == pytest.approx(score.interval, abs=1e-12)


def test_a_factor_scores_the_same_alone():
    rng = np.random.default_rng(0)
    factors = factors_of(1000, rng)
    codes = factors + rng.normal(size=factors.shape)
    together, alone = mig(codes, factors), mig(codes, factors[:, 1:2])
    assert alone.value == pytest.approx(together.parts["gap"][1])


def test_interval_covers_the_value_of_more_data():
    rng = np.random.default_rng(0)
    big = factors_of(200_000, rng, sizes=(4, 5))
    codes = big + 0.7 * rng.normal(size=big.shape)
    truth = mig(codes, big, repeats=2).value
    held = 0
    for start in range(0, 60_000, 3000):
        rows = slice(start, start + 3000)
        low, high = mig(codes[rows], big[rows], rng=start, repeats=100).interval
        held += low <= truth <= high
    assert held >= 15  # of 20; the plug-in bias shifts the small samples a little


def test_interval_is_the_bootstrap_of_the_score():
    """Bins are kept: codes whose range every draw has are binned alike in a draw."""
    rng, draws = np.random.default_rng(0), np.random.default_rng(5)
    factors = factors_of(900, rng, sizes=(3, 4))
    codes = np.round(np.clip(factors @ [[1, 0.2], [0.1, 1]] + rng.normal(size=factors.shape), 0, 3) * 4)
    rows = [draws.integers(900, size=900) for _ in range(25)]
    values = np.array([mig(codes[drawn], factors[drawn], repeats=2).value for drawn in rows])
    found = mig(codes, factors, repeats=25, rng=5)
    assert found.interval == pytest.approx(tuple(np.quantile(values + found.value - np.median(values), [0.025, 0.975])))


def test_interval_holds_the_value_though_drawing_rows_twice_inflates_information():
    rng = np.random.default_rng(0)
    factors = factors_of(300, rng, sizes=(30, 30))
    codes = factors + 4 * rng.normal(size=factors.shape)
    score = mig(codes, factors)
    assert score.interval[0] < score.value < score.interval[1]


def test_few_rows_still_give_a_finite_score():
    score = mig(np.array([[0.0], [1.0], [2.0]]), np.array([[0], [1], [1]]))
    assert np.isfinite(score.value)
    assert np.isfinite(score.interval).all()


def test_page_runs(root, run_page):
    assert run_page(root / "docs" / "metrics" / "mig.md") == 1


def test_a_category_is_one_variable():
    """Its columns know the same: counted one by one they leave no gap."""
    rng = np.random.default_rng(0)
    factors = factors_of(3000, rng, sizes=(25, 4))
    soft = np.eye(25)[factors[:, 0].astype(int)] * 0.9 + 0.1 / 25
    codes = Codes(
        (Block("kind", (25,), kind="simplex"), Block("z", (2,))),
        {"kind": soft.astype(np.float32), "z": np.stack([factors[:, 1], rng.normal(size=3000)], 1).astype(np.float32)},
    )
    score = mig(codes, factors, bins=10)  # fewer than there are categories
    assert score.parts["dimensions"] == ("kind", "z[0]", "z[1]")
    numbers = np.column_stack([factors[:, 0], codes["z"]])
    expected = [
        [
            mutual_info_score(factors[:, 0], factor),
            *(mutual_info_score(np.digitize(z, edges(z, 10)), factor) for z in rest),
        ]
        for factor, rest in ((factor, numbers[:, 1:].T) for factor in factors.T)
    ]
    np.testing.assert_allclose(score.parts["mutual_information"], np.array(expected).T, atol=1e-10)
    assert score.parts["gap"][0] > 0.95
    assert mig(codes.flat()[0], factors).parts["gap"][0] < 0.05


def test_categories_of_several_positions_have_names():
    codes = Codes(
        (Block("kinds", (2, 3), axes=("entity", "dim"), kind="simplex"),),
        {"kinds": np.eye(3, dtype=np.float32)[np.arange(60).reshape(30, 2) % 3]},
    )
    score = mig(codes, (np.arange(30) % 3)[:, None], repeats=2)
    assert score.parts["dimensions"] == ("kinds[0]", "kinds[1]")


def edges(column, bins):
    return np.histogram_bin_edges(column, bins)[1:-1]
