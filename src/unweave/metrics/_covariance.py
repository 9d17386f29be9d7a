"""The covariance matrix that four scores of codes alone are functions of, and their interval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unweave.core.card import Card
from unweave.core.errors import MetricError
from unweave.metrics._inputs import check_codes
from unweave.metrics._interval import bootstrap_interval


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


def interval_of(
    score: Callable[[np.ndarray], float],
    codes: np.ndarray,
    random: np.random.Generator,
    repeats: int,
    bounds: tuple[float, float],
) -> tuple[float, float]:
    """Bootstrap over rows of a function of the covariance matrix."""
    return bootstrap_interval(
        lambda rows: score(covariance(codes[rows])),
        len(codes),
        random,
        repeats,
        centre=score(covariance(codes)),
        bounds=bounds,
    )
