"""Maximum mean discrepancy against loops, and on equal and different distributions."""

from __future__ import annotations

import math

import pytest
import torch

from unweave.base.errors import ConfigError, ShapeError
from unweave.objectives.mmd import Kernel, mmd


def draw(rows: int, dims: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, dims, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("bandwidth", [None, 1.7])
@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_it_is_the_loop(kernel: Kernel, bandwidth: float | None, unbiased: bool) -> None:
    z, prior = draw(5, 3, 0) + 0.5, draw(7, 3, 1)
    h = 6.0 if bandwidth is None else bandwidth

    def k(a: torch.Tensor, b: torch.Tensor) -> float:
        squared = sum((x - y) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True))
        return math.exp(-squared / h) if kernel == "rbf" else h / (h + squared)

    def mean_pair(rows: torch.Tensor) -> float:
        pairs = [(i, j) for i in range(len(rows)) for j in range(len(rows)) if i != j or not unbiased]
        return sum(k(rows[i], rows[j]) for i, j in pairs) / len(pairs)

    across = sum(k(a, b) for a in z for b in prior) / (len(z) * len(prior))
    expected = mean_pair(z) + mean_pair(prior) - 2 * across
    assert mmd(z, prior, kernel, bandwidth, unbiased).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_zero_on_average_for_one_distribution(kernel: Kernel) -> None:
    values = torch.stack([mmd(draw(64, 4, 2 * s), draw(64, 4, 2 * s + 1), kernel) for s in range(200)])
    assert values.mean().abs() < 4 * values.std() / math.sqrt(200)
    assert values.min() < 0 < values.max()
    biased = torch.stack([mmd(draw(64, 4, 2 * s), draw(64, 4, 2 * s + 1), kernel, unbiased=False) for s in range(200)])
    assert biased.min() > 0
    # E k over independent draws from N(0, I): (1 + 4/h)^(-D/2) with h = 2 D for the rbf kernel.
    if kernel == "rbf":
        assert biased.mean().item() == pytest.approx(2 * (1 - (1 + 4 / 8) ** -2) / 64, rel=0.1)


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_it_grows_with_the_difference(kernel: Kernel) -> None:
    z, prior = draw(200, 2, 0), draw(200, 2, 1)
    values = [mmd(z + shift, prior, kernel).item() for shift in (0.0, 0.5, 1.0, 2.0)]
    assert values == sorted(values)
    assert values[1] > 5 * abs(values[0])
    assert mmd(3 * z, prior, kernel) > 0.02


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_gradient_pulls_codes_to_the_prior(kernel: Kernel) -> None:
    z, prior = (draw(6, 2, 0) + 1).requires_grad_(), draw(6, 2, 1)
    assert torch.autograd.gradcheck(lambda codes: mmd(codes, prior, kernel), (z,))
    (gradient,) = torch.autograd.grad(mmd(z, prior, kernel), z)
    assert torch.all(gradient.mean(0) > 0)


def test_errors_teach() -> None:
    with pytest.raises(ShapeError, match="equal D"):
        mmd(torch.zeros(4, 2), torch.zeros(4, 3))
    with pytest.raises(ShapeError, match="at least two"):
        mmd(torch.zeros(1, 2), torch.zeros(4, 2))
    with pytest.raises(ConfigError, match="choose 'rbf'"):
        mmd(torch.zeros(4, 2), torch.zeros(4, 2), "cosine")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="positive"):
        mmd(torch.zeros(4, 2), torch.zeros(4, 2), bandwidth=0.0)
