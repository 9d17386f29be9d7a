"""Separated attribute predictability against loops, brute force over thresholds, known answers and invariances."""

import itertools

import numpy as np
import pytest

from unweave.metrics.sap import best_thresholds, sap


def best_by_enumeration(column, numbers):
    """The greatest balanced accuracy of all ways to cut the line, values in the order of their means."""
    values = sorted(set(numbers), key=lambda value: column[numbers == value].mean())
    places = [-np.inf, *((np.unique(column)[1:] + np.unique(column)[:-1]) / 2), np.inf]
    best = 0.0
    for cuts in itertools.combinations_with_replacement(places, len(values) - 1):
        edges = [-np.inf, *cuts, np.inf]
        shares = [
            np.mean([edges[v] < x <= edges[v + 1] for x in column[numbers == value]]) for v, value in enumerate(values)
        ]
        best = max(best, float(np.mean(shares)))
    return best


@pytest.mark.parametrize("values", [2, 3, 4])
def test_thresholds_are_the_best_of_all(values):
    rng = np.random.default_rng(values)
    for _ in range(15):
        numbers = np.concatenate([np.arange(values), rng.integers(values, size=8)])
        column = np.round(numbers * rng.choice([0.0, 0.5, 1.0]) + rng.normal(size=len(numbers)), 1)  # with ties
        order = np.argsort(column, kind="stable")
        column, numbers = column[order], numbers[order]
        said = best_thresholds(column, numbers)
        accuracy = np.mean([np.mean(said[numbers == value] == value) for value in range(values)])
        assert accuracy == pytest.approx(best_by_enumeration(column, numbers))
        for x in np.unique(column):
            assert len(set(said[column == x])) == 1  # equal codes are never told apart


def sap_by_loops(codes, factors, discrete):
    gaps = []
    for k in range(factors.shape[1]):
        present = ~np.isnan(factors[:, k])
        scores = []
        for d in range(codes.shape[1]):
            z, v = codes[present, d], factors[present, k]
            if discrete[k]:
                scores.append(best_by_enumeration(z, v))
            else:
                slope, intercept = np.polyfit(z, v, 1)
                scores.append(1 - np.sum((v - slope * z - intercept) ** 2) / np.sum((v - v.mean()) ** 2))
        scores.sort()
        gaps.append(scores[-1] - scores[-2])
    return np.array(gaps)


def test_agrees_with_loops_with_values_missing():
    rng = np.random.default_rng(0)
    factors = np.stack([rng.normal(size=60), rng.integers(3, size=60), rng.integers(2, size=60)], axis=1)
    codes = factors + 0.5 * rng.normal(size=factors.shape)
    factors[rng.random(factors.shape) < 0.1] = np.nan
    expected = sap_by_loops(codes, factors, [False, True, True])
    score = sap(codes, factors)
    np.testing.assert_allclose(score.parts["gap"], expected, atol=1e-10)
    assert score.value == pytest.approx(expected.mean())
    assert score.interval[0] < score.value < score.interval[1]
    assert expected.min() > 0.05


def test_interval_is_the_bootstrap_with_thresholds_kept():
    rng, draws = np.random.default_rng(0), np.random.default_rng(5)
    factors = np.stack([rng.normal(size=90), rng.integers(3, size=90)], axis=1)
    codes = factors + 0.7 * rng.normal(size=factors.shape)
    factors[rng.random(factors.shape) < 0.1] = np.nan
    kinds = ["continuous", "discrete"]
    said = np.full((90, 2), -1)
    for d in range(2):
        rows = np.argsort(codes[:, d])
        rows = rows[~np.isnan(factors[rows, 1])]
        said[rows, d] = best_thresholds(codes[rows, d], factors[rows, 1].astype(int))
    values = []
    for _ in range(25):
        drawn = draws.integers(90, size=90)
        rows = drawn[~np.isnan(factors[drawn, 0])]
        linear = [np.corrcoef(codes[rows, d], factors[rows, 0])[0, 1] ** 2 for d in range(2)]
        rows = drawn[~np.isnan(factors[drawn, 1])]
        right = [
            np.mean([np.mean(said[rows[factors[rows, 1] == value], d] == value) for value in range(3)])
            for d in range(2)
        ]
        values.append((abs(linear[0] - linear[1]) + abs(right[0] - right[1])) / 2)
    score = sap(codes, factors, kinds=kinds, repeats=25, rng=5)
    expected = np.quantile(np.array(values) + score.value - np.median(values), [0.025, 0.975])
    assert score.interval == pytest.approx(tuple(expected))


def test_perfect_continuous_codes_score_one():
    factors = np.random.default_rng(0).normal(size=(20000, 3))
    assert sap(factors, factors, repeats=5).value == pytest.approx(1.0, abs=1e-3)


def test_perfect_discrete_codes_score_one_minus_chance():
    grid = np.stack(np.meshgrid(range(2), range(3), range(5), indexing="ij"), axis=-1).reshape(-1, 3).astype(float)
    score = sap(grid, grid)
    np.testing.assert_allclose(score.parts["gap"], [1 - 1 / 2, 1 - 1 / 3, 1 - 1 / 5])
    np.testing.assert_allclose(np.diag(score.parts["predictability"]), 1.0)


def test_discrete_factors_may_be_called_continuous():
    grid = np.stack(np.meshgrid(range(2), range(3), indexing="ij"), axis=-1).reshape(-1, 2).astype(float)
    assert sap(grid, grid, kinds=["continuous", "continuous"]).value == pytest.approx(1.0)


def test_noise_and_duplicates_score_near_zero():
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(4, size=4000), rng.normal(size=4000)], axis=1)
    assert sap(rng.normal(size=(4000, 5)), factors, repeats=5).value < 0.02
    duplicated = sap(np.concatenate([factors, factors], axis=1), factors)
    assert duplicated.value == pytest.approx(0.0, abs=1e-12)


def test_a_constant_dimension_predicts_nothing():
    grid = np.stack(np.meshgrid(range(2), range(3), indexing="ij"), axis=-1).reshape(-1, 2).astype(float)
    score = sap(np.concatenate([grid[:, :1], np.full((6, 1), 0.1)], axis=1), grid[:, :1])
    np.testing.assert_array_equal(score.parts["active"], [True, False])
    assert score.value == 1.0


def test_threshold_switches_dimensions_off():
    grid = np.stack(np.meshgrid(range(2), range(3), indexing="ij"), axis=-1).reshape(-1, 2).astype(float)
    score = sap(grid * [1.0, 0.1], grid, threshold=0.05)
    np.testing.assert_array_equal(score.parts["predictability"][1], [0, 0])


def test_permuting_and_rescaling_dimensions_changes_nothing():
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(4, size=500), rng.normal(size=500)], axis=1)
    codes = np.concatenate([factors, factors], axis=1) + rng.normal(size=(500, 4))
    score = sap(codes, factors)
    for other in (sap(codes[:, [2, 0, 3, 1]], factors), sap(codes * [3.7, -0.01, 1e5, 1] + 5, factors)):
        assert other.value == pytest.approx(score.value, abs=1e-9)
        assert other.parts["gap"] == pytest.approx(score.parts["gap"], abs=1e-9)


def test_interval_is_that_of_new_rows():
    """The spread of the score over fresh samples is about the spread the bootstrap says."""
    rng = np.random.default_rng(0)

    def sample():
        factors = np.stack([rng.integers(3, size=800), rng.normal(size=800)], axis=1)
        return factors + [0.6, 1.0] * rng.normal(size=factors.shape), factors

    values = [sap(*sample(), repeats=2).value for _ in range(60)]
    low, high = sap(*sample()).interval
    assert (high - low) / (2 * 1.96 * np.std(values)) == pytest.approx(1.0, abs=0.35)


def test_page_runs(root, run_page):
    assert run_page(root / "docs" / "metrics" / "sap.md") == 1
