"""Mean absolute Pearson correlation between dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.base.errors import MetricError
from unweave.core.score import Score
from unweave.metrics._covariance import card, covariance, interval_of, varying_codes
from unweave.metrics._interval import generator
from unweave.metrics._metric import metric


@metric(card("mean absolute correlation between dimensions"), higher_is_better=False, needs="codes")
def mapc(codes: Any, *, repeats: int = 200, rng: int | np.random.Generator = 0) -> Score:
    """MAPC = 2 / (p^2 - p) sum_{i<j} |C_ij| / sqrt(C_ii C_jj), with C the covariance matrix of p dimensions.

    Constant dimensions have no correlation and are left out of p.

    codes: (N, D) array or Codes; repeats: bootstrap draws of rows for the interval
    parts: correlation (D, D), NaN in rows and columns of constant dimensions
    """
    random, seed = generator(rng)
    matrix, names = varying_codes(codes)
    varies = np.ptp(matrix, axis=0) > 0
    if varies.sum() < 2:
        raise MetricError(f"{int(varies.sum())} of {len(names)} dimensions vary: a correlation needs two")
    correlation = np.full((len(names), len(names)), np.nan)
    correlation[np.ix_(varies, varies)] = _correlation(covariance(matrix[:, varies]))
    value = _mean_off_diagonal(covariance(matrix[:, varies]))
    return Score(
        "mapc",
        value,
        interval_of(_mean_off_diagonal, matrix[:, varies], random, repeats, (0.0, 1.0)),
        parts={"correlation": correlation},
        settings={
            "rows": len(matrix),
            "dimensions": names,
            "constant": tuple(name for name, kept in zip(names, varies, strict=True) if not kept),
            "repeats": repeats,
            "seed": seed,
        },
        higher_is_better=False,
    )


def _correlation(c: np.ndarray) -> np.ndarray:
    scale = np.sqrt(np.diag(c))
    scale = np.where(scale > 0, scale, np.nan)
    return np.clip(c / np.outer(scale, scale), -1.0, 1.0)


def _mean_off_diagonal(c: np.ndarray) -> float:
    pairs = np.abs(_correlation(c)[np.triu_indices(len(c), 1)])
    pairs = pairs[~np.isnan(pairs)]  # a dimension may be constant in a draw of few rows
    return float(pairs.mean()) if len(pairs) else float("nan")
