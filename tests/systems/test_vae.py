"""The VAE against its formula written out."""

import math

import pytest
import torch

from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.systems.vae import VAE, VAEConfig


def test_terms_against_the_formula(bench):
    system = bench.system("vae")
    terms, hand = bench.objective(system), bench.by_hand(system)
    reconstruction = hand.mean_of(lambda b: -hand.log_likelihood(b))
    divergence = hand.mean_of(
        lambda b: sum(
            0.5 * (float(s) ** 2 + float(m) ** 2 - 1) - math.log(float(s))
            for m, s in zip(hand.mean[b], hand.std[b], strict=True)
        )
    )
    assert terms.mean("reconstruction").item() == pytest.approx(reconstruction, abs=1e-9)
    assert terms.mean("kl").item() == pytest.approx(divergence, abs=1e-9)
    assert terms.total().item() == pytest.approx(reconstruction + divergence, abs=1e-9)
    assert divergence > 0.1  # the codes of the test say something


def test_sampled_kl_is_the_difference_of_log_densities(bench):
    system = bench.system("vae", {"estimator": "sampled"})
    hand = bench.by_hand(system)
    expected = hand.mean_of(lambda b: hand.log_posterior(b, b) - hand.log_prior(b))
    assert bench.objective(system).mean("kl").item() == pytest.approx(expected, abs=1e-9)


def test_sampled_kl_tends_to_the_analytic_one(bench):
    analytic, sampled = bench.system("vae"), bench.system("vae", {"estimator": "sampled"})
    bench.share(analytic, sampled)
    many = [bench.objective(sampled, noise=noise).mean("kl").item() for noise in range(400)]
    spread = torch.tensor(many).std().item() / math.sqrt(len(many))
    assert abs(sum(many) / len(many) - bench.objective(analytic).mean("kl").item()) < 5 * spread


def test_bernoulli_reconstruction_on_images():
    torch.manual_seed(0)
    spec = DataSpec((1, 4, 4), "unit", 20)
    system = VAE(VAEConfig(latent=2).override({"nets.hidden": [5]}), spec).double()
    x = torch.rand(3, 1, 4, 4, dtype=torch.float64)
    torch.manual_seed(1)
    terms = system.objective("model", Batch.of(x), 0)
    torch.manual_seed(1)
    r = torch.sigmoid(system.networks.decoder(system.posterior(Batch.of(x))["z"])).detach()
    expected = -sum(
        float(v) * math.log(float(p)) + (1 - float(v)) * math.log(1 - float(p))
        for v, p in zip(x.flatten(), r.flatten(), strict=True)
    )
    assert terms["reconstruction"].sum().item() == pytest.approx(expected, abs=1e-9)


def test_every_parameter_gets_a_gradient(bench):
    system = bench.system("vae")
    bench.objective(system).total().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in system.parameters())


def test_own_networks_are_used():
    spec = DataSpec((5,), "real", 40)
    encoder, decoder = torch.nn.Linear(5, 4), torch.nn.Linear(3, 5)
    system = VAE(VAEConfig(latent=3), spec, encoder=encoder, decoder=decoder)
    assert system.networks.encoder.module is encoder
    assert system.networks.decoder.module is decoder
    assert system.encode(Batch.of(torch.zeros(2, 5)))["z"].shape == (2, 3)
