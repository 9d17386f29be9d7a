"""The quick estimate of information against the closed form of a Gaussian channel, numerical integration and loops."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.knobs import in_order, information, knobs


def gaussian_codes(means, spreads):
    block = Block("z", means.shape[1:])
    return Codes((block,), {"z": means}, {"z": spreads})


def test_exact_for_a_gaussian_channel():
    # Quantiles of N(0, v) instead of draws, so that the sample's marginal is Gaussian to the accuracy of the grid.
    quantiles = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    variances, deviations = np.array([4.0, 1.0, 0.09]), np.array([0.1, 0.5, 1.0])
    means = quantiles[:, None] * np.sqrt(variances)
    found = information(gaussian_codes(means, np.broadcast_to(deviations, means.shape)))
    expected = 0.5 * np.log(1 + variances / deviations**2)
    np.testing.assert_allclose(list(found.values()), expected, rtol=1e-3)


def test_an_unused_dimension_knows_nothing():
    assert information(gaussian_codes(np.zeros((50, 1)), np.ones((50, 1)))) == {"z[0]": pytest.approx(0.0, abs=1e-12)}


def test_never_below_the_true_information_of_a_mixture():
    means, spreads = np.array([-2.0, -1.8, 1.5, 2.4]), np.array([0.2, 0.6, 0.4, 0.3])

    def marginal(z):
        return float(np.mean(stats.norm.pdf(z, means, spreads)))

    entropy = integrate.quad(lambda z: -marginal(z) * math.log(marginal(z)), -5, 5, limit=200)[0]
    true = entropy - np.mean(0.5 * np.log(2 * np.pi * np.e * spreads**2))
    found = information(gaussian_codes(means[:, None], spreads[:, None]))["z[0]"]
    assert true < found < true + 1.0


def test_a_category_has_its_mutual_information():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0], [0.3, 0.3, 0.4]])
    codes = Codes((Block("kind", (3,), kind="simplex"),), {"kind": probabilities})
    total = 0.0
    for row in probabilities:
        for c, p in enumerate(row):
            if p > 0:
                total += p * math.log(p / np.mean(probabilities[:, c])) / len(probabilities)
    assert information(codes)["kind"] == pytest.approx(total, abs=1e-9)


def test_a_whole_number_has_its_entropy_and_a_bare_dimension_its_variance():
    blocks = (Block("count", (), (), kind="discrete"), Block("z", (1,)))
    codes = Codes(blocks, {"count": np.array([0, 0, 1, 3]), "z": np.array([[-1.0], [1.0], [-1.0], [1.0]])})
    found = information(codes)
    assert found["count"] == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(4))
    assert found["z[0]"] == pytest.approx(0.5 * math.log(2))


def test_order_is_by_information_and_stable():
    means = np.random.default_rng(0).normal(size=(200, 4)) * [0.5, 0.0, 3.0, 0.0]
    codes = gaussian_codes(means, np.full_like(means, 0.3))
    assert [knob.name for knob in in_order(knobs(codes.blocks), codes)] == ["z[2]", "z[0]", "z[1]", "z[3]"]
