"""The covariance matrix that four scores of codes alone are functions of, and their interval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unweave.base.card import Card
from unweave.base.errors import MetricError
from unweave.metrics._inputs import check_codes
from unweave.metrics._interval import weighted_bootstrap_interval

MOST_PRODUCTS = 2**17  # numbers of a part of the products of columns: 1 MB
CANCELLED = 1e-6  # a variance below this share of the mean square has lost six of its sixteen digits


def card(summary: str) -> Card:
    """The four scores come from one paper."""
    return Card(
        summary=summary,
        paper="Kågebäck, Mogren: Disentanglement by Penalizing Correlation, 2017",
        bibtex="""@inproceedings{kageback2017disentanglement,
  title = {Disentanglement by Penalizing Correlation},
  author = {K{\\aa}geb{\\"a}ck, Mikael and Mogren, Olof},
  booktitle = {NIPS Workshop on Learning Disentangled Representations},
  year = {2017}
}""",
        needs="codes",
    )


def varying_codes(codes: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """(N, D) codes and names, of at least two rows that are not all the same."""
    matrix, names = check_codes(codes)
    if len(matrix) < 2 or not (np.ptp(matrix, axis=0) > 0).any():
        raise MetricError(f"{len(matrix)} rows of codes do not vary: expected at least two that differ")
    return matrix, names


def covariance(codes: np.ndarray) -> np.ndarray:
    """(D, D) sample covariance of (N, D) codes, with N - 1; exactly zero for a constant dimension."""
    centred = codes - codes.mean(axis=0)
    centred[:, np.ptp(codes, axis=0) == 0] = 0.0  # the mean of equal numbers can be off by rounding
    return centred.T @ centred / (len(codes) - 1)


def weighted_covariances(columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(R, Q, Q) covariances sum_n w_nr (x_n - m_r)(x_n - m_r)^T / sum_n w_nr with m_r the weighted mean.

    columns: (N, Q) x
    weights: (N, R) at least 0; all 0 gives NaN

    All R at once: the moments sum_n w_n x_i x_j are a product of the weights with the Q (Q + 1) / 2 products of
    columns, made for a part of the rows at a time. Where x^2 - m^2 cancels (a column nearly constant in a draw), that
    draw is computed again from its centred rows.
    """
    columns = columns - columns.mean(axis=0)  # the nearer the means to zero, the fewer digits cancel
    rows, number = columns.shape
    left, right = np.triu_indices(number)
    sums = np.zeros((weights.shape[1], 1 + number + len(left)))
    step = max(64, MOST_PRODUCTS // sums.shape[1])
    for start in range(0, rows, step):
        x = columns[start : start + step]
        products = np.concatenate([np.ones((len(x), 1)), x, x[:, left] * x[:, right]], axis=1)
        sums += weights[start : start + step].T.astype(np.float64) @ products
    with np.errstate(invalid="ignore", divide="ignore"):
        sums /= sums[:, :1]
    means, squares = sums[:, 1 : 1 + number], np.empty((len(sums), number, number))
    squares[:, left, right] = squares[:, right, left] = sums[:, 1 + number :]
    found = squares - means[:, :, None] * means[:, None, :]
    kept, of = np.einsum("rqq->rq", found), np.einsum("rqq->rq", squares)
    for draw in np.flatnonzero((kept < CANCELLED * of).any(axis=1)):
        drawn = np.repeat(columns, weights[:, draw].astype(np.int64), axis=0)
        found[draw] = covariance(drawn) * (len(drawn) - 1) / len(drawn)
    return found


def interval_of(
    score: Callable[[np.ndarray], float],
    codes: np.ndarray,
    random: np.random.Generator,
    repeats: int,
    bounds: tuple[float, float],
) -> tuple[float, float]:
    """Bootstrap over rows of a function of the covariance matrix."""
    unbiased = len(codes) / (len(codes) - 1)
    return weighted_bootstrap_interval(
        lambda weights: np.array([score(c * unbiased) for c in weighted_covariances(codes, weights)]),
        len(codes),
        random,
        repeats,
        centre=score(covariance(codes)),
        bounds=bounds,
    )
