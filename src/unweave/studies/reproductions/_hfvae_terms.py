r"""Figure 2 of the HFVAE paper: small models of two-dimensional data with one term of the ELBO removed at a time.

    L = (1) - (2) - (3) - (4)                                                       (figure 1)
    (1) E_q log p(x|z) / p(x)    (2) I(x; z) = E_q log q(z|x) / q(z)
    (3) KL(q(x) || p(x)), here -E_q(x) log p(x) up to the constant log N            (4) KL(q(z) || p(z))

x and z have two dimensions, so that every term can be computed: q(z) = 1/N sum_n q(z|x_n) is summed over all N points,
and p(x_n) = E_p(z) p(x_n|z) is estimated by importance sampling from M stratified draws of the prior and S draws of
q(z|x_n) together, weighed by their joint density (the balance heuristic of Veach and Guibas 1995):

    p(x_n) ~ sum_z p(x_n|z) p(z) / (M p(z) + S q(z|x_n))

With draws of the prior alone, (1) would be without bound where they miss the region that q(z|x_n) has found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

POINTS = 32  # N
CLUSTERS = 4
NOISE = 0.15  # standard deviation of p(x|z)
SIDE = 16  # the prior is cut into SIDE x SIDE cells of equal mass
STEPS = 700
PANELS: Mapping[str, tuple[int, ...]] = {"A": (), "B": (1,), "C": (2,), "D": (3,), "E": (4,), "F": (2, 4)}
"""Panel -> terms that are removed. The paper's caption describes A to E; F, both terms of the KL, is ours."""


def make_points(seed: int) -> np.ndarray:
    """(N, 2) points in four clusters around the corners of a square."""
    rng = np.random.default_rng(seed)
    corners = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=np.float64)
    return (corners[np.arange(POINTS) % CLUSTERS] + 0.25 * rng.standard_normal((POINTS, 2))).astype(np.float32)


def stratified_prior(side: int, generator: torch.Generator) -> Tensor:
    """(side^2, 2) draws of N(0, I), one in each of side x side cells of equal probability."""
    cells = torch.cartesian_prod(torch.arange(side), torch.arange(side))
    uniform = (cells + torch.rand(len(cells), 2, generator=generator)) / side
    return torch.special.ndtri(uniform.clamp(1e-6, 1 - 1e-6))


@dataclass(frozen=True)
class TermValues:
    """The four terms, each a scalar."""

    uniqueness: Tensor  # (1)
    information: Tensor  # (2)
    log_evidence: Tensor  # E_q(x) log p(x), -(3) up to a constant
    divergence: Tensor  # (4)

    def cost(self, removed: Sequence[int]) -> Tensor:
        """-L without the removed terms."""
        signed = {1: -self.uniqueness, 2: self.information, 3: -self.log_evidence, 4: self.divergence}
        return torch.stack([value for number, value in signed.items() if number not in removed]).sum()


class TinyModel(nn.Module):
    """q(z|x) = N(mean(x), std(x)) and p(x|z) = N(decoder(z), NOISE), dense networks of one width."""

    def __init__(self, hidden: int = 64):
        super().__init__()
        self.encoder = _dense(2, hidden, 4)
        self.decoder = _dense(2, hidden, 2)

    def posterior(self, x: Tensor) -> Normal:
        mean, log_std = self.encoder(x).chunk(2, dim=-1)
        return Normal(mean, (log_std.clamp(-6, 2)).exp(), validate_args=False)

    def terms(self, x: Tensor, prior_draws: Tensor, samples: int, generator: torch.Generator) -> TermValues:
        """All terms over the whole data set x (N, 2), with `samples` draws of z for each point."""
        q = self.posterior(x)
        z = q.mean + q.stddev * torch.randn(samples, *q.mean.shape, generator=generator)  # (S, N, 2)
        own = q.log_prob(z).sum(-1)
        log_q = q.log_prob(z.unsqueeze(-2)).sum(-1).logsumexp(-1) - math.log(len(x))  # (S, N)
        log_prior = Normal(0.0, 1.0).log_prob(z).sum(-1)
        likelihood = Normal(self.decoder(z), NOISE, validate_args=False).log_prob(x).sum(-1)
        evidence = self._log_evidence(x, q, prior_draws, (likelihood, own, log_prior))
        return TermValues(
            uniqueness=(likelihood - evidence).mean(),
            information=(own - log_q).mean(),
            log_evidence=evidence.mean(),
            divergence=(log_q - log_prior).mean(),
        )

    def _log_evidence(self, x: Tensor, q: Normal, prior_draws: Tensor, drawn: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """(N,) log p(x_n); drawn: log p(x_n|z), log q(z|x_n) and log p(z), each (S, N), at the draws of q(z|x_n)."""
        likelihood = Normal(self.decoder(prior_draws), NOISE, validate_args=False).log_prob(x.unsqueeze(1)).sum(-1)
        log_prior = Normal(0.0, 1.0).log_prob(prior_draws).sum(-1).expand_as(likelihood)  # (N, M)
        posterior = Normal(q.mean.unsqueeze(1), q.stddev.unsqueeze(1), validate_args=False).log_prob(prior_draws)
        parts = [(likelihood, posterior.sum(-1), log_prior), tuple(part.T for part in drawn)]
        prior_count, own_count = math.log(len(prior_draws)), math.log(len(drawn[0]))
        ratios = [
            log_x + log_p - torch.logaddexp(prior_count + log_p, own_count + log_q) for log_x, log_q, log_p in parts
        ]
        return torch.cat(ratios, dim=1).logsumexp(1)


def _dense(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, outputs)
    )


def train_without(removed: Sequence[int], seed: int, steps: int = STEPS) -> dict[str, Any]:
    """Train on -L without some terms; what came out, as plain numbers.

    information, log_evidence, divergence, uniqueness: the terms after training, with 64 draws of z for each point
    points (N, 2), means and spreads (N, 2) of q(z|x_n), drawn (300, 2) from p(x)
    """
    x = torch.from_numpy(make_points(seed))
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = TinyModel()
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        terms = model.terms(x, stratified_prior(SIDE, generator), 8, generator)
        optimiser.zero_grad()
        terms.cost(removed).backward()
        optimiser.step()
    with torch.no_grad():
        found = model.terms(x, stratified_prior(4 * SIDE, generator), 64, generator)
        q = model.posterior(x)
        mean = model.decoder(torch.randn(300, 2, generator=generator))
        drawn = mean + NOISE * torch.randn(mean.shape, generator=generator)
    return {
        "uniqueness": float(found.uniqueness),
        "information": float(found.information),
        "log_evidence": float(found.log_evidence),
        "divergence": float(found.divergence),
        "points": _rounded(x),
        "means": _rounded(q.mean),
        "spreads": _rounded(q.stddev),
        "drawn": _rounded(drawn),
    }


def all_panels(seed: int, steps: int = STEPS) -> dict[str, dict[str, Any]]:
    """Panel letter -> what training without its terms gives."""
    return {panel: train_without(removed, seed, steps) for panel, removed in PANELS.items()}


def _rounded(values: Tensor) -> list[Any]:
    return np.round(values.double().numpy(), 4).tolist()
