"""Separated attribute predictability of Kumar et al. (2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.core.card import Card
from unweave.core.factors import FactorKind
from unweave.core.score import Score
from unweave.metrics._discretise import MISSING, discretise_factors
from unweave.metrics._inputs import check
from unweave.metrics._interval import bootstrap_interval, generator
from unweave.metrics._metric import metric

BIBTEX = """@inproceedings{kumar2018variational,
  title = {Variational Inference of Disentangled Latent Concepts from Unlabeled Observations},
  author = {Kumar, Abhishek and Sattigeri, Prasanna and Balakrishnan, Avinash},
  booktitle = {International Conference on Learning Representations},
  year = {2018}
}"""


@metric(
    Card(
        "gap between the two dimensions that alone predict a factor best",
        "Kumar et al., Variational Inference of Disentangled Latent Concepts, ICLR 2018",
        BIBTEX,
        "codes and factors",
    )
)
def sap(
    codes: Any,
    factors: Any,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | None = None,
    rng: int | np.random.Generator = 0,
    threshold: float = 0.0,
    repeats: int = 200,
) -> Score:
    """Section 3 of the paper: the mean over factors of the difference of the two greatest S_dk of a factor.

        S_dk = Cov(z_d, v_k)^2 / (Var(z_d) Var(v_k))               continuous v_k: R^2 of the linear regression on z_d
        S_dk = 1/V sum_v P(c(z_d) = v | v_k = v)                   discrete v_k: balanced accuracy of thresholds on z_d

    c cuts the line into one interval per value, in the order of the values' mean codes; its V - 1 thresholds are those
    that maximise the balanced accuracy on the rows (exact, by dynamic programming). A useless dimension has
    S_dk = 1/V for a discrete factor, so perfect codes reach 1 - 1/V there, and 1 for a continuous factor.

    codes:     (N, D) array or `Codes`
    factors:   (N, K) array, mapping or `Factors`; NaN where missing (the row is left out for that factor)
    threshold: a dimension whose variance is not above this has S_dk = 0 (the paper takes 0.05 for a unit prior)
    repeats:   bootstrap draws of rows for the interval; thresholds of discrete factors are kept
    """
    checked = check(codes, factors, names, kinds)
    draws, seed = generator(rng)
    z, shape = checked.codes, (checked.codes.shape[1], len(checked.names))
    active = (z.max(axis=0) > z.min(axis=0)) & (z.var(axis=0) > threshold)
    numbers = discretise_factors(checked.factors, checked.discrete)
    order = np.argsort(z, axis=0, kind="stable")
    cells = {
        k: _outcomes(z, order, numbers[:, k]) for k in range(shape[1]) if checked.discrete[k]
    }  # thresholds are found once

    def measure(rows: np.ndarray) -> np.ndarray:
        scores = np.zeros(shape)
        for k in range(shape[1]):
            present = rows[numbers[rows, k] != MISSING]
            if k in cells:
                scores[:, k] = _balanced_accuracy(cells[k][present], int(numbers[:, k].max()) + 1)
            else:
                scores[:, k] = _squared_correlation(z[present], checked.factors[present, k])
        scores[~active] = 0.0
        return scores

    scores = measure(np.arange(len(z)))
    gap = _gap(scores)
    value = float(gap.mean())
    interval = bootstrap_interval(
        lambda rows: float(_gap(measure(rows)).mean()), len(z), draws, repeats, centre=value, bounds=(0.0, 1.0)
    )
    parts = {
        "factors": checked.names,
        "dimensions": checked.code_names,
        "gap": gap,
        "predictability": scores,
        "active": active,
    }
    settings = {"threshold": threshold, "repeats": repeats, "seed": seed, "factors": checked.names}
    return Score("sap", value, interval, parts, settings)


def _gap(scores: np.ndarray) -> np.ndarray:
    """(K,) difference of the two greatest of each column of (D, K) scores; of one dimension, its score."""
    top = np.sort(np.vstack([np.zeros((1, scores.shape[1])), scores]), axis=0)[-2:]
    return top[1] - top[0]


def _squared_correlation(z: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """(D,) squared Pearson correlation of each column of z (N, D) with the factor (N,); NaN for a constant factor."""
    if len(factor) == 0:
        return np.full(z.shape[1], np.nan)
    z, factor = z - z.mean(axis=0), factor - factor.mean()
    own, of_factor = (z * z).sum(axis=0), factor @ factor
    if of_factor == 0:
        return np.full(z.shape[1], np.nan)
    return np.divide((factor @ z) ** 2, own * of_factor, out=np.zeros(z.shape[1]), where=own > 0)


def _outcomes(z: np.ndarray, order: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """(N, D) numbers 2 (d V + v) + c: the row's value v is (c = 1) or is not what the thresholds on z_d say."""
    values = int(numbers.max()) + 1
    outcome = np.zeros(z.shape, dtype=np.int64)
    for d in range(z.shape[1]):
        rows = order[:, d][numbers[order[:, d]] != MISSING]
        said = best_thresholds(z[rows, d], numbers[rows])
        outcome[rows, d] = 2 * (d * values + numbers[rows]) + (said == numbers[rows])
    return outcome


def best_thresholds(column: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """(N,) the value each row is given by the V - 1 thresholds of greatest balanced accuracy.

    column:  (N,) codes in ascending order
    numbers: (N,) their values 0 .. V - 1, each at least once

    With A_v(c) the share of value v among the first c rows and values in the order of their mean codes,
    f_v(c) = A_v(c) + max_{b <= c} ( f_{v-1}(b) - A_v(b) ) is the greatest sum of shares that the first v values can get
    right among the first c rows. Cuts lie between different codes only.
    """
    counts = np.bincount(numbers)
    by_mean = np.argsort(np.bincount(numbers, weights=column - column.mean()) / counts, kind="stable")
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(column) > 0) + 1, [len(column)]])
    gains = np.empty((len(counts), len(cuts)))  # f_{v-1}(b) - A_v(b), kept to walk back
    best = np.zeros(len(cuts))
    for place, value in enumerate(by_mean):
        share = np.concatenate([[0], np.cumsum(numbers == value)])[cuts] / counts[value]
        gains[place] = best - share
        best = share + np.maximum.accumulate(gains[place])
    said = np.empty(len(column), dtype=np.int64)
    end = len(cuts) - 1
    for place in range(len(counts) - 1, -1, -1):
        begin = int(gains[place, : end + 1].argmax())
        said[cuts[begin] : cuts[end]] = by_mean[place]
        end = begin
    return said


def _balanced_accuracy(cells: np.ndarray, values: int) -> np.ndarray:
    """(D,) mean over the values present of the share given rightly, from the (M, D) outcomes of some rows."""
    dimensions = cells.shape[1]
    counts = np.bincount(cells.ravel(), minlength=2 * dimensions * values).reshape(dimensions, values, 2)
    total = counts.sum(axis=2)
    share = np.divide(counts[:, :, 1], total, out=np.zeros(total.shape), where=total > 0)
    return share.sum(axis=1) / np.maximum((total > 0).sum(axis=1), 1)
