"""Modularity against loops, the paper's extremes, noise and invariances."""

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from unweave.base.errors import MetricError
from unweave.metrics._interval import unseen
from unweave.metrics.modularity import modularity, modularity_per_dimension


def modularity_by_loops(codes, factors, bins=20):
    scores = []
    for d in range(codes.shape[1]):
        edges = np.histogram_bin_edges(codes[:, d], bins)[1:-1]
        shared = []
        for k in range(factors.shape[1]):
            present = ~np.isnan(factors[:, k])
            shared.append(mutual_info_score(np.digitize(codes[present, d], edges), factors[present, k]))
        best = max(shared)
        template = [best if m == best else 0.0 for m in shared]
        deviation = sum((m - t) ** 2 for m, t in zip(shared, template, strict=True))
        scores.append(1 - deviation / (best**2 * (len(shared) - 1)))
    return np.array(scores)


def test_interval_is_the_bootstrap_with_bins_and_what_counts_kept():
    rng, draws = np.random.default_rng(0), np.random.default_rng(5)
    factors = np.stack([rng.integers(3, size=700), rng.integers(4, size=700)], axis=1)
    codes = factors @ [[1, 0.6], [0.6, 1]] + 0.6 * rng.normal(size=factors.shape)
    score = modularity(codes, factors, repeats=25, rng=5)
    bins = [np.digitize(z, np.histogram_bin_edges(z, 20)[1:-1]) for z in codes.T]
    for _ in range(30):  # the shuffles that say what counts come first
        draws.permutation(700)
    values = []
    for _ in range(25):
        rows = draws.integers(700, size=700)
        shared = np.array([[mutual_info_score(z[rows], factors[rows, k]) for k in range(2)] for z in bins])
        values.append(modularity_per_dimension(np.where(score.parts["informative"], shared, 0)).mean())
    expected = np.quantile(np.array(values) + score.value - np.median(values), [0.025, 0.975])
    assert score.interval == pytest.approx(tuple(expected))


def test_agrees_with_loops_with_values_missing():
    rng = np.random.default_rng(0)
    factors = (
        np.stack([rng.integers(3, size=3000), rng.integers(5, size=3000), rng.integers(4, size=3000)], axis=1) * 1.0
    )
    codes = factors @ np.array([[1, 0.3, 0.4], [0.5, 1, 0.6], [0.4, 0.5, 1]]) + 0.2 * rng.normal(size=(3000, 3))
    factors[rng.random(factors.shape) < 0.1] = np.nan
    expected = modularity_by_loops(codes, factors)
    score = modularity(codes, factors)
    assert score.parts["informative"].all()
    np.testing.assert_allclose(score.parts["modularity_per_dimension"], expected, atol=1e-10)
    assert score.value == pytest.approx(expected.mean())
    assert score.interval[0] < score.value < score.interval[1]
    assert expected.max() < 0.99


def test_extremes_and_a_known_table():
    np.testing.assert_allclose(
        modularity_per_dimension(np.array([[0.0, 2, 0], [1, 1, 1], [2, 1, 0], [0, 0, 0]])), [1, 0, 1 - 1 / 8, np.nan]
    )


def test_perfect_codes_score_one_with_useless_dimensions_beside_them():
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(n, size=4000) for n in (3, 6, 40)], axis=1).astype(float)
    codes = np.concatenate([factors, rng.normal(size=(4000, 3)), np.zeros((4000, 1))], axis=1)
    score = modularity(codes, factors, repeats=10)
    assert score.value == 1.0
    np.testing.assert_array_equal(score.parts["informative"][:3], np.eye(3))
    assert not score.parts["informative"][3:].any()


@pytest.mark.parametrize("rows", [200, 5000])
def test_noise_scores_zero_though_factors_have_different_numbers_of_values(rows):
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(n, size=rows) for n in (3, 6, 40)], axis=1).astype(float)
    codes = rng.normal(size=(rows, 6))
    # Without the shuffles the bias of the plug-in estimate, which grows with the number of values, looks modular.
    assert modularity_by_loops(codes, factors).mean() > 0.2
    score = modularity(codes, factors, repeats=10)
    assert score.value == 0.0
    assert score.interval == unseen((0.0, 0.0), rows, bounds=(0.0, 1.0))


def test_duplicated_codes_stay_modular_and_a_mixed_dimension_is_not():
    factors = np.stack(np.meshgrid(range(8), range(8), range(4), indexing="ij"), axis=-1).reshape(-1, 3).astype(float)
    assert modularity(np.concatenate([factors, factors], axis=1), factors, repeats=2).value == 1.0
    both = modularity(factors[:, :2].sum(axis=1), factors[:, :2], repeats=2)
    assert both.value == pytest.approx(0.0, abs=1e-9)


def test_permuting_and_rescaling_dimensions_changes_nothing():
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(4, size=1000), rng.normal(size=1000)], axis=1)
    codes = np.stack([factors.sum(axis=1), factors[:, 1], factors[:, 0]], axis=1) + 0.3 * rng.normal(size=(1000, 3))
    score = modularity(codes, factors, repeats=20)
    for other in (
        modularity(codes[:, [2, 0, 1]], factors, repeats=20),
        modularity(codes * [3.7, 0.01, 1e5] + 5, factors, repeats=20),
    ):
        assert other.value == pytest.approx(score.value, abs=1e-12)
        assert other.interval == pytest.approx(score.interval, abs=1e-12)


def test_one_factor_is_an_error():
    with pytest.raises(MetricError, match="only one"):
        modularity(np.arange(10.0), np.arange(10) % 2)


def test_page_runs(root, run_page):
    assert run_page(root / "docs" / "metrics" / "modularity.md") == 1
