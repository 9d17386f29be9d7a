"""Modularity of Ridgeway and Mozer (2018): does each dimension know about one factor only?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.base.card import Card
from unweave.base.errors import MetricError
from unweave.core.factors import FactorKind
from unweave.core.score import Score
from unweave.metrics._inputs import check
from unweave.metrics._interval import generator, weighted_bootstrap_interval
from unweave.metrics._metric import metric
from unweave.metrics.discretise import (
    BINS,
    WeightedInformation,
    discretise_columns,
    discretise_factors,
    information,
)

BIBTEX = """@inproceedings{ridgeway2018learning,
  title = {Learning Deep Disentangled Embeddings with the {F}-Statistic Loss},
  author = {Ridgeway, Karl and Mozer, Michael C.},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2018}
}"""
# Shuffles that show what information independent columns of this size seem to share, and how many of their standard
# deviations above their mean an information has to lie to count.
SHUFFLES = 30
DEVIATIONS = 5.0


@metric(
    Card(
        "how nearly each dimension knows about one factor only",
        "Ridgeway and Mozer, Learning Deep Disentangled Embeddings with the F-Statistic Loss, NeurIPS 2018",
        BIBTEX,
        "codes and at least two factors",
    )
)
def modularity(
    codes: Any,
    factors: Any,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | None = None,
    rng: int | np.random.Generator = 0,
    bins: int = BINS,
    repeats: int = 200,
) -> Score:
    """Section 3 of the paper (deviation from an ideally modular dimension). Value 1 is best.

        modularity = mean_d 1 - sum_{k != k(d)} m_dk^2 / ( m_{d k(d)}^2 (K - 1) ),     k(d) = argmax_k m_dk

    m_dk = I(z_d; v_k) in nats, codes in equal-width bins; an m_dk that shuffled rows reach as well counts as 0. The
    mean is over the dimensions that know about at least one factor; where there is none, the value is 0.

    codes:   (N, D) array or `Codes`
    factors: (N, K) array, mapping or `Factors`; NaN where missing (the row is left out for that factor)
    bins:    equal-width bins of codes and of continuous factors
    repeats: bootstrap draws of rows for the interval; bins, and which m_dk count as 0, are kept
    """
    checked = check(codes, factors, names, kinds)
    if len(checked.names) < 2:
        raise MetricError("modularity compares factors and there is only one: give at least two")
    draws, seed = generator(rng)
    code_bins = discretise_columns(checked.codes, bins)
    factor_bins = discretise_factors(checked.factors, checked.discrete, bins)

    shared, _ = information(code_bins, factor_bins)
    shuffled = np.stack(
        [information(code_bins, factor_bins[draws.permutation(len(code_bins))])[0] for _ in range(SHUFFLES)]
    )
    counts = shared > shuffled.mean(axis=0) + DEVIATIONS * shuffled.std(axis=0, ddof=1) + 1e-12
    per_dimension = modularity_per_dimension(np.where(counts, shared, 0.0))
    value = _mean(per_dimension)

    measure = WeightedInformation(code_bins, factor_bins)

    def of_draws(weights: np.ndarray) -> np.ndarray:
        return np.array([_mean(modularity_per_dimension(np.where(counts, m, 0.0))) for m in measure(weights)[0]])

    interval = weighted_bootstrap_interval(of_draws, len(code_bins), draws, repeats, centre=value, bounds=(0.0, 1.0))
    parts = {
        "factors": checked.names,
        "dimensions": checked.code_names,
        "modularity_per_dimension": per_dimension,
        "mutual_information": shared,
        "informative": counts,
    }
    settings = {"bins": bins, "repeats": repeats, "seed": seed, "factors": checked.names}
    return Score("modularity", value, interval, parts, settings)


def modularity_per_dimension(shared: np.ndarray) -> np.ndarray:
    """(D,) modularity of each dimension from (D, K) informations; NaN for a dimension that knows nothing."""
    squared = shared**2
    most = squared.max(axis=1)
    deviation = (squared.sum(axis=1) - most) / np.where(most > 0, most * (shared.shape[1] - 1), 1.0)
    return np.where(most > 0, 1 - deviation, np.nan)


def _mean(per_dimension: np.ndarray) -> float:
    known = per_dimension[~np.isnan(per_dimension)]
    return float(known.mean()) if len(known) else 0.0
