"""I(x; z_d): how many nats each dimension says about which observation it was."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unweave.base.card import Card
from unweave.core.score import Score
from unweave.metrics._interval import generator
from unweave.metrics._metric import metric
from unweave.metrics._mixture import mixture
from unweave.metrics._posterior import check_posterior

CARD = Card(
    summary="sum over dimensions of I(x; z_d), the nats that each dimension says about the observation",
    paper="Hoffman, Johnson: ELBO surgery: yet another way to carve up the variational evidence lower bound, "
    "NIPS 2016 workshop on Advances in Approximate Bayesian Inference",
    bibtex="""@inproceedings{hoffman2016elbo,
  title = {{ELBO} surgery: yet another way to carve up the variational evidence lower bound},
  author = {Hoffman, Matthew D. and Johnson, Matthew J.},
  booktitle = {NIPS Workshop on Advances in Approximate Bayesian Inference},
  year = {2016}
}""",
    needs="posterior means and standard deviations",
)
NODES = 8  # of Gauss-Hermite quadrature, for the interval only


@metric(CARD, higher_is_better=None, needs="posterior", bounds=(0.0, float("inf")))
def information(codes: Any, *, spreads: Any = None, rng: int | np.random.Generator = 0) -> Score:
    """Sum over d of I(x; z_d) = 1/N sum_n KL(q(z_d|x_n) || q(z_d)) = H[q(z_d)] - 1/N sum_n H[q(z_d|x_n)], in nats.

    q(z_d) = 1/N sum_n q(z_d|x_n) is the mixture of all N posteriors, so no I(x; z_d) can exceed log N. Gaussian
    dimensions are integrated on a grid (see `_mixture`). A block on the simplex is one variable c with
    I(x; c) = H(mean_n p_n) - mean_n H(p_n).

    codes:   Codes with spreads, or (N, D) posterior means
    spreads: (N, D) posterior standard deviations; not needed for Codes that carry them
    rng:     not used; nothing here is random

    value: the sum. With q(z|x) independent over dimensions it equals I(x; z) + TC(z), the joint information plus what
           dimensions say more than once
    parts: per_dimension {name: nats}, interval_per_dimension {name: (low, high)}, limit = log N
    """
    _, seed = generator(rng)
    posterior = check_posterior(codes, spreads)
    x, w = np.polynomial.hermite_e.hermegauss(NODES)
    w = w / w.sum()
    values, divergences = [], []
    for mean, spread in zip(posterior.means.T, posterior.spreads.T, strict=True):
        q = mixture(mean, spread)
        own = 0.5 * np.log(2 * np.pi * np.e * spread**2)  # (N,) H[q(z_d|x_n)]
        values.append(max(q.entropy - float(own.mean()), 0.0))  # equal posteriors can leave -1e-16
        divergences.append(-own - q.log(mean[:, None] + spread[:, None] * x) @ w)
    for _, probabilities in posterior.categories:
        ratio = np.log(np.where(probabilities > 0, probabilities, 1.0)) - np.log(
            np.where(probabilities > 0, probabilities.mean(axis=0), 1.0)
        )
        divergences.append((probabilities * ratio).sum(axis=1))
        values.append(max(float(divergences[-1].mean()), 0.0))
    total = float(np.sum(values))
    names = posterior.variables
    return Score(
        "information",
        total,
        _interval(total, np.sum(divergences, axis=0)),
        parts={
            "per_dimension": dict(zip(names, values, strict=True)),
            "interval_per_dimension": {
                name: _interval(value, rows) for name, value, rows in zip(names, values, divergences, strict=True)
            },
            "limit": float(np.log(posterior.rows)),
        },
        settings={
            "rows": posterior.rows,
            "widened_spreads": posterior.widened,
            "left_out": posterior.left_out,
            "seed": seed,
        },
        higher_is_better=None,
    )


def _interval(value: float, divergences: np.ndarray) -> tuple[float, float]:
    """95 % normal interval, value -/+ 1.96 s / sqrt(N), with s the deviation of the N divergences KL(q(z|x_n) || q(z)).

    The divergence of a row is, up to a constant, the derivative of I by the weight of that row (the change of q(z)
    itself integrates to zero), so this is the delta method and a bootstrap is not needed.
    """
    reach = 1.959964 * float(divergences.std()) / math.sqrt(len(divergences))
    return max(value - reach, 0.0), value + reach
