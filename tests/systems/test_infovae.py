"""The InfoVAE: its two divergences and its two weights."""

import math

import pytest
import torch

from unweave.base.errors import ConfigError
from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.systems.infovae import InfoVAE, InfoVAEConfig


def mmd_by_loops(codes, prior, kernel, h):
    def k(a, b):
        distance = sum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True))
        return math.exp(-distance / h) if kernel == "rbf" else h / (h + distance)

    def within(rows):
        pairs = [(i, j) for i in range(len(rows)) for j in range(len(rows)) if i != j]
        return sum(k(rows[i], rows[j]) for i, j in pairs) / len(pairs)

    across = sum(k(a, b) for a in codes for b in prior) / (len(codes) * len(prior))
    return within(codes) + within(prior) - 2 * across


@pytest.mark.parametrize(("kernel", "bandwidth"), [("rbf", None), ("rbf", 1.5), ("imq", None)])
def test_mmd_total_against_loops(bench, kernel, bandwidth):
    settings = {"alpha": 0.3, "lambda_": 12.0, "kernel": kernel, "bandwidth": bandwidth}
    system = bench.system("infovae", settings)
    terms, hand = bench.objective(system), bench.by_hand(system)
    torch.manual_seed(1)
    system.posterior(bench.batch())  # the noise of z comes first, then the draws from the prior
    prior = system.networks.prior().sample((6,))
    divergence = mmd_by_loops(hand.z, prior, kernel, bandwidth or 6.0)
    kl = float((0.5 * (hand.std**2 + hand.mean**2 - 1) - hand.std.log()).sum() / hand.rows)
    expected = hand.mean_of(lambda b: -hand.log_likelihood(b)) + 0.7 * kl + 11.3 * divergence
    assert terms.mean("divergence").item() == pytest.approx(divergence, abs=1e-9)
    assert terms.total().item() == pytest.approx(expected, abs=1e-9)
    assert terms.batch_statistics == ("divergence",)


@pytest.mark.parametrize(("shape", "scale"), [((1, 8, 8), 15.625), ((1, 64, 64), 1000), ((3, 64, 64), 1000)])
def test_scale_that_is_auto_follows_the_size_of_the_observation(shape, scale):
    spec, small = DataSpec(shape, "unit", 100), {"nets.kind": "dense", "nets.hidden": [4]}
    for settings, expected in ((small, scale), ({**small, "lambda_": 3}, 3)):
        system = InfoVAE(InfoVAEConfig().override(settings), spec)
        terms = system.objective("model", Batch.of(torch.rand(6, *shape)), 0)
        torch.testing.assert_close(
            terms.total(), terms.mean("reconstruction") + expected * terms.mean("divergence"), rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("marginal", ["stratified", "weighted"])
def test_kl_divergence_against_loops(bench, marginal):
    system = bench.system("infovae", {"alpha": 1, "lambda_": 5, "divergence": "kl", "marginal": marginal})
    terms, hand = bench.objective(system), bench.by_hand(system)
    divergence = hand.mean_of(lambda b: hand.log_marginal(b, None, marginal) - hand.log_prior(b))
    expected = hand.mean_of(lambda b: -hand.log_likelihood(b)) + 5 * divergence
    assert terms.mean("divergence").item() == pytest.approx(divergence, abs=1e-9)
    assert terms.total().item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("divergence", ["mmd", "kl"])
def test_alpha_zero_lambda_one_is_the_vae_exactly(bench, divergence):
    vae, info = bench.system("vae"), bench.system("infovae", {"alpha": 0, "lambda_": 1, "divergence": divergence})
    bench.share(vae, info)
    assert torch.equal(bench.objective(vae).total(), bench.objective(info).total())


def test_alpha_one_drops_the_kl_from_the_loss_and_keeps_it_in_the_log(bench):
    terms = bench.objective(bench.system("infovae", {"alpha": 1, "lambda_": 3}))
    assert terms.weights["kl"] == 0
    assert terms.weights["divergence"] == 3
    assert terms.logged()["kl"] > 0.1


def test_weights_follow_their_schedules(bench):
    system = bench.system("infovae", {"alpha": "linear(0, 1, 10)", "lambda_": "linear(1, 101, 10)"})
    for step, kl, divergence in ((0, 1.0, 0.0), (5, 0.5, 50.5), (10, 0.0, 101.0)):
        weights = bench.objective(system, step=step).weights
        assert weights["kl"] == pytest.approx(kl)
        assert weights["divergence"] == pytest.approx(divergence)


def test_encoder_learns_from_the_mmd(bench):
    system = bench.system("infovae")
    bench.objective(system).mean("divergence").backward()
    assert system.networks.head.linear.weight.grad.abs().sum() > 0


def test_batch_of_one_is_refused(bench):
    with pytest.raises(ConfigError, match="batch of one"):
        bench.objective(bench.system("infovae", {"divergence": "kl"}), bench.batch(rows=1))
