"""Intervals of scores: over resampled rows, or over repeats of a random protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from unweave.core.errors import MetricError


def bootstrap_interval(
    statistic: Callable[[np.ndarray], float],
    n_rows: int,
    rng: np.random.Generator,
    repeats: int = 200,
    level: float = 0.95,
    *,
    centre: float | None = None,
    bounds: tuple[float, float] | None = None,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a statistic of rows.

    It covers the chance of having drawn these N rows and not others. It does not cover the training of the model
    that made the codes, nor a bias of the estimator (bins, finite N).

    statistic: from (n_rows,) row numbers, drawn with replacement, to a number
    repeats:   how many times rows are drawn; a draw on which the statistic is NaN does not count
    level:     share of the replicates between low and high
    centre:    the statistic of the rows themselves. Duplicate rows inflate estimates such as a plug-in mutual
               information a second time; with `centre` the replicates are shifted so that their median is there.
    bounds:    the range of possible values, to which the interval is cut
    """
    _check_level(level)
    if repeats < 2:
        raise MetricError(f"repeats = {repeats}: an interval needs at least 2")
    values = np.array([statistic(rng.integers(n_rows, size=n_rows)) for _ in range(repeats)], dtype=np.float64)
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return float("nan"), float("nan")
    if centre is not None:
        values = values + (centre - np.median(values))
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return _cut(float(low), float(high), bounds)


def repeat_interval(
    values: Sequence[float] | np.ndarray, level: float = 0.95, *, bounds: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Student t interval of the mean of R repeats: mean -/+ t_{R-1} s / sqrt(R).

    It covers the chance inside the protocol (which groups were drawn, which half trained the classifier) for these
    codes. It does not cover the choice of the N rows, nor the training of the model that made the codes.

    values: (R,) results of repeats that differ in their random draws only; at least 2
    bounds: the range of possible values, to which the interval is cut
    """
    from scipy import special

    _check_level(level)
    values = np.asarray(values, dtype=np.float64)
    if values.size < 2:
        raise MetricError(f"there are {values.size} repeats: an interval needs at least 2")
    mean, error = values.mean(), values.std(ddof=1) / np.sqrt(values.size)
    reach = special.stdtrit(values.size - 1, (1 + level) / 2) * error
    return _cut(float(mean - reach), float(mean + reach), bounds)


def generator(rng: int | np.random.Generator) -> tuple[np.random.Generator, int | None]:
    """A generator and, for the settings of a score, the seed it was made of (None if the caller gave a generator)."""
    return np.random.default_rng(rng), None if isinstance(rng, np.random.Generator) else int(rng)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise MetricError(f"level = {level}: expected a share between 0 and 1, such as 0.95")


def _cut(low: float, high: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    if bounds is None:
        return low, high
    return max(low, bounds[0]), min(high, bounds[1])
