"""Density-ratio total correlation: the shuffle, the costs, and the optimal discriminator in closed form."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import MultivariateNormal, Normal

from unweave.base.errors import ShapeError
from unweave.objectives.density_ratio import density_ratio_tc, discriminator_cost, permute_dims


def test_each_dimension_is_permuted_over_the_batch() -> None:
    z = torch.arange(40.0).reshape(10, 4)  # every number is different, so that we can follow each
    shuffled = permute_dims(z, torch.Generator().manual_seed(0))
    for j in range(4):
        assert not torch.equal(shuffled[:, j], z[:, j])
        assert sorted(shuffled[:, j].tolist()) == z[:, j].tolist()  # stays in its dimension: not shuffled within a row
    sources = (shuffled // 4).long()  # the row each number came from
    assert len({tuple(column) for column in sources.T.tolist()}) == 4  # each dimension has its own permutation


def test_permutations_are_uniform_and_repeatable() -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.arange(4.0).unsqueeze(1)
    counts = torch.zeros(4, 4)
    for _ in range(2000):
        counts[torch.arange(4), permute_dims(z, generator).squeeze(1).long()] += 1
    assert torch.all((counts / 2000 - 0.25).abs() < 0.05)
    first, second = (permute_dims(z, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)


def test_permuting_removes_dependence_and_keeps_marginals() -> None:
    z = torch.randn(4000, 1, generator=torch.Generator().manual_seed(0)).expand(-1, 3)
    shuffled = permute_dims(z, torch.Generator().manual_seed(1))
    correlation = torch.corrcoef(shuffled.T) - torch.eye(3)
    assert correlation.abs().max() < 0.06
    torch.testing.assert_close(shuffled.var(0), z.var(0))


def optimal_logits(z: torch.Tensor, covariance: torch.Tensor) -> torch.Tensor:
    """The best discriminator's outputs: log-densities under the joint and under the product of its marginals."""
    joint = MultivariateNormal(torch.zeros(len(covariance)), covariance).log_prob(z)
    product = Normal(0.0, covariance.diagonal().sqrt()).log_prob(z).sum(-1)
    return torch.stack([joint, product], dim=-1)


def test_the_optimal_discriminator_recovers_the_total_correlation() -> None:
    covariance = torch.tensor([[1.0, 0.6, 0.2], [0.6, 2.0, -0.5], [0.2, -0.5, 0.7]])
    truth = 0.5 * (covariance.diagonal().log().sum() - covariance.logdet())
    noise = torch.randn(50_000, 3, generator=torch.Generator().manual_seed(0))
    z = noise @ torch.linalg.cholesky(covariance).T
    estimate = density_ratio_tc(optimal_logits(z, covariance))
    assert estimate.shape == (50_000,)
    assert truth > 0.2
    assert (estimate.mean() - truth).abs() < 4 * estimate.std() / math.sqrt(50_000)


def test_the_optimal_discriminator_has_the_lowest_cost() -> None:
    covariance = torch.tensor([[1.0, 0.8], [0.8, 1.0]])
    noise = torch.randn(20_000, 2, generator=torch.Generator().manual_seed(0))
    z = noise @ torch.linalg.cholesky(covariance).T
    shuffled = permute_dims(z, torch.Generator().manual_seed(1))

    def cost(scale: float) -> float:
        logits = [scale * optimal_logits(codes, covariance) for codes in (z, shuffled)]
        return discriminator_cost(*logits).mean().item()

    best = cost(1.0)
    assert cost(0.0) == pytest.approx(math.log(2))
    assert best < min(cost(0.7), cost(1.4), math.log(2))


def test_cost_is_the_cross_entropy_of_algorithm_2() -> None:
    joint, permuted = torch.randn(5, 2), torch.randn(5, 2)
    cost = discriminator_cost(joint, permuted)
    for b in range(5):
        real = math.exp(joint[b, 0]) / (math.exp(joint[b, 0]) + math.exp(joint[b, 1]))
        fake = math.exp(permuted[b, 0]) / (math.exp(permuted[b, 0]) + math.exp(permuted[b, 1]))
        assert cost[b].item() == pytest.approx(-0.5 * (math.log(real) + math.log(1 - fake)), abs=1e-5)


def test_gradients_reach_encoder_and_discriminator() -> None:
    z = torch.randn(6, 3, requires_grad=True)
    discriminator = torch.nn.Linear(3, 2)
    (gradient,) = torch.autograd.grad(density_ratio_tc(discriminator(z)).mean(), z)
    assert torch.all(gradient != 0)
    discriminator_cost(discriminator(z.detach()), discriminator(permute_dims(z.detach()))).mean().backward()
    assert discriminator.weight.grad is not None
    assert torch.any(discriminator.weight.grad != 0)


def test_errors_teach() -> None:
    with pytest.raises(ShapeError, match="flatten blocks"):
        permute_dims(torch.zeros(2, 3, 4))
    with pytest.raises(ShapeError, match="two per code"):
        density_ratio_tc(torch.zeros(5, 1))
    with pytest.raises(ShapeError, match="batches of one size"):
        discriminator_cost(torch.zeros(5, 2), torch.zeros(4, 2))
