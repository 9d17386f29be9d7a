"""The capacity gap: the mean before the absolute value."""

from __future__ import annotations

import pytest
import torch

from unweave.base.errors import ConfigError, ShapeError
from unweave.objectives.capacity import capacity_gap


def test_the_mean_comes_first() -> None:
    kl = torch.tensor([1.0, 5.0])
    assert capacity_gap(kl, 3.0).item() == 0.0
    assert capacity_gap(kl, 4.0).item() == 1.0
    assert capacity_gap(kl, 0.0).item() == 3.0  # no capacity: the plain KL
    assert capacity_gap(kl, 3.0).shape == ()


def test_per_example_holds_each_example_at_the_target() -> None:
    kl = torch.tensor([1.0, 5.0])
    assert capacity_gap(kl, 3.0, per_example=True).tolist() == [2.0, 2.0]
    assert capacity_gap(torch.stack([kl, kl + 2]), 3.0, per_example=True).tolist() == [1.0, 3.0]


def test_samples_are_averaged() -> None:
    kl = torch.rand(3, 4, dtype=torch.float64)
    assert capacity_gap(kl, 2.0).item() == pytest.approx(2 - sum(kl.flatten().tolist()) / 12)


@pytest.mark.parametrize(("target", "sign"), [(1.0, 1.0), (5.0, -1.0)])
def test_gradient_pushes_towards_the_target(target: float, sign: float) -> None:
    kl = torch.tensor([2.0, 4.0], requires_grad=True)
    capacity_gap(kl, target).backward()
    assert kl.grad is not None
    assert kl.grad.tolist() == [sign / 2, sign / 2]


def test_errors_teach() -> None:
    with pytest.raises(ShapeError, match="one number per example"):
        capacity_gap(torch.tensor(3.0), 1.0)
    with pytest.raises(ConfigError, match="never negative"):
        capacity_gap(torch.ones(2), -1.0)
