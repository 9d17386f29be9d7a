"""Gaussians: known values against closed forms, scipy's entropies, and the drawn sample."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from unweave.base.errors import ConfigError, DataError
from unweave.data.gaussians import Gaussians, true_mutual_information, true_total_correlation


def entropy(covariance: np.ndarray) -> float:
    return float(stats.multivariate_normal(cov=covariance).entropy())


@pytest.fixture
def covariance() -> np.ndarray:
    factor = np.random.default_rng(0).standard_normal((5, 7))
    return factor @ factor.T


@pytest.mark.parametrize(("dims", "rho"), [(2, 0.8), (5, 0.5), (10, -0.1), (3, 0.0), (1, 0.3)])
def test_total_correlation_closed_form(dims, rho):
    expected = -((dims - 1) * math.log(1 - rho) + math.log(1 + (dims - 1) * rho)) / 2
    assert true_total_correlation(Gaussians(dims=dims, rho=rho).covariance()) == pytest.approx(expected, abs=1e-12)


def test_total_correlation_is_marginal_minus_joint_entropy(covariance):
    marginals = sum(entropy(covariance[d : d + 1, d : d + 1]) for d in range(5))
    assert true_total_correlation(covariance) == pytest.approx(marginals - entropy(covariance))


def test_mutual_information_from_entropies(covariance):
    left, right = [3, 0], [1, 4]
    both = left + right
    expected = (
        entropy(covariance[np.ix_(left, left)])
        + entropy(covariance[np.ix_(right, right)])
        - entropy(covariance[np.ix_(both, both)])
    )
    assert true_mutual_information(covariance, left, right) == pytest.approx(expected)
    assert true_mutual_information(covariance, right, left) == pytest.approx(expected)


def test_mutual_information_of_a_pair():
    rho = 0.6
    covariance = np.array([[4.0, rho * 6], [rho * 6, 9.0]])
    assert true_mutual_information(covariance, [0], [1]) == pytest.approx(-math.log(1 - rho**2) / 2)


def test_total_correlation_is_a_chain_of_mutual_informations(covariance):
    chain = sum(true_mutual_information(covariance, list(range(d)), [d]) for d in range(1, 5))
    assert true_total_correlation(covariance) == pytest.approx(chain)


def test_sample_has_the_stated_covariance():
    settings = Gaussians(dims=4, rho=0.7, size=200_000, seed=1)
    data = settings.load()
    assert (data.spec.shape, data.spec.values, len(data)) == ((4,), "real", 200_000)
    x = data.observations(np.arange(len(data)))
    assert x.dtype == np.float32
    both = np.hstack([x, data.factors.values])
    # Standard error of a covariance of standard normals is at most sqrt(2 / n) = 0.0032.
    np.testing.assert_allclose(np.cov(both.T), settings.joint_covariance(), atol=0.013)
    np.testing.assert_allclose(settings.mixing() @ settings.mixing().T, settings.covariance(), atol=1e-12)
    np.testing.assert_allclose(x[:50], data.factors.values[:50] @ settings.mixing(), rtol=1e-5, atol=1e-6)


def test_draws_follow_the_seed():
    one, same, other = (Gaussians(size=10, seed=seed).load().observations([0, 9]) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_what_was_read_belongs_to_the_reader():
    data = Gaussians(size=10).load()
    data.observations([0])[:] = 99
    assert data.observations([0]).max() < 99


def test_information_between_an_observation_and_its_source():
    settings = Gaussians(dims=3, rho=0.5)
    root = settings.mixing()[1, 1]
    assert true_mutual_information(settings.joint_covariance(), [1], [4]) == pytest.approx(-math.log(1 - root**2) / 2)


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ([0], [0, 1], "both sides"),
        ([], [1], "do not name a part"),
        ([0, 0], [1], "do not name a part"),
        ([0], [6], "0 to 5"),
        ([0, 1, 2], [3, 4, 5], "infinite"),
    ],
)
def test_parts_that_have_no_mutual_information(left, right, message):
    with pytest.raises(DataError, match=message):
        true_mutual_information(Gaussians(dims=3).joint_covariance(), left, right)


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        (np.ones((2, 2)), "infinite"),
        (np.zeros((2, 3)), r"\(D, D\)"),
        (np.array([[1.0, 0.2], [0.3, 1.0]]), "symmetric"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "finite"),
        (np.array([[np.inf]]), "finite"),
    ],
)
def test_matrices_that_are_no_covariance(covariance, message):
    with pytest.raises(DataError, match=message):
        true_total_correlation(covariance)


@pytest.mark.parametrize("settings", [{"rho": 1.0}, {"rho": -0.5, "dims": 3}, {"rho": -0.3}])
def test_correlations_that_cannot_be(settings):
    with pytest.raises(ConfigError, match="rho"):
        Gaussians(**settings)
