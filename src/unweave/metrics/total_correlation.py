"""TC(z) = KL(q(z) || prod_d q(z_d)): how far the dimensions are from independent."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from unweave.base.card import Card
from unweave.base.errors import MetricError
from unweave.core.codes import Codes
from unweave.core.score import Score
from unweave.metrics._inputs import check_codes
from unweave.metrics._interval import bootstrap_interval, generator
from unweave.metrics._metric import metric
from unweave.metrics._mixture import mixture
from unweave.metrics._posterior import Posterior, check_posterior

CARD = Card(
    summary="total correlation of the codes: nats by which the dimensions differ from independent",
    paper="Watanabe: Information Theoretical Analysis of Multivariate Correlation, IBM Journal 1960",
    bibtex="""@article{watanabe1960information,
  title = {Information Theoretical Analysis of Multivariate Correlation},
  author = {Watanabe, Satosi},
  journal = {IBM Journal of Research and Development},
  volume = {4},
  number = {1},
  pages = {66--82},
  year = {1960}
}""",
    needs="codes; posterior standard deviations for the mixture estimate",
)
Estimator = Literal["gaussian", "mixture"]
CELLS = 2**22  # numbers of the (rows, components) table held at once
LEAST_EIGENVALUE = 1e-10
MOST_OWN_SHARE = 0.5


@metric(CARD, higher_is_better=False, needs="posterior", bounds=(0.0, float("inf")))
def total_correlation(
    codes: Any,
    *,
    spreads: Any = None,
    estimator: Estimator | None = None,
    rows: int = 10_000,
    repeats: int = 200,
    rng: int | np.random.Generator = 0,
) -> Score:
    """TC(z) = E_q(z)[log q(z) - sum_d log q(z_d)] in nats, by one of two estimators.

    "gaussian": -1/2 log det C, with C the correlation matrix of q(z) (of the codes, if there are no spreads). Exact if
                q(z) is Gaussian; sees linear dependence only.
    "mixture":  z_n ~ q(z|x_n) once for each row; q(z) and q(z_d) are mixtures of all posteriors, its own included.
                Sees any dependence, but I(x; z) cannot come out above log N: if the own posterior has nearly all of
                q(z_n) (`own_share` near 1), the estimate is too high, and the settings carry a note.

    codes:     (N, D) array or Codes; a simplex block is one variable in "mixture" and left out in "gaussian"
    spreads:   (N, D) posterior standard deviations; not needed for Codes that carry them
    estimator: None takes "mixture" where there are posteriors, else "gaussian"; the settings say which
    rows:      with more rows than this, "mixture" draws this many at random
    repeats:   bootstrap draws for the interval of "gaussian"

    parts: gaussian (where defined), and for "mixture": mixture (may fall below 0 by chance where the value does not),
           information = I(x; z) of all dimensions together, limit = log N, own_share
    """
    if estimator not in (None, "gaussian", "mixture"):
        raise MetricError(f"estimator = {estimator!r}: expected 'gaussian' or 'mixture'")
    random, seed = generator(rng)
    if estimator is None:
        estimator = "mixture" if spreads is not None or _has_posterior(codes) else "gaussian"
    if estimator == "mixture":
        return _mixture(check_posterior(codes, spreads), rows, random, seed)
    return _gaussian(codes, spreads, repeats, random, seed)


def _has_posterior(codes: Any) -> bool:
    return isinstance(codes, Codes) and any(
        block.kind == "simplex" or codes.spread(block.name) is not None for block in codes.blocks
    )


def _mixture(posterior: Posterior, rows: int, random: np.random.Generator, seed: int | None) -> Score:
    if posterior.rows > rows:
        posterior = posterior.take(random.choice(posterior.rows, size=rows, replace=False))
    # A stream of its own: codes that were themselves drawn with this seed must not meet the same noise again.
    random = random.spawn(1)[0]
    z = posterior.means + posterior.spreads * random.standard_normal(posterior.means.shape)
    chosen = [_draw(probabilities, random) for _, probabilities in posterior.categories]
    joint, own = joint_log_density(posterior, z, chosen)
    apart = np.zeros(posterior.rows)
    for d in range(z.shape[1]):
        apart += mixture(posterior.means[:, d], posterior.spreads[:, d]).log(z[:, d])
    for (_, probabilities), c in zip(posterior.categories, chosen, strict=True):
        apart += np.log(probabilities.mean(axis=0)[c])
    ratio = joint - apart
    value, reach = float(ratio.mean()), 1.959964 * float(ratio.std()) / math.sqrt(len(ratio))
    parts: dict[str, Any] = {
        "mixture": value,
        "information": float((own - joint).mean()),
        "limit": float(np.log(posterior.rows)),
        "own_share": float(np.exp(own - np.log(posterior.rows) - joint).mean()),
    }
    try:
        parts["gaussian"] = _of_correlation(_covariance(posterior.means, posterior.spreads))
    except MetricError:
        parts["gaussian"] = float("nan")
    settings: dict[str, Any] = {
        "estimator": "mixture",
        "rows": posterior.rows,
        "variables": posterior.variables,
        "left_out": posterior.left_out,
        "widened_spreads": posterior.widened,
        "seed": seed,
    }
    if parts["own_share"] > MOST_OWN_SHARE:
        settings["note"] = (
            f"the mixture estimate is too high: a row's own posterior makes {parts['own_share']:.0%} of q(z); "
            "give more rows, or compare with the part 'gaussian'"
        )
    interval = (max(value - reach, 0.0), max(value + reach, 0.0))
    return Score("total_correlation", max(value, 0.0), interval, parts, settings, higher_is_better=False)


def joint_log_density(posterior: Posterior, z: np.ndarray, chosen: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """log q(z_n) under the mixture of all posteriors, and log q(z_n|x_n) under its own; both (N,).

    z: (N, G) Gaussian dimensions; chosen: for each categorical variable (N,) the category
    """
    centre = posterior.means.mean(axis=0)  # centred, the squares below lose the fewest digits
    means, z, precision = posterior.means - centre, z - centre, posterior.spreads**-2.0
    # log N(z; m, s) = -z^2 / 2 s^2 + z m / s^2 - m^2 / 2 s^2 - log s - log(2 pi) / 2, so all pairs are one product.
    features = np.concatenate([z**2, z], axis=1)
    weights = np.concatenate([-0.5 * precision, means * precision], axis=1)
    constant = (-0.5 * means**2 * precision - np.log(posterior.spreads) - 0.5 * np.log(2 * np.pi)).sum(axis=1)
    with np.errstate(divide="ignore"):
        tables = [np.log(probabilities).T for _, probabilities in posterior.categories]  # (C, N), -inf is fine
    joint, own = np.empty(len(z)), np.empty(len(z))
    chunk = max(1, CELLS // len(z))
    for first in range(0, len(z), chunk):
        part = slice(first, first + chunk)
        pairs = features[part] @ weights.T + constant  # (chunk, N)
        for table, c in zip(tables, chosen, strict=True):
            pairs += table[c[part]]
        own[part] = pairs[np.arange(len(pairs)), first + np.arange(len(pairs))]
        top = pairs.max(axis=1, keepdims=True)
        pairs -= top
        joint[part] = np.log(np.exp(pairs, out=pairs).sum(axis=1)) + top[:, 0] - np.log(len(z))
    return joint, own


def _draw(probabilities: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """(N,) one category for each row of (N, C) probabilities."""
    edges = probabilities.cumsum(axis=1)
    return (random.random((len(edges), 1)) * edges[:, -1:] >= edges).sum(axis=1)


def _gaussian(codes: Any, spreads: Any, repeats: int, random: np.random.Generator, seed: int | None) -> Score:
    means, names = check_codes(codes)
    if isinstance(codes, Codes):
        real = np.repeat([b.kind == "real" for b in codes.blocks], [b.size for b in codes.blocks])
        spreads = codes.flat_spread() if spreads is None else spreads
    else:
        real = np.ones(means.shape[1], dtype=bool)
    spreads = np.zeros(means.shape) if spreads is None else np.asarray(spreads, dtype=np.float64)
    if spreads.shape != means.shape:
        raise MetricError(
            f"spreads have shape {spreads.shape} and codes {means.shape}: expected one spread for each code"
        )
    spreads = np.where(np.isnan(spreads), 0.0, spreads)
    # A constant dimension is independent of all others.
    used = real & ((np.ptp(means, axis=0) > 0) | (spreads > 0).any(axis=0))
    means, spreads = means[:, used], spreads[:, used]

    def statistic(rows: np.ndarray) -> float:
        try:
            return _of_correlation(_covariance(means[rows], spreads[rows]))
        except MetricError:
            return float("nan")  # so few rows that a draw of them is singular

    value = _of_correlation(_covariance(means, spreads))
    interval = bootstrap_interval(statistic, len(means), random, repeats, centre=value, bounds=(0.0, float("inf")))
    settings = {
        "estimator": "gaussian",
        "rows": len(means),
        "variables": tuple(name for name, kept in zip(names, used, strict=True) if kept),
        "repeats": repeats,
        "seed": seed,
    }
    return Score("total_correlation", value, interval, {"gaussian": value}, settings, higher_is_better=False)


def _covariance(means: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """(D, D) covariance of q(z): of the means, plus the mean variance of the posteriors on the diagonal."""
    centred = means - means.mean(axis=0)
    return centred.T @ centred / len(means) + np.diag((spreads**2).mean(axis=0))


def _of_correlation(covariance: np.ndarray) -> float:
    """-1/2 log det of the correlation matrix that belongs to a covariance matrix; 0 with fewer than two dimensions."""
    if len(covariance) < 2:
        return 0.0
    variance = np.diag(covariance)
    if (variance <= 0).any():
        raise MetricError("a dimension is constant in these rows: TC of the others needs more rows")
    eigenvalues = np.linalg.eigvalsh(covariance / np.sqrt(np.outer(variance, variance)))
    if eigenvalues[0] < LEAST_EIGENVALUE:
        raise MetricError(
            "the Gaussian total correlation is infinite: a dimension is a linear function of others, or there are "
            "fewer rows than dimensions; leave that dimension out or give more rows"
        )
    return max(0.0, float(-0.5 * np.log(eigenvalues).sum()))
