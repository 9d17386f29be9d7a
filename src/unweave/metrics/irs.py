"""Interventional robustness score of Suter et al. (2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.base.card import Card
from unweave.base.errors import MetricError
from unweave.core.factors import FactorKind
from unweave.core.score import Score
from unweave.metrics._inputs import check
from unweave.metrics._interval import bootstrap_interval, generator
from unweave.metrics._metric import metric
from unweave.metrics._rows_by_value import RowsByValue
from unweave.metrics.discretise import BINS, MISSING, discretise_factors

BIBTEX = """@inproceedings{suter2019robustly,
  title = {Robustly Disentangled Causal Mechanisms: Validating Deep Representations for Interventional Robustness},
  author = {Suter, Raphael and Miladinovi{\\'c}, {\\DJ}or{\\dj}e and Sch{\\"o}lkopf, Bernhard and Bauer, Stefan},
  booktitle = {International Conference on Machine Learning},
  year = {2019}
}"""


@metric(
    Card(
        "how little a dimension moves when its own factor is fixed and all others change",
        "Suter et al., Robustly Disentangled Causal Mechanisms, ICML 2019",
        BIBTEX,
        "codes and factors",
    )
)
def irs(
    codes: Any,
    factors: Any,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | None = None,
    rng: int | np.random.Generator = 0,
    quantile: float = 0.99,
    bins: int = BINS,
    least_rows: int = 10,
    repeats: int = 50,
) -> Score:
    """One factor of interest at a time, all others as nuisance. Value 1 is best; noise is near 0.

        IRS_dk = 1 - E_v [ max_{v_others} | E[z_d | do(v_k = v)] - E[z_d | do(v_k = v, v_others)] | ] / R_d
        R_d    = max | E[z_d] - E[z_d | do(all factors)] |
        IRS    = sum_d R_d max_k IRS_dk / sum_d R_d

    Estimator: the factors are taken to be independent causes, so that the rows of a value are what the intervention
    would give; E[z_d | v_k = v] is their mean, a row stands for its own combination of factors, and the maxima are
    quantiles of |z_d - mean|. The expectation over v weighs values as often as they come.

    codes:      (N, D) array or `Codes`
    factors:    (N, K) array, mapping or `Factors`; NaN where missing (the row is left out for that factor)
    quantile:   which quantile stands for the maximum; 1 is the maximum itself, which one stray row decides
    bins:       equal-width bins that serve as the values of a continuous factor
    least_rows: a value with fewer rows is left out: the fewer the rows, the less they seem to move
    repeats:    bootstrap draws of rows for the interval
    """
    checked = check(codes, factors, names, kinds)
    if not 0 < quantile <= 1 or least_rows < 2:
        raise MetricError(
            f"quantile = {quantile}, least_rows = {least_rows}: expected 0 < quantile <= 1, least_rows >= 2"
        )
    draws, seed = generator(rng)
    numbers = discretise_factors(checked.factors, checked.discrete, bins)
    for k, name in enumerate(checked.names):
        RowsByValue(numbers[:, k], name, least_rows)  # says so when no value has enough rows
    robustness = Robustness(checked.codes, numbers, quantile, least_rows)

    matrix, reach = robustness(np.ones(len(numbers), dtype=np.int64))
    value = _weighted(matrix, reach)
    interval = bootstrap_interval(
        lambda rows: _weighted(*robustness(np.bincount(rows, minlength=len(numbers)))),
        len(numbers),
        draws,
        repeats,
        centre=value,
        bounds=(0.0, 1.0),
    )
    parts = {
        "factors": checked.names,
        "dimensions": checked.code_names,
        "irs_matrix": matrix,
        "irs_per_dimension": matrix.max(axis=1),
        "factor_of_dimension": tuple(checked.names[k] for k in matrix.argmax(axis=1)),
        "reach": reach,
    }
    settings = {
        "quantile": quantile,
        "bins": bins,
        "least_rows": least_rows,
        "repeats": repeats,
        "seed": seed,
        "factors": checked.names,
    }
    return Score("irs", value, interval, parts, settings)


class Robustness:
    """IRS_dk and R_d of draws of the same rows. Codes are laid out by value once, dimension by dimension.

    A draw says how often each row comes; in this layout its rows are then read in order, and those of a value lie
    together.
    """

    def __init__(self, codes: np.ndarray, numbers: np.ndarray, quantile: float, least: int):
        """codes: (N, D); numbers: (N, K) value numbers, -1 where missing; least: rows that a value needs to count."""
        self.quantile, self.least = quantile, least
        self.codes = np.ascontiguousarray(codes.T)  # (D, N)
        self.by_factor = []
        for column in numbers.T:
            order = np.argsort(column, kind="stable")
            order = order[np.searchsorted(column[order], MISSING, side="right") :]
            starts = np.searchsorted(column[order], np.unique(column[order]))
            self.by_factor.append((order, starts, np.ascontiguousarray(self.codes[:, order])))

    def __call__(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(D, K) IRS_dk, 0 for a constant dimension, and (D,) R_d, from (N,) how often each row comes."""
        drawn = np.take(self.codes, np.repeat(np.arange(len(times)), times), axis=1)
        reach = _high(np.abs(drawn - drawn.mean(axis=1, keepdims=True)), self.quantile)
        reach = np.where(reach > 1e-12 * np.abs(drawn).max(axis=1), reach, 0.0)
        matrix = np.zeros((len(reach), len(self.by_factor)))
        for k, (order, starts, codes) in enumerate(self.by_factor):
            came = times[order]
            drawn = np.take(codes, np.repeat(np.arange(len(came)), came), axis=1)
            counts = np.add.reduceat(came, starts)
            ends, total = np.cumsum(counts), 0
            for end, count in zip(ends[counts >= self.least], counts[counts >= self.least], strict=True):
                z = drawn[:, end - count : end]
                matrix[:, k] += count * _high(np.abs(z - z.mean(axis=1, keepdims=True)), self.quantile)
                total += count
            # A draw of rows may leave a factor without any value of enough rows: it then shows no robustness.
            matrix[:, k] = 1 - np.divide(matrix[:, k], reach * total, out=np.ones(len(reach)), where=reach * total > 0)
        return np.maximum(matrix, 0.0), reach


def _weighted(matrix: np.ndarray, reach: np.ndarray) -> float:
    return float(matrix.max(axis=1) @ reach / reach.sum()) if reach.any() else 0.0


def _high(deviations: np.ndarray, quantile: float) -> np.ndarray:
    """(D,) quantile of each row of (D, M), between order statistics by linear interpolation.

    The same number as numpy.quantile, without its overhead on many small groups. The array is put in another order.
    """
    last = deviations.shape[1] - 1
    place = quantile * last
    low = int(np.floor(place))
    deviations.partition(low, axis=1)
    at = deviations[:, low]
    above = deviations[:, low + 1 :].min(axis=1) if low < last else at
    return at + (place - low) * (above - at)
