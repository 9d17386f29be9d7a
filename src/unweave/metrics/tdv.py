"""Top-d variance: the share of all variance in the d dimensions that vary most."""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.base.errors import MetricError
from unweave.core.score import Score
from unweave.metrics._covariance import card, covariance, interval_of, varying_codes
from unweave.metrics._interval import generator
from unweave.metrics._metric import metric


@metric(card("share of the variance in the d most varying dimensions"), higher_is_better=None, needs="codes")
def tdv(codes: Any, *, d: int | None = None, repeats: int = 200, rng: int | np.random.Generator = 0) -> Score:
    """TdV = (sum of the d greatest C_ii) / tr C, with C the covariance matrix of the codes.

    codes:   (N, D) array or Codes
    d:       the number of dimensions the data are thought to have; None takes half of D, rounded up
    repeats: bootstrap draws of rows for the interval

    parts: curve (D,), the share of the top 1, 2, ..., D dimensions
    """
    random, seed = generator(rng)
    matrix, names = varying_codes(codes)
    d = (len(names) + 1) // 2 if d is None else d
    if not 1 <= d <= len(names):
        raise MetricError(f"d = {d}: expected between 1 and {len(names)}, the number of dimensions")
    curve = _curve(covariance(matrix))

    def share(c: np.ndarray) -> float:
        return float(_curve(c)[d - 1])

    return Score(
        "tdv",
        float(curve[d - 1]),
        interval_of(share, matrix, random, repeats, (0.0, 1.0)),
        parts={"curve": curve},
        settings={"d": d, "rows": len(matrix), "dimensions": names, "repeats": repeats, "seed": seed},
        higher_is_better=None,
    )


def _curve(c: np.ndarray) -> np.ndarray:
    """(D,) share of the variance in the top 1, 2, ..., D dimensions; NaN if nothing varies."""
    total = np.trace(c)
    if not total > 0:
        return np.full(len(c), np.nan)
    return np.minimum(np.sort(np.diag(c))[::-1].cumsum() / total, 1.0)
