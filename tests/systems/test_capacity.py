"""Controlled capacity: the KL is held at C(step)."""

import pytest
import torch

from unweave.base.errors import ConfigError
from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.systems.capacity import CapacityConfig, CapacityVAE


def mean_kl(hand):
    return float((0.5 * (hand.std**2 + hand.mean**2 - 1) - hand.std.log()).sum() / hand.rows)


def test_total_against_the_formula(bench):
    system = bench.system("capacity", {"gamma": 30, "capacity": "linear(0, 25, 100)"})
    hand = bench.by_hand(system)
    for step, target in ((0, 0.0), (50, 12.5), (100, 25.0), (500, 25.0)):
        terms = bench.objective(system, step=step)
        gap = abs(mean_kl(hand) - target)
        expected = hand.mean_of(lambda b: -hand.log_likelihood(b)) + 30 * gap
        assert terms.mean("capacity_gap").item() == pytest.approx(gap, abs=1e-9)
        assert terms.total(step).item() == pytest.approx(expected, abs=1e-9)
        assert terms.diagnostics["capacity"].item() == target
        assert terms.logged(step)["kl"].item() == pytest.approx(mean_kl(hand), abs=1e-5)


@pytest.mark.parametrize(("shape", "gamma"), [((1, 8, 8), 2), ((1, 48, 48), 5.625), ((3, 48, 48), 10)])
def test_gamma_that_is_auto_follows_the_size_of_the_observation(shape, gamma):
    spec, small = DataSpec(shape, "unit", 100), {"nets.kind": "dense", "nets.hidden": [4]}
    for settings, expected in ((small, gamma), ({**small, "gamma": 7}, 7)):
        system = CapacityVAE(CapacityConfig().override(settings), spec)
        terms = system.objective("model", Batch.of(torch.rand(6, *shape)), 1000)
        torch.testing.assert_close(
            terms.total(1000), terms.mean("reconstruction") + expected * terms.mean("capacity_gap")
        )


def test_gap_is_of_the_batch_and_not_of_each_example(bench):
    system = bench.system("capacity", {"capacity": 2.0})
    terms = bench.objective(system)
    assert terms.batch_statistics == ("capacity_gap",)
    each = (terms.diagnostics["kl"] - 2.0).abs().mean()
    assert each > terms["capacity_gap"] + 1e-3


def test_gradient_pulls_the_kl_towards_the_target_from_both_sides(bench):
    def derivative(target):
        system = bench.system("capacity", {"capacity": target, "gamma": 1e6})
        bench.objective(system).total().backward()
        return system.networks.head.linear.bias.grad

    below, above = derivative(50.0), derivative(0.0)
    torch.testing.assert_close(below, -above, rtol=1e-3, atol=0.5)
    assert above.abs().max() > 1e4


def test_capacity_zero_is_the_beta_vae(bench):
    beta, capacity = bench.system("betavae", {"beta": 9}), bench.system("capacity", {"gamma": 9, "capacity": 0})
    bench.share(beta, capacity)
    torch.testing.assert_close(bench.objective(beta).total(), bench.objective(capacity).total(), rtol=1e-12, atol=0)


def test_negative_capacity_is_refused(bench):
    with pytest.raises(ConfigError, match="never negative"):
        bench.objective(bench.system("capacity", {"capacity": -1}))
