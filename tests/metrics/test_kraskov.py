"""Kraskov's estimator against closed forms and loops; information and correlation between steps of clips."""

import math

import numpy as np
import pytest
from scipy.special import digamma

from unweave.base.errors import MetricError
from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.metrics import kraskov, temporal_correlation, temporal_information


def gaussian_pair(rho, dims, rows, seed=0):
    """x, y (N, D) with correlation rho between x_d and y_d: I = -D/2 log(1 - rho^2)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, dims))
    return x, rho * x + math.sqrt(1 - rho**2) * rng.normal(size=(rows, dims))


def by_loops(x, y, k):
    """Equation 8, every distance and every count written out."""
    rows, total = len(x), 0.0
    for n in range(rows):
        in_x = [max(abs(a - b) for a, b in zip(x[n], x[m], strict=True)) for m in range(rows) if m != n]
        in_y = [max(abs(a - b) for a, b in zip(y[n], y[m], strict=True)) for m in range(rows) if m != n]
        epsilon = sorted(max(a, b) for a, b in zip(in_x, in_y, strict=True))[k - 1]
        total += digamma(sum(d < epsilon for d in in_x) + 1) + digamma(sum(d < epsilon for d in in_y) + 1)
    return digamma(k) + digamma(rows) - total / rows


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("dims", [1, 2])
def test_gaussians_have_a_closed_form(rho, dims):
    x, y = gaussian_pair(rho, dims, 4000)
    assert kraskov(x, y) == pytest.approx(-dims / 2 * math.log(1 - rho**2), abs=0.08)


def test_vectors_of_different_sizes():
    # y = x_1 + x_2 + noise of variance 1: I = 1/2 log(1 + 2)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))
    y = x.sum(axis=1) + rng.normal(size=4000)
    assert kraskov(x, y) == pytest.approx(0.5 * math.log(3), abs=0.06)


@pytest.mark.parametrize(("k", "dims"), [(1, 1), (3, 2), (5, 3)])
def test_against_loops(k, dims):
    x, y = gaussian_pair(0.8, dims, 120)
    assert kraskov(x, y, k, standardise=False) == pytest.approx(by_loops(x, y, k), abs=1e-12)
    scaled = x / x.std(axis=0), y / y.std(axis=0)
    assert kraskov(x, y, k) == pytest.approx(by_loops(*scaled, k), abs=1e-12)


@pytest.mark.parametrize("dims", [1, 3])
def test_independent_variables_share_nothing(dims):
    estimates = [kraskov(*gaussian_pair(0.0, dims, 1500, seed)) for seed in range(8)]
    assert abs(np.mean(estimates)) < 0.02
    assert min(estimates) < 0  # an estimate that were clipped at 0 would be biased


def test_symmetric_and_invariant_under_monotone_transforms():
    x, y = gaussian_pair(0.9, 1, 4000)
    plain = kraskov(x, y)
    assert kraskov(y, x) == pytest.approx(plain, abs=1e-3)
    assert kraskov(5 * x - 3, -0.01 * y) == pytest.approx(plain, abs=1e-6)  # units do not matter
    assert kraskov(np.arctan(x), y**3 + y) == pytest.approx(plain, abs=0.05)


def test_ties_are_parted_by_a_reproducible_jitter():
    rng = np.random.default_rng(0)
    x = rng.integers(4, size=2000)
    assert np.isfinite(kraskov(x, x))
    assert kraskov(x, rng.integers(4, size=2000)) == pytest.approx(0, abs=0.03)
    assert kraskov(x, x, rng=1) == kraskov(x, x, rng=1)
    assert np.isfinite(kraskov(np.zeros(50), np.arange(50.0)))


def test_bad_input_is_told_in_one_line():
    x = np.random.default_rng(0).normal(size=(20, 2))
    for arguments, message in [
        ((x, x[:10]), "both need one row per joint draw"),
        ((x, x, 20), "choose k from 1 to 19"),
        ((x, x, 0), "choose k from 1 to 19"),
        ((np.full((20, 2), np.nan), x), "NaN or infinite"),
    ]:
        with pytest.raises(MetricError, match=message) as caught:
            kraskov(*arguments)
        assert "\n" not in str(caught.value)


def chains(rows=1500, steps=5, mix=0.0, seed=0):
    """(N, T, 2, 1) two stationary chains z_{t+1} = 0.9 z_t + noise, then rotated into each other by `mix` radians."""
    rng = np.random.default_rng(seed)
    z = np.empty((rows, steps, 2))
    z[:, 0] = rng.normal(size=(rows, 2))
    for t in range(1, steps):
        z[:, t] = np.array([0.9, 0.3]) * z[:, t - 1] + np.sqrt(1 - np.array([0.81, 0.09])) * rng.normal(size=(rows, 2))
    rotation = np.array([[math.cos(mix), -math.sin(mix)], [math.sin(mix), math.cos(mix)]])
    return (z @ rotation.T)[..., None]


def test_information_between_steps_of_independent_chains():
    found = temporal_information(chains())
    expected = np.diag([-0.5 * math.log(1 - 0.81), -0.5 * math.log(1 - 0.09)])
    np.testing.assert_allclose(found.matrix, expected, atol=0.08)
    assert found.same == pytest.approx(np.diag(found.matrix).mean())
    assert found.cross == pytest.approx((found.matrix[0, 1] + found.matrix[1, 0]) / 2)
    assert found.ratio == pytest.approx(found.same / max(found.cross, 1e-3))
    assert found.rows == 1500
    # rotated by 45 degrees: correlation (0.9 + 0.3) / 2 with its own past, (0.9 - 0.3) / 2 with the other's
    mixed = temporal_information(chains(mix=math.pi / 4))
    assert mixed.same == pytest.approx(-0.5 * math.log(1 - 0.36), abs=0.06)
    assert mixed.cross == pytest.approx(-0.5 * math.log(1 - 0.09), abs=0.06)


def test_the_matrix_says_whose_future_and_whose_past():
    # factor 1 at t + 1 copies factor 0 at t; nothing else is predictable
    z = np.random.default_rng(0).normal(size=(1500, 2, 2, 1))
    z[:, 1, 1] = z[:, 0, 0] + 0.1 * z[:, 1, 1]
    matrix = temporal_information(z).matrix
    assert matrix[1, 0] > 2
    assert np.abs(np.delete(matrix.ravel(), 2)).max() < 0.1


def test_the_best_of_random_partitions_is_taken():
    # numbers 0 and 3 follow each other, and so do 1 and 2: as the factors stand, all information is crossed
    z = np.random.default_rng(0).normal(size=(800, 2, 4))
    z[:, 1] = z[:, 0, [3, 2, 1, 0]] + 0.2 * z[:, 1]
    z = z.reshape(800, 2, 2, 2)
    as_it_stands = temporal_information(z)
    assert as_it_stands.same < 0.1 < as_it_stands.cross
    found = temporal_information(z, partitions=20)
    assert {frozenset(factor) for factor in found.partition.tolist()} == {frozenset({0, 3}), frozenset({1, 2})}
    assert found.cross < 0.1 < found.same


def test_codes_and_arrays_give_the_same():
    z = chains(rows=300)
    blocks = [Block(f"factor_{i}", (5, 1), axes=("time", "dim")) for i in range(2)]
    codes = Codes(blocks, {block.name: z[:, :, i] for i, block in enumerate(blocks)})
    np.testing.assert_array_equal(temporal_information(codes).matrix, temporal_information(z).matrix)
    np.testing.assert_array_equal(temporal_correlation(codes), temporal_correlation(z))


def test_correlation_against_numpy():
    z = chains(mix=0.4)
    now, after = z[:, :-1, :, 0].reshape(-1, 2), z[:, 1:, :, 0].reshape(-1, 2)
    expected = [[np.corrcoef(now[:, i], after[:, j])[0, 1] for j in range(2)] for i in range(2)]
    np.testing.assert_allclose(temporal_correlation(z), expected, atol=1e-12)
    assert temporal_correlation(np.zeros((5, 3, 2, 1))).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((5, 4)), "expected .clips, steps, factors, dims."),
        (np.zeros((5, 1, 2, 3)), "two steps or more"),
        (np.zeros((5, 3, 1, 3)), "one factor"),
        (Codes([Block("z", (3,))], {"z": np.zeros((5, 3))}), "axes .time, dim."),
    ],
)
def test_codes_that_are_not_factors_of_clips(codes, message):
    with pytest.raises(MetricError, match=message):
        temporal_information(codes)
