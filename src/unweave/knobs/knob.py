"""Knobs: what can be turned by itself, by the names a user writes.

A real or whole number is one knob, `z[3]`. A point on a simplex is one knob however many categories it has, because
its numbers sum to one: `digit`. A number that a block has at each step of time is one knob, `factor_0[:,3]`, which is
turned at all steps together; `factor_0[4,3]` names step 4 alone. Edits are made on the matrix of `Codes.flat()`, so a
knob knows its columns there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pydantic

from unweave.base.errors import unknown_name
from unweave.core.block import Block


@dataclass(frozen=True)
class Knob:
    """One thing that can be turned by itself.

    name:    `z[3]`, `entity[1,3]`, over time `factor_0[:,3]`; a simplex without the axis of its categories: `digit`
    block:   the block it belongs to
    columns: its columns in the matrix of `Codes.flat()`; step after step, one for each, or as many as the simplex has
             categories
    steps:   how many steps of time it spans
    """

    name: str
    block: Block
    columns: tuple[int, ...]
    steps: int = 1

    @property
    def by_step(self) -> np.ndarray:
        """(steps, W) the columns of each step, W the number of categories or 1."""
        return np.array(self.columns).reshape(self.steps, -1)


def knobs(blocks: Sequence[Block]) -> tuple[Knob, ...]:
    """All knobs of a representation, in the order of its columns."""
    found, start = [], 0
    for block in blocks:
        width = block.shape[-1] if block.kind == "simplex" and block.shape else 1
        outer = block.shape[:-1] if block.kind == "simplex" else block.shape
        columns = start + np.arange(block.size).reshape(*outer, width)
        time = time_axis(block)
        if time is None or time == len(outer):
            steps, columns, time = 1, columns[None], None
        else:
            steps, columns = outer[time], np.moveaxis(columns, time, 0)
        for position in np.ndindex(*columns.shape[1:-1]):
            place = [str(index) for index in position]
            if time is not None:
                place.insert(time, ":")
            name = f"{block.name}[{','.join(place)}]" if place else block.name
            own = columns[(slice(None), *position)]  # (steps, width)
            found.append(Knob(name, block, tuple(own.ravel().tolist()), steps))
        start += block.size
    return tuple(found)


def time_axis(block: Block) -> int | None:
    """Which axis of the block's shape counts steps of time."""
    return block.axes.index("time") if "time" in block.axes else None


def find_knobs(blocks: Sequence[Block], names: Iterable[str]) -> tuple[Knob, ...]:
    """The knobs of the named blocks (`style`) and columns (`style[3]`), in the order named, each once."""
    every = knobs(blocks)
    columns = [column for block in blocks for column in block.columns]
    chosen: dict[str, Knob] = {}
    for name in names:
        matches = [knob for knob in every if name in (knob.name, knob.block.name)]
        if not matches and name in columns:
            matches = [_at_one_step(knob, columns.index(name), name) for knob in every if name in _names(knob, columns)]
        if not matches:
            raise unknown_name("block or dimension", name, dict.fromkeys([block.name for block in blocks] + columns))
        chosen.update((knob.name, knob) for knob in matches)
    return tuple(chosen.values())


def _names(knob: Knob, columns: Sequence[str]) -> list[str]:
    return [columns[column] for column in knob.columns]


def _at_one_step(knob: Knob, column: int, name: str) -> Knob:
    """The knob, or its part at the step of this column when it spans several."""
    if knob.steps == 1:
        return knob
    own = next(step for step in knob.by_step.tolist() if column in step)
    if len(own) > 1:
        name = name[: name.rindex(",")] + "]"  # a simplex is turned as a whole
    return Knob(name, knob.block, tuple(own))


def find_columns(blocks: Sequence[Block], names: Iterable[str]) -> np.ndarray:
    """Columns of `Codes.flat()` of the named blocks and columns, ascending."""
    return np.unique([column for knob in find_knobs(blocks, names) for column in knob.columns]).astype(np.int64)


def _split(names: Any) -> Any:
    """`"style, z[1,3]"` as ("style", "z[1,3]"): commas inside brackets belong to the name."""
    if isinstance(names, str):
        return tuple(name.strip() for name in re.split(r",(?![^\[]*\])", names) if name.strip())
    return names


Names = Annotated[tuple[str, ...], pydantic.BeforeValidator(_split)]
"""Names of blocks and columns: a tuple, or one text with commas between them."""
