"""Knobs: what can be turned by itself, by the names a user writes.

A real or whole number is one knob, `z[3]`. A point on a simplex is one knob however many categories it has, because
its numbers sum to one: `digit`. Edits are made on the matrix of `Codes.flat()`, so a knob knows its columns there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pydantic

from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.core.errors import unknown_name


@dataclass(frozen=True)
class Knob:
    """One thing that can be turned by itself.

    name:    `z[3]`, `entity[1,3]`; a simplex without the axis of its categories: `digit`, `letter[2]`
    block:   the block it belongs to
    columns: its columns in the matrix of `Codes.flat()`; one, or as many as the simplex has categories
    """

    name: str
    block: Block
    columns: tuple[int, ...]


def knobs(blocks: Sequence[Block]) -> tuple[Knob, ...]:
    """All knobs of a representation, in the order of its columns."""
    found, start = [], 0
    for block in blocks:
        simplex = block.kind == "simplex" and bool(block.shape)
        outer = block.shape[:-1] if simplex else block.shape
        width = block.shape[-1] if simplex else 1
        for number, position in enumerate(np.ndindex(*outer)):
            name = f"{block.name}[{','.join(map(str, position))}]" if outer else block.name
            first = start + number * width
            found.append(Knob(name, block, tuple(range(first, first + width))))
        start += block.size
    return tuple(found)


def find_knobs(blocks: Sequence[Block], names: Iterable[str]) -> tuple[Knob, ...]:
    """The knobs of the named blocks (`style`) and columns (`style[3]`), in the order named, each once."""
    every = knobs(blocks)
    columns = [column for block in blocks for column in block.columns]
    chosen: dict[str, Knob] = {}
    for name in names:
        matches = [
            knob
            for knob in every
            if name in (knob.name, knob.block.name) or name in (columns[column] for column in knob.columns)
        ]
        if not matches:
            raise unknown_name("block or dimension", name, dict.fromkeys([block.name for block in blocks] + columns))
        chosen.update((knob.name, knob) for knob in matches)
    return tuple(chosen.values())


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


def render_grid(system: Any, codes: Codes, cells: np.ndarray, at_once: int = 256) -> np.ndarray:
    """(R, K, *shape) observations of a grid of codes; NaN where a cell of the grid is empty.

    codes:   any codes with the system's blocks
    cells:   (R, K, D) rows of `codes.flat()`, NaN throughout for an empty cell
    at_once: how many codes are rendered together, to bound the memory
    """
    rows, columns, width = cells.shape
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
