"""Explicitness against scikit-learn, a closed form for scalar codes, noise and invariances."""

import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unweave.base.errors import MetricError
from unweave.metrics.explicitness import explicitness, one_against_rest, roc_area

MODULE = sys.modules[one_against_rest.__module__]


def explicitness_by_sklearn(codes, factors, seeds=5):
    scores = []
    for k in range(factors.shape[1]):
        present = ~np.isnan(factors[:, k])
        for seed in range(seeds):
            train_x, test_x, train_y, test_y = train_test_split(
                codes[present], factors[present, k], test_size=0.5, stratify=factors[present, k], random_state=seed
            )
            model = make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression(max_iter=1000)))
            said = model.fit(train_x, train_y).decision_function(test_x)
            areas = [roc_auc_score(test_y == value, said[:, v]) for v, value in enumerate(np.unique(train_y))]
            scores.append(2 * np.mean(areas) - 1)
    return np.array(scores).reshape(-1, seeds).mean(axis=1)


def test_roc_area_agrees_with_sklearn_ties_included():
    rng = np.random.default_rng(0)
    for _ in range(10):
        scores, positive = rng.integers(6, size=50) / 7, rng.random(50) < 0.4
        assert roc_area(scores, positive) == pytest.approx(roc_auc_score(positive, scores))
    noisy = scores + 1e-13 * rng.normal(size=50)
    assert roc_area(noisy, positive) == roc_area(scores, positive)


@pytest.mark.parametrize("spread", [3.0, 1.0, 0.01])  # from hardly told apart to told apart entirely
@pytest.mark.parametrize("inverse_penalty", [0.01, 1.0, 1e4])
def test_newton_finds_the_regressions_of_sklearn(spread, inverse_penalty, monkeypatch):
    monkeypatch.setattr(MODULE, "MOST_SHARES", 1)  # parts of 128 rows
    rng = np.random.default_rng(0)
    place = np.concatenate([np.arange(5), rng.choice(5, p=[0.02, 0.08, 0.2, 0.3, 0.4], size=600)])
    x = np.stack([place, (place - 2) ** 2, 0 * place, place == 1], axis=1) + spread * rng.normal(size=(605, 4))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    x[:, 2] = 0  # a constant dimension
    found = one_against_rest(x, place, inverse_penalty)

    def loss(weights, value):
        margin = (x @ weights[:-1] + weights[-1]) * np.where(place == value, 1, -1)
        return np.logaddexp(0, -margin).sum() + weights[:-1] @ weights[:-1] / (2 * inverse_penalty)

    for value in range(5):
        model = LogisticRegression(C=inverse_penalty, max_iter=100_000, tol=1e-8).fit(x, place == value)
        by_sklearn = np.append(model.coef_[0], model.intercept_)
        assert loss(found[value], value) <= loss(by_sklearn, value) + 1e-6
        if inverse_penalty <= 1:
            np.testing.assert_allclose(found[value], by_sklearn, atol=2e-3)


def test_many_dimensions_are_regressed_as_few_are(monkeypatch):
    rng = np.random.default_rng(0)
    factors = rng.integers(4, size=(600, 2))
    codes = factors + rng.normal(size=(600, 2))
    value = explicitness(codes, factors).value
    monkeypatch.setattr(MODULE, "MOST_DIMENSIONS", 1)
    assert explicitness(codes, factors).value == pytest.approx(value, abs=1e-3)


def test_products_made_anew_are_those_kept_and_threads_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    factors = rng.integers(4, size=(400, 2))
    codes = factors + rng.normal(size=(400, 2))
    score = explicitness(codes, factors, jobs=1).to_dict()
    assert explicitness(codes, factors, jobs=2).to_dict() == score
    monkeypatch.setattr(MODULE, "MOST_KEPT", 0)
    assert explicitness(codes, factors, jobs=1).to_dict() == score


def test_agrees_with_sklearn_with_values_missing():
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(3, size=2000), rng.integers(5, size=2000)], axis=1).astype(float)
    codes = np.stack([factors[:, 0], factors[:, 1], (factors[:, 1] - 2) ** 2], axis=1) + rng.normal(size=(2000, 3))
    factors[rng.random(factors.shape) < 0.1] = np.nan
    expected = explicitness_by_sklearn(codes, factors)
    score = explicitness(codes, factors)
    np.testing.assert_allclose(score.parts["explicitness_per_factor"], expected, atol=0.02)
    assert 0.2 < score.value < 0.8
    assert score.interval[0] < score.value < score.interval[1]


def test_one_hot_codes_score_one():
    factors = np.stack([np.arange(600) % 3, np.arange(600) // 3 % 4], axis=1)
    codes = np.concatenate([np.eye(3)[factors[:, 0]], np.eye(4)[factors[:, 1]]], axis=1)
    score = explicitness(codes, factors)
    assert score.value == pytest.approx(1.0)
    np.testing.assert_allclose(score.parts["area_per_value"]["factor[1]"], 1.0)


def test_a_scalar_code_makes_the_ends_explicit_and_the_middle_not():
    """A line cannot single out a middle value: its area is the larger of the shares below and above it."""
    values = 5
    factor = np.repeat(np.arange(values), 200)
    score = explicitness(factor[:, None].astype(float), factor)
    below, above = np.arange(values) / (values - 1), np.arange(values)[::-1] / (values - 1)
    expected = np.maximum(below, above)
    np.testing.assert_allclose(np.delete(score.parts["area_per_value"]["factor[0]"], 2), np.delete(expected, 2))
    assert score.parts["area_per_value"]["factor[0]"][2] == pytest.approx(0.5)


def test_noise_scores_near_zero():
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(3, size=3000), rng.normal(size=3000)], axis=1)
    assert explicitness(rng.normal(size=(3000, 5)), factors).value == pytest.approx(0.0, abs=0.03)


def test_permuting_and_rescaling_dimensions_changes_nothing():
    rng = np.random.default_rng(0)
    factors = rng.integers(4, size=(600, 2)).astype(float)
    codes = np.concatenate([factors, factors], axis=1) + rng.normal(size=(600, 4))
    value = explicitness(codes, factors).value
    assert explicitness(codes[:, [2, 0, 3, 1]], factors).value == pytest.approx(value, abs=1e-3)
    assert explicitness(codes * [3.7, -0.01, 1e5, 1] + 5, factors).value == pytest.approx(value, abs=1e-3)


def test_values_with_one_row_are_left_out_and_too_few_are_an_error():
    codes = np.random.default_rng(0).normal(size=(21, 2))
    score = explicitness(codes, np.array([0] * 10 + [1] * 10 + [2]))
    assert score.parts["area_per_value"]["factor[0]"].shape == (2,)
    with pytest.raises(MetricError, match="fewer than two values"):
        explicitness(codes, np.array([0] * 20 + [1]))
    with pytest.raises(MetricError, match="at least 2"):
        explicitness(codes, np.arange(21) % 2, repeats=1)


def test_page_runs(root, run_page):
    assert run_page(root / "docs" / "metrics" / "explicitness.md") == 1
