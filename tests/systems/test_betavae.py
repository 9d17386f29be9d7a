"""The beta-VAE: one weight on the KL."""

import pytest
import torch

from unweave.base.schedule import Schedule
from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.systems.betavae import BetaVAE, BetaVAEConfig


def test_beta_of_one_is_the_vae_exactly(bench):
    vae, beta = bench.system("vae"), bench.system("betavae", {"beta": 1})
    bench.share(vae, beta)
    assert torch.equal(bench.objective(vae).total(), bench.objective(beta).total())


@pytest.mark.parametrize("estimator", ["analytic", "sampled"])
def test_total_against_the_formula(bench, estimator):
    system = bench.system("betavae", {"beta": 7.5, "estimator": estimator})
    terms, hand = bench.objective(system), bench.by_hand(system)
    if estimator == "sampled":
        kl = hand.mean_of(lambda b: hand.log_posterior(b, b) - hand.log_prior(b))
    else:
        kl = float((0.5 * (hand.std**2 + hand.mean**2 - 1) - hand.std.log()).sum() / hand.rows)
    expected = hand.mean_of(lambda b: -hand.log_likelihood(b)) + 7.5 * kl
    assert terms.total().item() == pytest.approx(expected, abs=1e-9)


def test_terms_are_logged_unweighted(bench):
    small, large = bench.system("betavae", {"beta": 1}), bench.system("betavae", {"beta": 100})
    bench.share(small, large)
    assert torch.equal(bench.objective(small).logged()["kl"], bench.objective(large).logged()["kl"])


def test_beta_follows_its_schedule(bench):
    system = bench.system("betavae", {"beta": "linear(0, 4, 100)"})
    assert system.config.beta == Schedule(kind="linear", start=0, end=4, steps=100)
    terms = bench.objective(system)
    reconstruction, kl = terms.mean("reconstruction"), terms.mean("kl")
    for step, beta in ((0, 0.0), (50, 2.0), (100, 4.0), (1000, 4.0)):
        torch.testing.assert_close(terms.total(step), reconstruction + beta * kl)


@pytest.mark.parametrize(
    ("shape", "beta"), [((1, 8, 8), 2), ((7,), 2), ((1, 48, 48), 2.25), ((1, 64, 64), 4), ((3, 48, 48), 4)]
)
def test_beta_that_is_auto_follows_the_size_of_the_observation(shape, beta):
    spec, small = DataSpec(shape, "unit", 100), {"nets.kind": "dense", "nets.hidden": [4]}
    for settings, expected in ((small, beta), ({**small, "beta": 7}, 7)):
        system = BetaVAE(BetaVAEConfig().override(settings), spec)
        terms = system.objective("model", Batch.of(torch.rand(6, *shape)), 0)
        torch.testing.assert_close(terms.total(), terms.mean("reconstruction") + expected * terms.mean("kl"))


def test_gradient_is_linear_in_beta(bench):
    def gradient(beta):
        system = bench.system("betavae", {"beta": beta})
        bench.objective(system).total().backward()
        return system.networks.head.linear.weight.grad

    torch.testing.assert_close(gradient(3.0) - gradient(1.0), 2 * (gradient(2.0) - gradient(1.0)))
