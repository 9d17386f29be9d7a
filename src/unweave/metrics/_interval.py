"""Intervals of scores: over resampled rows, or over repeats of a random protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from unweave.base.errors import MetricError

# Numbers of a block of weights, 16 MB of float32, and how many draws it has where there are few rows.
MOST_WEIGHTS = 2**22
MOST_DRAWS_AT_ONCE = 32
TURNED_AT_ONCE = 1024


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

    Where all draws agree it is that of `unseen`.
    """
    _check(level, repeats)
    values = np.array([statistic(rng.integers(n_rows, size=n_rows)) for _ in range(repeats)], dtype=np.float64)
    return unseen(_percentiles(values, level, centre, bounds), n_rows, level, bounds)


def weighted_bootstrap_interval(
    statistic: Callable[[np.ndarray], np.ndarray],
    n_rows: int,
    rng: np.random.Generator,
    repeats: int = 200,
    level: float = 0.95,
    *,
    centre: float | None = None,
    bounds: tuple[float, float] | None = None,
) -> tuple[float, float]:
    """The interval of `bootstrap_interval`, same draws, for a statistic that weighs rows instead of gathering them.

    Drawing rows with replacement is weighing row n with the number of times c_n that it came. A statistic made of sums
    over rows is then a product with the weights: many draws at once, rows in the order they lie in memory.

    statistic: from (n_rows, R') float32 weights, whole numbers, of R' draws to their (R',) values
    """
    from threadpoolctl import threadpool_limits

    _check(level, repeats)
    step = max(1, min(MOST_DRAWS_AT_ONCE, MOST_WEIGHTS // max(1, n_rows)))
    values = []
    for first in range(0, repeats, step):
        counts = np.empty((min(step, repeats - first), n_rows), dtype=np.float32)
        for draw in counts:
            draw[:] = np.bincount(rng.integers(n_rows, size=n_rows), minlength=n_rows)
        weights = np.empty(counts.shape[::-1], dtype=np.float32)
        for start in range(0, n_rows, TURNED_AT_ONCE):  # part by part: a column at a time would miss the cache
            weights[start : start + TURNED_AT_ONCE] = counts[:, start : start + TURNED_AT_ONCE].T
        with threadpool_limits(limits=1):  # products this small are done before a second thread is awake
            values.append(statistic(weights))
    drawn = _percentiles(np.concatenate(values).astype(np.float64), level, centre, bounds)
    return unseen(drawn, n_rows, level, bounds)


def unseen(
    interval: tuple[float, float], n_rows: int, level: float = 0.95, bounds: tuple[float, float] | None = None
) -> tuple[float, float]:
    """The interval; where it has no width, what N rows cannot tell.

    Drawing again rows that all say the same says the same, however few they are. But with probability `level` a kind
    of row that is not among N is at most a share 1 - (1 - level)^(1/N) of all, about 3 / N. The interval reaches that
    share of the range of possible values from the value; infinite ranges are left alone.
    """
    low, high = interval
    if bounds is None or not np.isfinite(bounds).all() or not high - low < 1e-12:
        return interval
    reach = (bounds[1] - bounds[0]) * (1 - (1 - level) ** (1 / n_rows))
    return _cut(low - reach, high + reach, bounds)


def _percentiles(
    values: np.ndarray, level: float, centre: float | None, bounds: tuple[float, float] | None
) -> tuple[float, float]:
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return float("nan"), float("nan")
    if centre is not None:
        values = values + (centre - np.median(values))
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return _cut(float(low), float(high), bounds)


def repeat_interval(
    values: Sequence[float] | np.ndarray,
    n_rows: int,
    level: float = 0.95,
    *,
    bounds: tuple[float, float] | None = None,
) -> tuple[float, float]:
    """Student t interval of the mean of R repeats: mean -/+ t_{R-1} s / sqrt(R).

    It covers the chance inside the protocol (which groups were drawn, which half trained the classifier) for these
    codes. It does not cover the choice of the N rows, but for repeats that all agree, where it is that of `unseen`; nor
    the training of the model that made the codes.

    values: (R,) results of repeats that differ in their random draws only; at least 2
    n_rows: N
    bounds: the range of possible values, to which the interval is cut
    """
    from scipy import special

    _check_level(level)
    values = np.asarray(values, dtype=np.float64)
    if values.size < 2:
        raise MetricError(f"there are {values.size} repeats: an interval needs at least 2")
    mean, error = values.mean(), values.std(ddof=1) / np.sqrt(values.size)
    reach = special.stdtrit(values.size - 1, (1 + level) / 2) * error
    return unseen(_cut(float(mean - reach), float(mean + reach), bounds), n_rows, level, bounds)


def generator(rng: int | np.random.Generator) -> tuple[np.random.Generator, int | None]:
    """A generator and, for the settings of a score, the seed it was made of (None if the caller gave a generator)."""
    return np.random.default_rng(rng), None if isinstance(rng, np.random.Generator) else int(rng)


def _check(level: float, repeats: int) -> None:
    _check_level(level)
    if repeats < 2:
        raise MetricError(f"repeats = {repeats}: an interval needs at least 2")


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise MetricError(f"level = {level}: expected a share between 0 and 1, such as 0.95")


def _cut(low: float, high: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    if bounds is None:
        return low, high
    return max(low, bounds[0]), min(high, bounds[1])
