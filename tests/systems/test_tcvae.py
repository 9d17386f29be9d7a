"""The beta-TCVAE against a triple loop."""

import pytest
import torch

from unweave.base.errors import ConfigError

ONES = {"alpha": 1, "beta": 1, "gamma": 1}


@pytest.mark.parametrize("estimator", ["stratified", "weighted"])
def test_terms_against_loops(bench, estimator):
    weights = {"alpha": 0.5, "beta": 6, "gamma": 2}
    system = bench.system("tcvae", {**weights, "estimator": estimator})
    terms, hand = bench.objective(system), bench.by_hand(system)

    def marginal(b, dims=None):
        return hand.log_marginal(b, dims, estimator)

    def single(b):
        return sum(marginal(b, [d]) for d in range(hand.dims))

    expected = {
        "reconstruction": hand.mean_of(lambda b: -hand.log_likelihood(b)),
        "information": hand.mean_of(lambda b: hand.log_posterior(b, b) - marginal(b)),
        "total_correlation": hand.mean_of(lambda b: marginal(b) - single(b)),
        "dimension_kl": hand.mean_of(lambda b: single(b) - hand.log_prior(b)),
    }
    assert list(terms) == list(expected)
    for name, value in expected.items():
        assert terms.mean(name).item() == pytest.approx(value, abs=1e-9)
    total = expected["reconstruction"] + 0.5 * expected["information"]
    total += 6 * expected["total_correlation"] + 2 * expected["dimension_kl"]
    assert terms.total().item() == pytest.approx(total, abs=1e-9)
    assert abs(expected["total_correlation"]) > 1e-3


@pytest.mark.parametrize("estimator", ["stratified", "weighted"])
def test_all_weights_one_is_the_vae_with_sampled_kl(bench, estimator):
    vae = bench.system("vae", {"estimator": "sampled"})
    tcvae = bench.system("tcvae", {**ONES, "estimator": estimator})
    bench.share(vae, tcvae)
    torch.testing.assert_close(bench.objective(vae).total(), bench.objective(tcvae).total(), rtol=1e-12, atol=1e-12)


def test_size_of_the_data_set_enters(bench):
    system = bench.system("tcvae")
    before = bench.objective(system).mean("information").item()
    object.__setattr__(system, "spec", type(system.spec)((5,), "real", 4000))
    assert bench.objective(system).mean("information").item() != pytest.approx(before, abs=1e-3)


def test_encoder_learns_from_every_part_and_decoder_from_the_reconstruction_alone(bench):
    for name in ("information", "total_correlation", "dimension_kl"):
        system = bench.system("tcvae")
        bench.objective(system).mean(name).backward()
        assert system.networks.head.linear.weight.grad.abs().sum() > 0
        assert all(parameter.grad is None for parameter in system.networks.decoder.parameters())


def test_batch_of_one_is_refused(bench):
    with pytest.raises(ConfigError, match="batch of one"):
        bench.objective(bench.system("tcvae"), bench.batch(rows=1))
