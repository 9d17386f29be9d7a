"""The interventional robustness score against loops, known answers, noise and invariances."""

import numpy as np
import pytest

from unweave.base.errors import MetricError
from unweave.metrics.irs import Robustness, irs


def irs_by_loops(codes, factors, quantile=0.99, least=10):
    matrix = np.zeros((codes.shape[1], factors.shape[1]))
    reach = np.zeros(codes.shape[1])
    for d in range(codes.shape[1]):
        reach[d] = np.quantile(np.abs(codes[:, d] - codes[:, d].mean()), quantile)
        for k in range(factors.shape[1]):
            deviations, weights = [], []
            for value in np.unique(factors[~np.isnan(factors[:, k]), k]):
                z = codes[factors[:, k] == value, d]
                if len(z) >= least:
                    deviations.append(np.quantile(np.abs(z - z.mean()), quantile))
                    weights.append(len(z))
            matrix[d, k] = max(0.0, 1 - np.average(deviations, weights=weights) / reach[d])
    return matrix, np.average(matrix.max(axis=1), weights=reach)


@pytest.mark.parametrize("quantile", [0.9, 0.99, 1.0])
def test_agrees_with_loops_with_values_missing(quantile):
    rng = np.random.default_rng(0)
    factors = np.stack([rng.choice(4, p=[0.1, 0.2, 0.3, 0.4], size=1500), rng.integers(5, size=1500)], axis=1).astype(
        float
    )
    factors[:4, 1] = 9  # too rare to count
    codes = factors @ np.array([[1, 0.3, 0], [0.1, 1, 0]]) + rng.uniform(-1, 1, size=(1500, 3)) * [0.1, 0.5, 2]
    factors[rng.random(factors.shape) < 0.1] = np.nan
    matrix, value = irs_by_loops(codes, factors, quantile)
    score = irs(codes, factors, quantile=quantile)
    np.testing.assert_allclose(score.parts["irs_matrix"], matrix, atol=1e-10)
    assert score.value == pytest.approx(value)
    assert score.interval[0] < score.value < score.interval[1]
    assert score.parts["factor_of_dimension"][:2] == ("factor[0]", "factor[1]")


def test_draws_of_rows_agree_with_loops_over_the_rows_they_have():
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(3, size=300), rng.integers(4, size=300)], axis=1)
    factors[rng.random(factors.shape) < 0.1] = -1
    codes = factors @ np.array([[1, 0.3], [0.1, 1]]) + rng.normal(size=(300, 2)) * [0.2, 2]
    robustness = Robustness(codes, factors, 0.9, 10)
    for _ in range(5):
        rows = rng.integers(300, size=300)
        matrix, reach = robustness(np.bincount(rows, minlength=300))
        known = np.where(factors < 0, np.nan, factors.astype(float))
        expected, value = irs_by_loops(codes[rows], known[rows], 0.9)
        np.testing.assert_allclose(matrix, expected, atol=1e-10)
        assert np.average(matrix.max(axis=1), weights=reach) == pytest.approx(value)


def test_perfect_codes_score_one_however_often_a_factor_is_encoded():
    factors = np.stack(np.meshgrid(range(5), range(6), range(4), indexing="ij"), axis=-1).reshape(-1, 3).astype(float)
    assert irs(factors, factors).value == pytest.approx(1.0)
    codes = np.concatenate([factors, factors, np.full((len(factors), 1), 0.1)], axis=1)
    score = irs(codes, factors)
    assert score.value == pytest.approx(1.0)
    assert score.parts["reach"][6] == 0.0


def test_perfect_continuous_codes_score_one_minus_a_bin():
    factors = np.random.default_rng(0).uniform(size=(20000, 2))
    assert irs(factors, factors, bins=20, repeats=2).value == pytest.approx(1 - 1 / 20, abs=0.01)
    assert irs(factors, factors, bins=100, repeats=2).value == pytest.approx(1 - 1 / 100, abs=0.01)


def test_noise_scores_near_zero():
    rng = np.random.default_rng(0)
    factors = rng.integers(5, size=(5000, 3))
    assert irs(rng.normal(size=(5000, 4)), factors, repeats=2).value < 0.05


def test_codes_that_never_vary_score_zero():
    assert irs(np.full((40, 2), 0.1), np.arange(40) % 2).value == 0.0


def test_permuting_changes_nothing_and_a_common_scale_neither():
    rng = np.random.default_rng(0)
    factors = rng.integers(4, size=(800, 2)).astype(float)
    codes = np.concatenate([factors, factors], axis=1) + rng.normal(size=(800, 4))
    score = irs(codes, factors, repeats=10)
    assert irs(codes[:, [2, 0, 3, 1]], factors, repeats=10).value == pytest.approx(score.value)
    assert irs(codes * -3.7 + 5, factors, repeats=10).value == pytest.approx(score.value)
    # Dimensions weigh as far as they reach: scaling one leaves its own row alone and moves the mean.
    scaled = irs(codes * [100, 1, 1, 1], factors, repeats=2)
    np.testing.assert_allclose(scaled.parts["irs_matrix"], score.parts["irs_matrix"])
    assert scaled.value == pytest.approx(score.parts["irs_per_dimension"][0], abs=0.02)


def test_too_few_rows_and_impossible_settings_are_errors():
    with pytest.raises(MetricError, match="10 rows"):
        irs(np.arange(12.0), np.arange(12) % 6)
    with pytest.raises(MetricError, match="quantile"):
        irs(np.arange(12.0), np.arange(12) % 2, quantile=0)
    with pytest.raises(MetricError, match="least_rows"):
        irs(np.arange(12.0), np.arange(12) % 2, least_rows=1)


def test_page_runs(root, run_page):
    assert run_page(root / "docs" / "metrics" / "irs.md") == 1
