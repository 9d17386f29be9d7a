"""Bins, entropies and mutual informations against loops, scikit-learn and SciPy."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import mutual_info_score

from unweave.base.errors import MetricError
from unweave.metrics.discretise import (
    WeightedInformation,
    discretise,
    discretise_factors,
    entropy,
    information,
    mutual_information,
    mutual_information_matrix,
    resolution,
)


def bin_by_loop(column, bins):
    """The number of inner edges at or below each value."""
    edges = np.linspace(column.min(), column.max(), bins + 1)[1:-1]
    return np.array([sum(edge <= value for edge in edges) for value in column])


@pytest.mark.parametrize("bins", [1, 2, 7, 20])
def test_bins_are_equal_width(bins):
    column = np.random.default_rng(0).normal(size=500)
    np.testing.assert_array_equal(discretise(column, bins), bin_by_loop(column, bins))


def test_bins_of_known_values():
    np.testing.assert_array_equal(discretise(np.array([0.0, 0.9, 1.0, 2.5, 4.0]), 4), [0, 0, 1, 2, 3])


def test_a_constant_column_has_one_bin():
    np.testing.assert_array_equal(discretise(np.full(5, 0.1)), np.zeros(5))


def test_missing_values_are_marked_and_do_not_move_the_bins():
    np.testing.assert_array_equal(discretise(np.array([np.nan, 0.0, 1.0, 2.0]), 2), [-1, 0, 1, 1])
    np.testing.assert_array_equal(discretise(np.array([np.nan, np.nan]), 2), [-1, -1])


def test_huge_values_do_not_overflow():
    np.testing.assert_array_equal(discretise(np.array([-1.7e308, 0.0, 1.7e308]), 2), [0, 1, 1])


@pytest.mark.parametrize("scale", [0.1, 3.7, 1e-9, 1e9])
def test_rescaling_moves_no_row_even_on_an_edge(scale):
    column = np.arange(41.0)  # every second value lies on an edge of 20 bins
    for shift in np.linspace(-1, 1, 50):
        np.testing.assert_array_equal(discretise(column), discretise((column + shift) * scale))


def test_no_bins_is_an_error():
    with pytest.raises(MetricError, match="at least 1"):
        discretise(np.arange(3.0), 0)


def test_entropy_and_information_agree_with_scipy_and_sklearn():
    rng = np.random.default_rng(1)
    a = rng.integers(-3, 4, size=700)
    b = (a + rng.integers(3, size=700)) * 10
    assert entropy(a) == pytest.approx(stats.entropy(np.unique(a, return_counts=True)[1]))
    assert mutual_information(a, b) == pytest.approx(mutual_info_score(a, b))
    assert mutual_information(a, a) == pytest.approx(entropy(a))
    assert mutual_information(a, np.zeros(700)) == pytest.approx(0.0, abs=1e-12)


def test_information_of_a_known_table():
    # p = [[1/2, 0], [1/4, 1/4]]
    a, b = np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])
    expected = (
        0.5 * np.log(0.5 / (0.5 * 0.75)) + 0.25 * np.log(0.25 / (0.5 * 0.75)) + 0.25 * np.log(0.25 / (0.5 * 0.25))
    )
    assert mutual_information(a, b) == pytest.approx(expected)


@pytest.mark.parametrize("bins", [20, (20, 11, 5)])
def test_matrix_agrees_with_pairs_of_columns_with_values_missing(bins):
    rng = np.random.default_rng(2)
    factors = np.stack([rng.integers(4, size=400), 5 * rng.integers(3, size=400), rng.normal(size=400)], axis=1)
    codes = rng.normal(size=(400, 3)) + factors[:, [0, 2, 1]]
    factors[rng.random(factors.shape) < 0.2] = np.nan
    discrete = np.array([True, True, False])
    matrix = mutual_information_matrix(codes, factors, discrete, bins)
    for k, number in enumerate(np.broadcast_to(bins, 3)):
        present = ~np.isnan(factors[:, k])
        factor = factors[present, k] if discrete[k] else discretise(factors[present, k], number)
        for d in range(3):
            # Bins are those of all rows: a code does not change because a factor is missing somewhere.
            expected = mutual_info_score(discretise(codes[:, d], number)[present], factor)
            assert matrix[d, k] == pytest.approx(expected, abs=1e-12)


def test_weighted_information_agrees_with_repeated_rows():
    rng = np.random.default_rng(3)
    factors = np.stack([rng.integers(4, size=200), rng.integers(7, size=200)], axis=1)
    codes = (factors[:, [0, 1, 1]] + rng.integers(3, size=(200, 3))) // 2 * [1, 1, 3]  # some bins are empty
    factors[rng.random(200) < 0.2, 1] = -1
    weights = rng.poisson(1.0, size=(200, 6)).astype(np.float32)
    weights[:, 4], weights[:, 5] = 0, 0
    weights[7, 4] = 3  # one row alone knows nothing
    shared, own = WeightedInformation(codes, factors)(weights)
    assert shared.shape == (6, 3, 2)
    for draw in range(5):
        rows = np.repeat(np.arange(200), weights[:, draw].astype(int))
        expected, entropies = information(codes[rows], factors[rows])
        np.testing.assert_allclose(shared[draw], expected, atol=1e-12)
        np.testing.assert_allclose(own[draw], entropies, atol=1e-12)
    assert (shared[5] == 0).all()


def test_factors_are_numbered_by_value():
    factors = np.array([[10.0, 0.0], [-1.0, 1.0], [np.nan, 0.4], [10.0, np.nan]])
    numbered = discretise_factors(factors, np.array([True, False]), bins=2)
    np.testing.assert_array_equal(numbered, [[1, 0], [0, 1], [-1, 0], [1, -1]])


def test_resolution_has_a_bin_for_each_value_of_a_discrete_factor():
    factors = np.stack([np.arange(300) % 3, np.arange(300) % 40, np.arange(300), np.arange(300)], axis=1).astype(float)
    assert resolution(factors, np.array([True, True, True, False])) == (20, 40, 100, 20)
