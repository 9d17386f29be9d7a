"""Moment matching against numpy, and what a running covariance does to gradients and bias."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unweave.base.errors import ConfigError, ShapeError
from unweave.objectives.moments import RunningCovariance, dip_penalty


def draw(rows: int, dims: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, dims, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_without_momentum_it_is_the_covariance_of_the_batch() -> None:
    running = RunningCovariance(3, momentum=0.0).double()
    for seed in range(2):  # nothing of the first batch stays
        means = draw(20, 3, seed) + 5
        np.testing.assert_allclose(running(means).numpy(), np.cov(means.numpy().T, bias=True), atol=1e-12)


def test_the_second_variant_adds_the_mean_posterior_variance() -> None:
    means, stds = draw(20, 3), draw(20, 3, 1).exp()
    running = RunningCovariance(3, momentum=0.0).double()
    expected = np.cov(means.numpy().T, bias=True) + np.diag((stds.numpy() ** 2).mean(0))
    np.testing.assert_allclose(running(means, stds).numpy(), expected, atol=1e-12)


def test_running_estimate_is_the_weighted_covariance_of_all_rows_seen() -> None:
    momentum, batches = 0.8, [draw(6, 3, seed) + seed for seed in range(5)]
    running = RunningCovariance(3, momentum).double()
    for batch in batches:
        got = running(batch)
    shares = np.array([momentum ** (len(batches) - 1 - i) for i in range(len(batches))])
    weights = np.repeat(shares / shares.sum() / 6, 6)
    rows = torch.cat(batches).numpy()
    centred = rows - weights @ rows
    np.testing.assert_allclose(got.numpy(), (centred * weights[:, None]).T @ centred, atol=1e-12)
    np.testing.assert_allclose(running.mean.numpy(), weights @ rows, atol=1e-12)


def test_evaluation_mode_changes_nothing() -> None:
    running = RunningCovariance(2, 0.5).double()
    running(draw(8, 2))
    before = {name: value.clone() for name, value in running.state_dict().items()}
    running.eval()
    first, second = running(draw(8, 2, 1)), running(draw(8, 2, 1))
    assert torch.equal(first, second)
    assert all(torch.equal(before[name], value) for name, value in running.state_dict().items())


def test_saved_buffers_continue_where_they_were() -> None:
    running = RunningCovariance(2, 0.5).double()
    running(draw(8, 2))
    resumed = RunningCovariance(2, 0.5).double()
    resumed.load_state_dict(running.state_dict())
    assert torch.equal(running(draw(8, 2, 1)), resumed(draw(8, 2, 1)))


def test_penalty_is_the_double_loop() -> None:
    covariance = draw(4, 4) @ draw(4, 4, 1)
    off_diagonal = sum(covariance[i, j].item() ** 2 for i in range(4) for j in range(4) if i != j)
    diagonal = sum((covariance[i, i].item() - 1) ** 2 for i in range(4))
    got = dip_penalty(covariance)
    assert got[0].item() == pytest.approx(off_diagonal)
    assert got[1].item() == pytest.approx(diagonal)
    assert [value.item() for value in dip_penalty(torch.eye(4))] == [0.0, 0.0]


def test_gradient_flows_through_the_batch_and_treats_the_past_as_constant() -> None:
    momentum = 0.75
    past, stds = draw(8, 3, 1), torch.full((8, 3), 0.7, dtype=torch.float64, requires_grad=True)
    means = draw(8, 3).requires_grad_()

    def cost(means: torch.Tensor, stds: torch.Tensor) -> torch.Tensor:
        running = RunningCovariance(3, momentum).double()
        running(past)
        off_diagonal, diagonal = dip_penalty(running(means, stds))
        return off_diagonal + 10 * diagonal

    assert torch.autograd.gradcheck(cost, (means, stds))
    for gradient in torch.autograd.grad(cost(means, stds), (means, stds)):
        assert torch.all(gradient != 0)


def test_two_steps_of_training_do_not_share_a_graph() -> None:
    running = RunningCovariance(2, 0.9)
    weight = torch.ones(2, requires_grad=True)
    for seed in range(3):
        sum(dip_penalty(running(draw(5, 2, seed).float() * weight))).backward()
    assert weight.grad is not None


def test_the_floor_of_the_penalty_is_as_documented() -> None:
    """Independent unit codes: D (D - 1) / B off the diagonal of a batch, (1 - m) / (1 + m) of that with momentum m."""
    rows, dims, momentum = 16, 20, 0.8
    alone, running = RunningCovariance(dims, 0.0).double(), RunningCovariance(dims, momentum).double()
    floors = [(dip_penalty(alone(x))[0], dip_penalty(running(x))[0]) for x in (draw(rows, dims, s) for s in range(300))]
    of_batch, of_running = (torch.stack(values[50:]).mean().item() for values in zip(*floors, strict=True))
    expected = dims * (dims - 1) / rows
    assert of_batch == pytest.approx(expected, rel=0.12)
    assert of_running == pytest.approx(expected * (1 - momentum) / (1 + momentum), rel=0.12)


def test_errors_teach() -> None:
    with pytest.raises(ConfigError, match="less than 1"):
        RunningCovariance(3, 1.0)
    with pytest.raises(ShapeError, match=r"expected \(batch, 3\)"):
        RunningCovariance(3, 0.5)(torch.zeros(4, 2))
    with pytest.raises(ShapeError, match="expected that of the means"):
        RunningCovariance(3, 0.5)(torch.zeros(4, 3), torch.zeros(3))
