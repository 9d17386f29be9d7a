"""90 % utilised dimensions: how many dimensions hold 90 % of the variance."""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.base.errors import MetricError
from unweave.core.score import Score
from unweave.metrics._covariance import card, covariance, interval_of, varying_codes
from unweave.metrics._interval import generator
from unweave.metrics._metric import metric

BOUNDS = (1.0, float("inf"))
ROUNDING = 1e-12


@metric(
    card("number of dimensions that hold 90 % of the variance"), higher_is_better=None, needs="codes", bounds=BOUNDS
)
def ud90(codes: Any, *, share: float = 0.9, repeats: int = 200, rng: int | np.random.Generator = 0) -> Score:
    """UD90 = the least d whose d greatest C_ii sum to 90 % of tr C, with C the covariance matrix of the codes.

    codes:   (N, D) array or Codes
    share:   the share of the variance to keep
    repeats: bootstrap draws of rows for the interval

    parts: variance_share (D,) of each dimension, in the order of the codes
    """
    random, seed = generator(rng)
    matrix, names = varying_codes(codes)
    if not 0 < share <= 1:
        raise MetricError(f"share = {share}: expected above 0 and at most 1, such as 0.9")

    def count(c: np.ndarray) -> float:
        variances = np.sort(np.diag(c))[::-1].cumsum()
        if not variances[-1] > 0:
            return float("nan")
        return float(np.searchsorted(variances, (share - ROUNDING) * variances[-1]) + 1)

    c = covariance(matrix)
    return Score(
        "ud90",
        count(c),
        interval_of(count, matrix, random, repeats, BOUNDS),
        parts={"variance_share": np.diag(c) / np.trace(c)},
        settings={"share": share, "rows": len(matrix), "dimensions": names, "repeats": repeats, "seed": seed},
        higher_is_better=None,
    )
