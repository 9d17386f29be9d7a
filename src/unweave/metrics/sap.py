"""Separated attribute predictability of Kumar et al. (2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.base.card import Card
from unweave.core.factors import FactorKind
from unweave.core.score import Score
from unweave.metrics._covariance import weighted_covariances
from unweave.metrics._inputs import check
from unweave.metrics._interval import generator, weighted_bootstrap_interval
from unweave.metrics._metric import metric
from unweave.metrics.discretise import MISSING, discretise_factors, indicator

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
    tables = {
        k: indicator(_outcomes(z, order, numbers[:, k]), 1 + 2 * shape[0] * (int(numbers[:, k].max()) + 1))
        for k in range(shape[1])
        if checked.discrete[k]
    }  # thresholds are found once

    def measure(weights: np.ndarray) -> np.ndarray:
        """(R, D, K) S_dk of the rows with (N, R) weights."""
        scores = np.zeros((weights.shape[1], *shape))
        for k in range(shape[1]):
            if k in tables:
                scores[:, :, k] = _balanced_accuracy(tables[k] @ weights, shape[0])
            else:
                present = numbers[:, k] != MISSING
                columns = np.concatenate([z[present], checked.factors[present, k : k + 1]], axis=1)
                scores[:, :, k] = _squared_correlation(weighted_covariances(columns, weights[present]))
        scores[:, ~active] = 0.0
        return scores

    scores = measure(np.ones((len(z), 1), dtype=np.float32))[0]
    gap = _gap(scores)
    value = float(gap.mean())
    interval = weighted_bootstrap_interval(
        lambda weights: _gap(measure(weights)).mean(axis=-1), len(z), draws, repeats, centre=value, bounds=(0.0, 1.0)
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
    """(..., K) difference of the two greatest of each column of (..., D, K) scores; of one dimension, its score."""
    none = np.zeros((*scores.shape[:-2], 1, scores.shape[-1]))
    top = np.sort(np.concatenate([none, scores], axis=-2), axis=-2)[..., -2:, :]
    return top[..., 1, :] - top[..., 0, :]


def _squared_correlation(covariances: np.ndarray) -> np.ndarray:
    """(R, D) squared correlation of each dimension with the factor, from (R, D + 1, D + 1) covariances, factor last.

    NaN for a constant factor, 0 for a constant dimension.
    """
    own, shared, of_factor = np.einsum("rdd->rd", covariances)[:, :-1], covariances[:, :-1, -1], covariances[:, -1, -1:]
    found = np.divide(shared**2, own * of_factor, out=np.zeros(own.shape), where=own * of_factor > 0)
    return np.where(of_factor > 0, found, np.nan)


def _outcomes(z: np.ndarray, order: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """(N, D) numbers 1 + 2 (d V + v) + c: the row's value v is (c = 1) or is not what the thresholds on z_d say.

    0 where the value is missing.
    """
    values = int(numbers.max()) + 1
    outcome = np.zeros(z.shape[::-1], dtype=np.int32)
    for d in range(z.shape[1]):
        rows = order[:, d][numbers[order[:, d]] != MISSING]
        said = best_thresholds(z[rows, d], numbers[rows])
        outcome[d, rows] = 1 + 2 * (d * values + numbers[rows]) + (said == numbers[rows])
    return outcome.T


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


def _balanced_accuracy(counts: np.ndarray, dimensions: int) -> np.ndarray:
    """(R, D) mean over the values present of the share given rightly, from (1 + 2 D V, R) counts of the outcomes."""
    counts = counts[1:].T.astype(np.float64).reshape(counts.shape[1], dimensions, -1, 2)
    total = counts.sum(axis=3)
    share = np.divide(counts[..., 1], total, out=np.zeros(total.shape), where=total > 0)
    return share.sum(axis=2) / np.maximum((total > 0).sum(axis=2), 1)
