"""The majority-vote score against loops from its definition, known answers and invariances."""

import numpy as np
import pytest

from unweave.base.errors import MetricError
from unweave.metrics.kim import kim

SIZES = (3, 4, 5, 4)


def all_combinations(copies=3):
    grid = np.stack(np.meshgrid(*map(range, SIZES), indexing="ij"), axis=-1).reshape(-1, len(SIZES))
    return np.concatenate([grid] * copies).astype(float)


def kim_by_loops(codes, factors, rng, size=50, number=400):
    scale = codes.std(axis=0)
    votes = []
    for _ in range(2 * number):
        k = rng.integers(factors.shape[1])
        value = factors[rng.integers(len(factors)), k]
        rows = rng.choice(np.flatnonzero(factors[:, k] == value), size=size)
        spread = [np.var(codes[rows, d] / scale[d]) for d in range(codes.shape[1])]
        votes.append((int(np.argmin(spread)), int(k)))
    table = np.zeros((codes.shape[1], factors.shape[1]))
    for d, k in votes[:number]:
        table[d, k] += 1
    return np.mean([table[d].argmax() == k for d, k in votes[number:]])


def entangled(factors, rng):
    codes = factors / factors.std(axis=0)
    codes = codes @ np.array([[1.0, 0, 0, 0], [0.6, 1, 0, 0], [0, 0, 1, 0.9], [0, 0, 0.9, 1]])
    return codes + 0.3 * rng.normal(size=codes.shape)


def test_agrees_with_loops():
    rng = np.random.default_rng(0)
    factors = all_combinations()
    codes = entangled(factors, rng)
    slow = np.mean([kim_by_loops(codes, factors, rng) for _ in range(5)])
    score = kim(codes, factors, rows_per_vote=50)
    assert 0.4 < slow < 0.97
    assert score.value == pytest.approx(slow, abs=0.05)
    assert score.interval[0] < score.value < score.interval[1]


def test_perfect_codes_score_one_with_useless_and_constant_dimensions_beside_them():
    factors = all_combinations()
    rng = np.random.default_rng(0)
    codes = np.concatenate([factors, rng.normal(size=(len(factors), 3)), np.full((len(factors), 1), 0.1)], axis=1)
    score = kim(codes, factors)
    assert score.value == 1.0
    np.testing.assert_array_equal(score.parts["active"], [True] * 7 + [False])
    np.testing.assert_array_equal(score.parts["votes"].argmax(axis=0), range(4))
    np.testing.assert_array_equal(score.parts["votes"][7], 0)
    np.testing.assert_allclose(score.parts["votes"].sum(axis=0), 200)


def test_noise_scores_near_chance():
    factors = all_combinations(copies=6)
    score = kim(np.random.default_rng(0).normal(size=(len(factors), 6)), factors)
    assert score.value == pytest.approx(0.25, abs=0.06)


def test_votes_are_not_trained_and_tested_on_the_same_rows():
    """Few rows in many dimensions: some dimension varies little by chance, and votes on the same rows would know it."""
    factors = all_combinations(copies=1)
    scores = [kim(np.random.default_rng(seed).normal(size=(len(factors), 40)), factors).value for seed in range(3)]
    assert np.mean(scores) == pytest.approx(0.25, abs=0.06)


def test_codes_that_never_vary_score_zero():
    factors = all_combinations()
    assert kim(np.full((len(factors), 2), 0.1), factors).value == 0.0


def test_a_missing_factor_is_never_recognised():
    factors = all_combinations()
    score = kim(factors[:, :3], factors)
    assert score.value == pytest.approx(0.75)
    np.testing.assert_allclose(score.parts["accuracy_per_factor"], [1, 1, 1, 0])


def test_permuting_and_rescaling_dimensions_changes_nothing():
    factors = all_combinations()
    codes = entangled(factors, np.random.default_rng(0))
    value = kim(codes, factors).value
    assert kim(codes[:, [2, 0, 3, 1]], factors).value == value
    assert kim(codes * [3.7, -0.01, 1e5, 1.0] + 5, factors).value == value


def test_threshold_leaves_dimensions_out():
    factors = all_combinations()
    codes = factors * [1, 1, 1, 1e-3]
    assert kim(codes, factors).value == 1.0
    pruned = kim(codes, factors, threshold=0.05)
    assert pruned.value == pytest.approx(0.75)
    np.testing.assert_array_equal(pruned.parts["active"], [True, True, True, False])


def test_continuous_factors_missing_values_and_a_subset():
    rng = np.random.default_rng(0)
    factors = np.stack([rng.uniform(size=3000), rng.normal(size=3000), rng.integers(4, size=3000)], axis=1)
    codes = factors.copy()
    assert kim(codes, factors).value > 0.99  # not 1: the outermost bins have few rows to vote with
    factors[rng.random(factors.shape) < 0.3] = np.nan
    assert kim(codes, factors).value > 0.98
    assert kim(codes, factors[:, :2]).value > 0.98


def test_same_seed_same_score_and_settings_travel():
    factors = all_combinations()
    codes = entangled(factors, np.random.default_rng(0))
    first, second = kim(codes, factors, rng=3), kim(codes, factors, rng=3)
    assert first.value == second.value
    assert first.interval == second.interval
    assert first.value != kim(codes, factors, rng=4).value
    assert first.settings["seed"] == 3
    assert first.settings["rows_per_vote"] == 100


def test_too_little_to_vote_on_is_an_error():
    factors = all_combinations()
    with pytest.raises(MetricError, match="only one"):
        kim(factors, factors[:, :1])
    with pytest.raises(MetricError, match="rows to draw from"):
        kim(np.arange(8.0)[:, None], np.stack([np.arange(8.0), np.arange(8) % 2], axis=1))
    with pytest.raises(MetricError, match="at least one of both"):
        kim(factors, factors, train_votes=3)
    with pytest.raises(MetricError, match="at least 2"):
        kim(factors, factors, rows_per_vote=1)


def test_page_runs(root, run_page):
    assert run_page(root / "docs" / "metrics" / "kim.md") == 2
