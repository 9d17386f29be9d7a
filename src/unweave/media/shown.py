"""What an operation shows: a grid of observations with names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True, eq=False)
class Shown:
    """The result of an operation: a grid of pictures with names, savable as PNG, and as GIF when it plays.

    title:   one line
    images:  (R, K, C, H, W) grid of R rows and K columns, values in data units; a cell of NaN is left blank;
             (R, K, T, C, H, W) when each cell is a clip
    rows:    R row names, may be empty strings
    columns: K column names, may be empty strings
    moves:   True when the columns are a movement: the GIF shows them one after the other and back; "forward" when they
             are time: it begins again after the last
    """

    title: str
    images: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    moves: Literal[False, True, "forward"] = False

    @property
    def has_clips(self) -> bool:
        return self.images.ndim == 6

    @property
    def plays(self) -> bool:
        """Whether it can be a GIF: its columns are a movement, or its cells are clips."""
        return bool(self.moves) or self.has_clips
