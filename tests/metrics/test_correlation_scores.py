"""MAPC, CVR, TdV and UD90 against loops and known answers."""

import numpy as np
import pytest

from unweave.base.errors import MetricError
from unweave.metrics import METRICS, cvr, mapc, tdv, ud90
from unweave.metrics._covariance import weighted_covariances

ALL = [mapc, cvr, tdv, ud90]


def codes_of(covariance, rows=400, seed=0):
    """Codes whose sample covariance is exactly the given one."""
    z = np.random.default_rng(seed).normal(size=(rows, len(covariance)))
    z -= z.mean(axis=0)
    z = z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / (rows - 1))).T
    return z @ np.linalg.cholesky(np.asarray(covariance)).T


def test_weighted_covariances_agree_with_repeated_rows(monkeypatch):
    monkeypatch.setattr("unweave.metrics._covariance.MOST_PRODUCTS", 1)  # parts of 64 rows
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(150, 4)) @ rng.normal(size=(4, 4)) * [1, 1e3, 1e-3, 1] + [0, 5, 0, 1e6]
    codes = np.concatenate([codes, np.eye(150)[:, :1], np.full((150, 1), 0.1)], axis=1)
    weights = rng.poisson(1.0, size=(150, 9)).astype(np.float32)
    weights[0, :3] = 0  # the fifth column is constant in these draws
    found = weighted_covariances(codes, weights)
    for draw in range(9):
        rows = np.repeat(codes, weights[:, draw].astype(int), axis=0)
        expected = np.cov(rows.T, bias=True)
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        np.testing.assert_allclose(found[draw], expected, atol=1e-9 * scale.max(), rtol=1e-7)
    assert (found[:3, 4] == 0).all()
    assert (found[:, 5] == 0).all()


@pytest.mark.parametrize("score", ALL)
def test_interval_is_the_bootstrap_of_the_score(score):
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3))
    draws = np.random.default_rng(5)
    values = np.array([score(codes[draws.integers(80, size=80)], repeats=2).value for _ in range(30)])
    found = score(codes, repeats=30, rng=5)
    low, high = np.quantile(values + found.value - np.median(values), [0.025, 0.975])
    assert found.interval == pytest.approx((max(low, METRICS[score.name].bounds[0]), high))


def test_mapc_agrees_with_a_loop():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 5))
    total, pairs = 0.0, 0
    for i in range(5):
        for j in range(i + 1, 5):
            total += abs(np.corrcoef(codes[:, i], codes[:, j])[0, 1])
            pairs += 1
    score = mapc(codes)
    assert score.value == pytest.approx(total / pairs)
    np.testing.assert_allclose(score.parts["correlation"], np.corrcoef(codes.T))
    assert mapc(codes * [1, -2, 1e6, 1e-6, 5] + 9).value == pytest.approx(score.value)


def test_mapc_known_answers():
    assert mapc(codes_of([[1, 0.6], [0.6, 1]])).value == pytest.approx(0.6)
    assert mapc(codes_of([[4, -3], [-3, 9]])).value == pytest.approx(0.5)
    assert mapc(codes_of(np.diag([1.0, 5.0, 9.0]))).value == pytest.approx(0.0, abs=1e-12)


def test_mapc_leaves_constant_dimensions_out():
    codes = np.insert(codes_of([[1, 0.6], [0.6, 1]]), 1, 0.1, axis=1)
    score = mapc(codes)
    assert score.value == pytest.approx(0.6)
    assert score.settings["constant"] == ("z[1]",)
    assert np.isnan(score.parts["correlation"][1]).all()
    with pytest.raises(MetricError, match="1 of 2 dimensions vary"):
        mapc(codes[:, :2])


def test_cvr_agrees_with_a_loop():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4))
    absolute = variance = 0.0
    for i in range(4):
        for j in range(4):
            c = ((codes[:, i] - codes[:, i].mean()) * (codes[:, j] - codes[:, j].mean())).sum() / 299
            absolute += abs(c)
            variance += c if i == j else 0.0
    score = cvr(codes)
    assert score.value == pytest.approx(absolute / variance)
    assert score.parts["printed"] == pytest.approx(absolute / variance / 16)


def test_cvr_is_one_if_uncorrelated_and_d_if_all_the_same():
    assert cvr(codes_of(np.diag([1.0, 5.0, 9.0]))).value == pytest.approx(1.0)
    assert cvr(np.random.default_rng(0).normal(size=(50, 1)) @ np.ones((1, 7))).value == pytest.approx(7.0)


def test_tdv_known_answers():
    codes = codes_of(np.diag([1.0, 6.0, 3.0, 0.5]))[:, [2, 0, 3, 1]]
    score = tdv(codes)
    assert score.settings["d"] == 2
    assert score.value == pytest.approx(9 / 10.5)
    np.testing.assert_allclose(score.parts["curve"], np.array([6, 9, 10, 10.5]) / 10.5)
    assert tdv(codes, d=1).value == pytest.approx(6 / 10.5)
    assert tdv(codes, d=4).value == pytest.approx(1.0)


@pytest.mark.parametrize("d", [0, 5])
def test_tdv_refuses(d):
    with pytest.raises(MetricError, match=f"d = {d}: expected between 1 and 4"):
        tdv(codes_of(np.eye(4)), d=d)


@pytest.mark.parametrize(
    ("variances", "share", "count"),
    [([9.0, 1.0], 0.9, 1), ([8.9, 1.1], 0.9, 2), ([1.0] * 10, 0.9, 9), ([1.0] * 10, 1.0, 10), ([5.0, 4, 1], 0.5, 1)],
)
def test_ud90_known_answers(variances, share, count):
    codes = codes_of(np.diag(variances))
    score = ud90(codes, share=share)
    assert score.value == count
    np.testing.assert_allclose(score.parts["variance_share"], np.array(variances) / sum(variances))


def test_ud90_refuses():
    with pytest.raises(MetricError, match="share = 0"):
        ud90(codes_of(np.eye(2)), share=0)


@pytest.mark.parametrize("score", ALL)
def test_refuse_codes_that_do_not_vary(score):
    with pytest.raises(MetricError, match="do not vary"):
        score(np.full((20, 3), 0.1))
    with pytest.raises(MetricError, match="do not vary"):
        score(np.zeros((1, 3)))


@pytest.mark.parametrize("score", [mapc, cvr, tdv])
def test_interval_is_as_wide_as_repeated_samples_differ(score):
    half = np.array([[1, 0.5, 0], [0, 1, 0.5], [0, 0, 1]])

    def draw(seed):
        return np.random.default_rng(seed).normal(size=(250, 3)) @ half

    results = [score(draw(seed), repeats=60) for seed in range(40)]
    width = np.mean([high - low for low, high in (result.interval for result in results)])
    assert width / 3.92 == pytest.approx(np.std([result.value for result in results]), rel=0.35)
