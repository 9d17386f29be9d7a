"""Blocks: the named parts of a representation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unweave.base.errors import ConfigError

Kind = Literal["real", "simplex", "discrete"]
Scope = Literal["example", "group", "sequence"]


@dataclass(frozen=True)
class Block:
    """One named part of a representation.

    name:  how traces, codes, terms and operations call it
    shape: event shape, without sample, batch or data axes
    axes:  what each axis of `shape` counts: ("dim",), ("entity", "dim"), ("time", "dim"), ...
    kind:  "real" numbers, a point on the "simplex" (relaxed category), or "discrete" whole numbers
    scope: what one value belongs to: an "example", a "group" of examples, or a whole "sequence"
    """

    name: str
    shape: tuple[int, ...]
    axes: tuple[str, ...] = ("dim",)
    kind: Kind = "real"
    scope: Scope = "example"

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ConfigError(f"block name {self.name!r} is not an identifier: use letters, digits and underscores")
        if len(self.axes) != len(self.shape):
            raise ConfigError(
                f"block {self.name!r} has shape {self.shape} and axes {self.axes}: name each axis of the shape once"
            )
        if any(length < 1 for length in self.shape):
            raise ConfigError(f"block {self.name!r} has shape {self.shape}: every axis needs at least one element")

    @property
    def size(self) -> int:
        """How many numbers one value has."""
        return math.prod(self.shape)

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for each number: `style[3]`, `entity[1,3]`; the block's own name when it has one without axes."""
        if not self.shape:
            return (self.name,)
        return tuple(f"{self.name}[{','.join(map(str, position))}]" for position in np.ndindex(*self.shape))
