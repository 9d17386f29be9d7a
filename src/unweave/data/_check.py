"""What is in an array of observations: finite or not, lowest and highest value, and what it may stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.base.errors import DataError
from unweave.core.dataspec import Values

# Observations are looked at in pieces of 64 MB, so that a memory-mapped file is never all in memory.
_CHUNK_BYTES = 1 << 26


@dataclass(frozen=True)
class Found:
    """What a look at all N observations showed.

    low, high: the lowest and the highest value
    whole:     every value is a whole number
    two:       only `low` and `high` occur
    """

    low: float
    high: float
    whole: bool
    two: bool

    @property
    def range(self) -> str:
        return f"{self.low:g} to {self.high:g}"


def check_observations(array: np.ndarray, where: str) -> Found:
    """Look at all of (N, ...) `array`; raise DataError when it is empty, not numbers, or has NaN or infinite values."""
    if array.dtype.kind not in "buif":
        raise DataError(
            f"{where} holds values of type {array.dtype}: observations must be numbers (bool, integers or floats)"
        )
    if array.ndim == 0:
        raise DataError(f"{where} is a single number: expected an array with one row per observation")
    if array.shape[0] == 0 or array.size == 0:
        raise DataError(f"{where} is empty (shape {array.shape}): there is nothing to learn from")
    low, high, whole = np.inf, -np.inf, True
    values: set[float] = set()  # as long as there are no more than two: all in one pass, files may be large
    for start, chunk in _chunks(array):
        if chunk.dtype.kind == "f":
            _check_finite(chunk, start, where)
            whole = whole and bool((chunk == np.floor(chunk)).all())
        least, most = chunk.min(), chunk.max()
        low, high = min(low, float(least)), max(high, float(most))
        if len(values) <= 2:
            values |= {float(least), float(most)}
            if not ((chunk == least) | (chunk == most)).all():
                values = {low, high, np.nan}
    return Found(low, high, whole, whole and len(values) <= 2)


def first_outside(array: np.ndarray, low: float, high: float) -> int | None:
    """The row of the first observation with a value below `low` or above `high`."""
    for start, chunk in _chunks(array):
        outside = ((chunk < low) | (chunk > high)).reshape(len(chunk), -1).any(axis=1)
        if outside.any():
            return start + int(outside.argmax())
    return None


def check_values(found: Found, values: Values, array: np.ndarray, where: str, levels: int | None = None) -> None:
    """Raise DataError unless the values found are of the kind `values` says (see DataSpec)."""
    top = np.inf if levels is None else levels - 1.0
    low, high = {
        "binary": (0.0, 1.0),
        "unit": (0.0, 1.0),
        "levels": (0.0, top),
        "counts": (0.0, np.inf),
        "tokens": (0.0, top),
        "real": (-np.inf, np.inf),
    }[values]
    if found.low < low or found.high > high:
        row = first_outside(array, low, high)
        upper = "and above" if np.isinf(high) else f"to {high:g}"
        raise DataError(
            f"{where} has values {found.range}, first outside in observation {row}, "
            f"but values={values!r} means {low:g} {upper}: rescale the data or choose another `values`"
        )
    if values in ("binary", "levels", "counts", "tokens") and not found.whole:
        meaning = "only 0 and 1" if values == "binary" else "whole numbers"
        raise DataError(
            f"{where} has fractional values ({found.range}), but values={values!r} means {meaning}: "
            "round the data or choose another `values`"
        )


def _check_finite(chunk: np.ndarray[Any, np.dtype[np.floating]], start: int, where: str) -> None:
    # A sum is not finite when any of its terms is not; the slow search runs only then.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(chunk.sum(dtype=np.float64)):
            return
    bad = ~np.isfinite(chunk)
    if bad.any():
        first = np.argwhere(bad)[0]
        value = chunk[tuple(first)]
        position = ", ".join(str(int(index)) for index in first[1:])
        at = f" at ({position})" if position else ""
        raise DataError(
            f"{where}: observation {start + int(first[0])} is {value}{at}, and "
            f"{int(bad.reshape(len(chunk), -1).any(axis=1).sum())} of the observations looked at have such values: "
            "remove or repair them before loading"
        )


def _chunks(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """(first row, rows) pieces of about 64 MB."""
    row_bytes = max(1, array.nbytes // max(1, len(array)))
    step = max(1, _CHUNK_BYTES // row_bytes)
    for start in range(0, len(array), step):
        yield start, np.asarray(array[start : start + step])
