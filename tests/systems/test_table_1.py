"""Table 1 of Esmaeili et al. 2019: every row is one objective with other weights.

Each row is computed three ways on the same codes: as weights of the hierarchical decomposition, by the paper's own
formula from log-densities by loops, and by the system that implements it. Names: likelihood = (1) + (3),
information = (2), correlation = (A), single = (B); (4) is correlation + single.
"""

import math

import pytest
import torch
from torch import nn

from unweave.objectives.decomposition import decompose, tree_of_elements
from unweave.objectives.elbo import reconstruction
from unweave.objectives.marginals import Leaf, anchor_information

TOLERANCE = 1e-8
SAMPLED = {"estimator": "sampled"}


@pytest.fixture
def vae(bench):
    """The networks and, with noise 1, the codes that all rows share."""
    return bench.system("vae", SAMPLED)


@pytest.fixture
def parts(bench, vae):
    """The five parts of the hierarchical objective, batch means."""
    batch = bench.batch()
    torch.manual_seed(1)
    q = vae.posterior(batch)
    p = vae.joint(q.as_given(x=batch.observations), batch)
    parts = decompose(q, p, tree_of_elements(q, ["z"]), bench.spec.size)
    return {
        "likelihood": reconstruction(p).mean().item(),
        "information": parts.information.mean().item(),
        "correlation": parts.between.mean().item(),
        "single": parts.leaves.mean().item(),
        "anchors": anchor_information(parts.marginal, [Leaf("z", 0), Leaf("z", 2)]).mean().item(),
    }


def weighted(parts, **weights):
    """The one objective: the likelihood and the other parts, each with its weight."""
    return parts["likelihood"] + sum(weight * parts[name] for name, weight in weights.items())


def total(bench, vae, name, settings, player="model"):
    """The loss of the system `name` with the networks, data and noise of `vae`."""
    system = bench.system(name, settings)
    if name == "hfvae":
        system.encoder.load_state_dict(vae.networks.encoder.state_dict())
        system.heads["z"].load_state_dict(vae.networks.head.state_dict())
        system.decoder.load_state_dict(vae.networks.decoder.state_dict())
    else:
        bench.share(vae, system)
    return bench.objective(system, player=player).total().item()


def agree(*values):
    assert max(values) - min(values) < TOLERANCE, values


def test_vae(bench, vae, parts):
    hand = bench.by_hand(vae)
    agree(
        weighted(parts, information=1, correlation=1, single=1),
        hand.mean_of(lambda b: -hand.log_likelihood(b) + hand.log_posterior(b, b) - hand.log_prior(b)),
        bench.objective(vae).total().item(),
        total(bench, vae, "hfvae", {"blocks": "z=normal(3)", "alpha": 1, "beta": 1, "gamma": 1}),
    )


def test_beta_vae(bench, vae, parts):
    """Higgins et al.: (1) + (3) + beta ((2) + (4))."""
    hand = bench.by_hand(vae)
    agree(
        weighted(parts, information=5, correlation=5, single=5),
        hand.mean_of(lambda b: -hand.log_likelihood(b) + 5 * (hand.log_posterior(b, b) - hand.log_prior(b))),
        total(bench, vae, "betavae", {**SAMPLED, "beta": 5}),
    )


def test_dip_vae(bench, vae, parts):
    """Kumar et al.: (1) + (2) + (3) + lambda (4), the ELBO and lambda - 1 times KL(q(z) || p(z)) (their eq. 3).

    The system `dipvae` replaces that KL by moments; `infovae` has it, and with alpha = 0 is their eq. 3.
    """
    hand, scale = bench.by_hand(vae), 6.0

    def formula(b):
        elbo = hand.log_likelihood(b) - (hand.log_posterior(b, b) - hand.log_prior(b))
        return -elbo + (scale - 1) * (hand.log_marginal(b) - hand.log_prior(b))

    settings = {**SAMPLED, "divergence": "kl", "alpha": 0, "lambda_": scale}
    agree(
        weighted(parts, information=1, correlation=scale, single=scale),
        hand.mean_of(formula),
        total(bench, vae, "infovae", settings),
    )
    without = total(bench, vae, "dipvae", {**SAMPLED, "lambda_od": 0, "lambda_d": 0})
    agree(weighted(parts, information=1, correlation=1, single=1), without)


def test_info_vae(bench, vae, parts):
    """Zhao et al.: (1) + (3) + lambda (4)."""
    hand = bench.by_hand(vae)
    agree(
        weighted(parts, correlation=4, single=4),
        hand.mean_of(lambda b: -hand.log_likelihood(b) + 4 * (hand.log_marginal(b) - hand.log_prior(b))),
        total(bench, vae, "infovae", {**SAMPLED, "divergence": "kl", "alpha": 1, "lambda_": 4}),
    )


@pytest.mark.parametrize("capacity", [0.5, 30.0])
def test_capacity(bench, vae, parts, capacity):
    """Alemi et al., Burgess et al.: (1) + (3) + gamma |(2) + (4) - C|, on either side of C."""
    hand = bench.by_hand(vae)
    rate = hand.mean_of(lambda b: hand.log_posterior(b, b) - hand.log_prior(b))
    kl = parts["information"] + parts["correlation"] + parts["single"]
    sign = math.copysign(1, kl - capacity)
    agree(
        weighted(parts, information=9 * sign, correlation=9 * sign, single=9 * sign) - 9 * sign * capacity,
        hand.mean_of(lambda b: -hand.log_likelihood(b)) + 9 * abs(rate - capacity),
        total(bench, vae, "capacity", {**SAMPLED, "gamma": 9, "capacity": capacity}),
    )


def test_anchors(bench, vae, parts):
    """Gao et al.: (1) + (2) + (3) + (4) - lambda (2)^a, anchors z_0 and z_2."""
    hand, anchors = bench.by_hand(vae), [0, 2]

    def formula(b):
        information = hand.log_posterior(b, b, anchors) - hand.log_marginal(b, anchors)
        return -hand.log_likelihood(b) + hand.log_posterior(b, b) - hand.log_prior(b) - 0.7 * information

    ones = {"blocks": "z=normal(3)", "alpha": 1, "beta": 1, "gamma": 1}
    agree(
        weighted(parts, information=1, correlation=1, single=1, anchors=-0.7),
        hand.mean_of(formula),
        total(bench, vae, "hfvae", {**ones, "anchors": ["z[0]", "z[2]"], "anchor": 0.7}),
    )


def test_information_dropout(bench, vae, parts):
    """Achille and Soatto: (1) + (3) + beta (2) + gamma (A)*."""
    hand = bench.by_hand(vae)

    def formula(b):
        information = hand.log_posterior(b, b) - hand.log_marginal(b)
        correlation = hand.log_marginal(b) - sum(hand.log_marginal(b, [d]) for d in range(3))
        return -hand.log_likelihood(b) + 2 * information + 8 * correlation

    agree(
        weighted(parts, information=2, correlation=8, single=0),
        hand.mean_of(formula),
        total(bench, vae, "tcvae", {"alpha": 2, "beta": 8, "gamma": 0}),
    )


class OptimalDiscriminator(nn.Module):
    """Logits whose difference is log q(z) - sum_d log q(z_d) for the codes of one pass: what training aims at."""

    def __init__(self, hand):
        super().__init__()
        ratio = [hand.log_marginal(b) - sum(hand.log_marginal(b, [d]) for d in range(hand.dims)) for b in range(6)]
        self.z, self.ratio = hand.z, torch.tensor(ratio, dtype=torch.float64)

    def forward(self, z):
        torch.testing.assert_close(z, self.z)
        return torch.stack([self.ratio, torch.zeros_like(self.ratio)], -1)


def test_total_correlation(bench, vae, parts):
    """Kim and Mnih, Chen et al.: (1) + (2) + (3) + (B) + beta (A)*.

    FactorVAE's eq. 4 adds gamma (A) to the ELBO, which has one already: beta = 1 + gamma.
    """
    hand, beta = bench.by_hand(vae), 4.0

    def formula(b):
        elbo = hand.log_likelihood(b) - (hand.log_posterior(b, b) - hand.log_prior(b))
        correlation = hand.log_marginal(b) - sum(hand.log_marginal(b, [d]) for d in range(3))
        return -elbo + (beta - 1) * correlation

    factor = bench.system("factorvae", {**SAMPLED, "gamma": beta - 1, "discriminator.width": 2})
    bench.share(vae, factor)
    factor.discriminator = OptimalDiscriminator(hand)
    agree(
        weighted(parts, information=1, correlation=beta, single=1),
        hand.mean_of(formula),
        total(bench, vae, "tcvae", {"alpha": 1, "beta": beta, "gamma": 1}),
        bench.objective(factor, player="vae").total().item(),
        total(bench, vae, "hfvae", {"blocks": "z=normal(3)", "alpha": 1, "beta": 1, "gamma": beta}),
    )


def test_hfvae(bench):
    """Esmaeili et al., eq. 4: (1) + (3) + (ii) + alpha (2) + beta (A) + gamma (i), blocks of 2 and 1 dimensions."""
    system = bench.system("hfvae", {"blocks": "a=normal(2), b=normal(1)", "alpha": 0.5, "beta": 6, "gamma": 3})
    terms, batch = bench.objective(system), bench.batch()
    torch.manual_seed(1)
    q = system.posterior(batch)
    with torch.no_grad():
        # The same codes as one block of three dimensions, so that a pass by hand serves for both.
        hand = bench.by_hand(bench.system("vae"))
        hand.z = torch.cat([q["a"], q["b"]], -1)
        hand.mean = torch.cat([q.site(n).distribution.mean for n in "ab"], -1)
        hand.std = torch.cat([q.site(n).distribution.stddev for n in "ab"], -1)
        hand.decoded = system.decoder(hand.z)

    def formula(b):
        marginal = hand.log_marginal
        information = hand.log_posterior(b, b) - marginal(b)
        between = marginal(b) - marginal(b, [0, 1]) - marginal(b, [2])
        within = marginal(b, [0, 1]) - marginal(b, [0]) - marginal(b, [1])
        single = sum(marginal(b, [d]) for d in range(3)) - hand.log_prior(b)
        return -hand.log_likelihood(b) + single + 0.5 * information + 6 * between + 3 * within

    by_weights = terms.mean("reconstruction") + terms.mean("dimension_kl") + 0.5 * terms.mean("information")
    by_weights = by_weights + 6 * terms.mean("between_blocks") + 3 * terms.mean("within_blocks")
    agree(by_weights.item(), hand.mean_of(formula), terms.total().item())


def test_rows_differ(parts):
    """The identities above would hold trivially if a part were zero on these codes."""
    assert all(abs(value) > 1e-3 for value in parts.values()), parts
    assert not math.isclose(parts["correlation"], parts["single"], rel_tol=1e-2)
