"""A grid of codes as a grid of observations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from unweave.base.errors import ConfigError
from unweave.core.codes import Codes
from unweave.knobs.knob import time_axis

_MOST: ContextVar[int | None] = ContextVar("most pictures of a grid", default=None)


@contextmanager
def at_most_pictures(most: int) -> Iterator[None]:
    """While it lasts a grid of more pictures is refused before any is made; a server limits what a page can ask for."""
    token = _MOST.set(most)
    try:
        yield
    finally:
        _MOST.reset(token)


def render_grid(system: Any, codes: Codes, cells: np.ndarray, at_once: int = 256) -> np.ndarray:
    """(R, K, *shape) observations of a grid of codes; NaN where a cell of the grid is empty.

    codes:   any codes with the system's blocks
    cells:   (R, K, D) rows of `codes.flat()`, NaN throughout for an empty cell
    at_once: how many pictures are rendered together, to bound the memory; a code of T steps makes T
    """
    rows, columns, width = cells.shape
    most = _MOST.get()
    if most is not None and rows * columns > most:
        raise ConfigError(
            f"the result has {rows * columns:,} pictures, more than is shown here ({most:,}): ask for less"
        )
    at_once = max(1, at_once // max((b.shape[t] for b in codes.blocks if (t := time_axis(b)) is not None), default=1))
    flat = cells.reshape(rows * columns, width)
    full = np.flatnonzero(~np.isnan(flat).all(axis=1)) if width else np.arange(rows * columns)
    parts = [
        np.asarray(system.render(codes.unflat(flat[full[start : start + at_once]])))
        for start in range(0, len(full), at_once)
    ]
    rendered = np.concatenate(parts)
    images = np.full((rows * columns, *rendered.shape[1:]), np.nan, dtype=np.float32)
    images[full] = rendered
    return images.reshape(rows, columns, *rendered.shape[1:])
