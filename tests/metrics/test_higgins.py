"""Both protocols of the linear-classifier score against loops, the known failure mode, given groups and bad input."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unweave.base.errors import MetricError
from unweave.metrics._interval import unseen
from unweave.metrics.higgins import Groups, higgins_changed, higgins_fixed
from unweave.metrics.kim import kim

SIZES = (3, 4, 5, 4)
BOTH = pytest.mark.parametrize("higgins", [higgins_fixed, higgins_changed], ids=lambda metric: metric.name)


def all_combinations(copies=2):
    grid = np.stack(np.meshgrid(*map(range, SIZES), indexing="ij"), axis=-1).reshape(-1, len(SIZES))
    return np.concatenate([grid] * copies).astype(float)


def world(factors, rng):
    """Codes of factors where the last two are entangled and all are noisy: the exact generator of the slow twin."""
    scaled = factors / np.array(SIZES)
    mixed = scaled @ np.array([[1.0, 0, 0, 0], [0.5, 1, 0, 0], [0, 0, 1, 0.9], [0, 0, 0.9, 1]])
    return mixed + 0.3 * rng.normal(size=mixed.shape)


def higgins_by_loops(changed, pairs, rng, number=400):
    """Sample factors from the world itself, pair by pair, as the papers describe."""
    inputs, targets = [], []
    for _ in range(2 * number):
        k = rng.integers(len(SIZES))
        difference = np.zeros(len(SIZES))
        for _ in range(pairs):
            first = np.array([rng.integers(size) for size in SIZES])
            second = first.copy() if changed else np.array([rng.integers(size) for size in SIZES])
            if changed:
                second[k] = rng.choice([value for value in range(SIZES[k]) if value != first[k]])
            else:
                second[k] = first[k]
            difference += np.abs(world(first, rng) - world(second, rng)) / pairs
        inputs.append(difference)
        targets.append(k)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=10.0, max_iter=2000))
    return model.fit(inputs[:number], targets[:number]).score(inputs[number:], targets[number:])


@BOTH
def test_agrees_with_loops(higgins):
    rng = np.random.default_rng(0)
    factors = all_combinations(copies=20)
    slow = higgins_by_loops(higgins is higgins_changed, 5, rng)
    score = higgins(world(factors, rng), factors, pairs=5, repeats=3)
    assert 0.3 < slow < 0.95
    assert score.value == pytest.approx(slow, abs=0.06)


@BOTH
def test_perfect_codes_score_one(higgins):
    factors = all_combinations()
    score = higgins(factors, factors, names=["shape", "size", "x", "y"])
    assert score.value == 1.0
    assert score.interval == unseen((1.0, 1.0), len(factors), bounds=(0.0, 1.0))
    assert score.parts["factors"] == ("shape", "size", "x", "y")
    np.testing.assert_array_equal(score.parts["confusion"], np.eye(4))


@BOTH
def test_noise_scores_near_chance(higgins):
    factors = all_combinations(copies=6)
    score = higgins(np.random.default_rng(0).normal(size=(len(factors), 6)), factors)
    assert score.value == pytest.approx(0.25, abs=0.05)


@BOTH
def test_failure_mode_all_but_one_factor_scores_one_where_kim_does_not(higgins):
    """Kim and Mnih, section 4: with K - 1 of K factors represented the classifier still finds the last one."""
    factors = all_combinations()
    codes = factors[:, :3]  # nothing about the last factor at all
    score = higgins(codes, factors)
    assert score.value > 0.99
    assert score.parts["accuracy_per_factor"][3] > 0.99
    assert kim(codes, factors).value == pytest.approx(0.75)


@BOTH
def test_second_weakness_a_rotation_scores_one(higgins):
    """Kim and Mnih, section 4: factors as linear combinations of dimensions are as good to a linear classifier."""
    factors = all_combinations()
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    assert higgins(factors / factors.std(axis=0) @ rotation, factors).value > 0.95


@BOTH
def test_permuting_and_rescaling_dimensions_changes_nothing(higgins):
    rng = np.random.default_rng(0)
    factors = all_combinations()
    codes = world(factors, rng)
    value = higgins(codes, factors, pairs=5).value
    assert 0.3 < value < 0.97
    assert higgins(codes[:, [2, 0, 3, 1]], factors, pairs=5).value == pytest.approx(value, abs=2e-3)
    assert higgins(codes * [3.7, -0.01, 1e5, 1.0] + 5, factors, pairs=5).value == pytest.approx(value, abs=2e-3)


@BOTH
def test_missing_values_and_constant_dimensions(higgins):
    rng = np.random.default_rng(0)
    factors = all_combinations()
    codes = np.concatenate([factors, np.full((len(factors), 1), 0.1)], axis=1)
    factors[rng.random(factors.shape) < 0.15] = np.nan
    assert higgins(codes, factors).value == 1.0


def test_continuous_factors_share_a_bin_when_fixed():
    factors = np.random.default_rng(0).normal(size=(2000, 3))
    assert higgins_fixed(factors, factors).value > 0.99


def test_continuous_factors_have_no_pairs_when_changed_and_the_error_says_what_to_give():
    factors = np.random.default_rng(0).normal(size=(200, 3))
    with pytest.raises(MetricError, match=r"factor 'factor\[0\]' alone.*give `groups`"):
        higgins_changed(factors, factors)


def given_groups(rng, number=60, pairs=4):
    """Exact interventions in a world with continuous factors: one factor changes, the codes are the factors."""
    factor = np.arange(number) % 3
    left = rng.normal(size=(number, pairs, 3))
    right = left.copy()
    right[np.arange(number), :, factor] = rng.normal(size=(number, pairs))
    return Groups(left, right, factor)


@BOTH
def test_given_groups_need_no_codes(higgins):
    groups = given_groups(np.random.default_rng(0))
    score = higgins(None, None, groups=groups, names=["a", "b", "c"])
    assert score.value == 1.0
    assert score.parts["factors"] == ("a", "b", "c")
    assert score.settings["groups"] == 60
    assert score.settings["pairs"] == 4


def test_given_groups_are_split_not_trained_and_tested_on_the_same():
    """Codes of noise in many dimensions can be learnt by heart, so held-out groups must score at chance."""
    rng = np.random.default_rng(0)
    shape = (90, 2, 120)
    groups = Groups(rng.normal(size=shape), rng.normal(size=shape), np.arange(90) % 3)
    assert higgins_fixed(None, None, groups=groups, repeats=20).value == pytest.approx(1 / 3, abs=0.15)


def test_drawn_groups_are_not_trained_and_tested_on_the_same_rows():
    """With few rows and many dimensions a classifier that had seen the test rows would know them."""
    rng = np.random.default_rng(0)
    factors = all_combinations(copies=1)
    score = higgins_changed(rng.normal(size=(len(factors), 60)), factors, repeats=10)
    assert score.value == pytest.approx(0.25, abs=0.12)


def test_bad_groups_and_settings_are_errors():
    rng = np.random.default_rng(0)
    left = rng.normal(size=(6, 2, 3))
    with pytest.raises(MetricError, match="expected \\(groups, pairs, dimensions\\)"):
        Groups(left, left[:, :1], np.zeros(6, dtype=int))
    with pytest.raises(MetricError, match="finite"):
        Groups(left, left * np.inf, np.zeros(6, dtype=int))
    with pytest.raises(MetricError, match="index of the factor"):
        Groups(left, left, np.full(6, 0.5))
    with pytest.raises(MetricError, match="at least 3"):
        higgins_fixed(None, None, groups=Groups(left, left, np.array([0, 0, 0, 0, 1, 1])))
    with pytest.raises(MetricError, match="name every factor"):
        higgins_fixed(None, None, groups=Groups(left, left, np.array([0, 1, 2] * 2)), names=["a"])
    with pytest.raises(MetricError, match="neither"):
        higgins_fixed(None, None)
    factors = all_combinations()
    with pytest.raises(MetricError, match="only one"):
        higgins_fixed(factors, factors[:, :1])
    with pytest.raises(MetricError, match="at least two to train"):
        higgins_fixed(factors, factors, train_groups=4)
    with pytest.raises(MetricError, match="at least 2 repeats"):
        higgins_fixed(factors, factors, repeats=1)


@BOTH
def test_page_runs(higgins, root, run_page):
    assert run_page(root / "docs" / "metrics" / f"{higgins.name}.md") == 2
