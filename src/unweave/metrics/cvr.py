"""Covariance/variance ratio: correlation between dimensions, weighted by how much they vary."""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.core.score import Score
from unweave.metrics._covariance import card, covariance, interval_of, varying_codes
from unweave.metrics._interval import generator
from unweave.metrics._metric import metric

BOUNDS = (1.0, float("inf"))


@metric(
    card("sum of absolute covariances over sum of variances; 1 if uncorrelated"),
    higher_is_better=False,
    needs="codes",
    bounds=BOUNDS,
)
def cvr(codes: Any, *, repeats: int = 200, rng: int | np.random.Generator = 0) -> Score:
    """CVR = sum_ij |C_ij| / tr C, with C the covariance matrix of p dimensions: 1 if uncorrelated, p at most.

    The paper's formula has a further 1 / p^2, but its reported numbers (6.56 and 20.00 with p = 84, "the optimal value
    of one") do not; the value here is the one that agrees with the numbers, the other is the part `printed`.

    codes: (N, D) array or Codes; repeats: bootstrap draws of rows for the interval
    parts: printed = value / p^2
    """
    random, seed = generator(rng)
    matrix, names = varying_codes(codes)
    value = _ratio(covariance(matrix))
    return Score(
        "cvr",
        value,
        interval_of(_ratio, matrix, random, repeats, BOUNDS),
        parts={"printed": value / len(names) ** 2},
        settings={"rows": len(matrix), "dimensions": names, "repeats": repeats, "seed": seed},
        higher_is_better=False,
    )


def _ratio(c: np.ndarray) -> float:
    total = np.trace(c)
    return max(float(np.abs(c).sum() / total), 1.0) if total > 0 else float("nan")
