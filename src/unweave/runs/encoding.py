"""From observations to codes and back, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from unweave.base.errors import DataError, ShapeError
from unweave.core.batch import Batch
from unweave.core.codes import Codes
from unweave.core.system import System

ENCODING_BATCH = 256


def encode_in_batches(
    system: System, batch_of: Callable[[np.ndarray, np.ndarray | None], Batch], rows: int, groups: Any = None
) -> Codes:
    """Codes of places 0 .. rows - 1; no group is cut in two.

    batch_of: from (n,) places and (n,) their groups, None without groups, to their batch
    groups:   (rows,) which group each place belongs to, of any type
    """
    if groups is not None:
        groups = np.asarray(groups)
        if groups.shape != (rows,):
            raise DataError(f"groups have shape {groups.shape} and there are {rows} observations: give each its group")
        groups = np.unique(groups, return_inverse=True)[1]
    parts, places = [], []
    for chunk in _chunks(rows, groups):
        parts.append(system.encode(batch_of(chunk, None if groups is None else groups[chunk])))
        places.append(chunk)
    return Codes.concatenate(parts).take(np.argsort(np.concatenate(places)))


def by_name(groups: Any, names: Sequence[str] | None) -> Any:
    """Groups row by row, where they were given as a mapping from file name to group."""
    if not isinstance(groups, Mapping):
        return groups
    if names is None:
        raise DataError("groups are given by file name and the inputs are no files: give one group for each, in order")
    for name in names:
        if name not in groups:
            raise DataError(f"there is no group for {name!r}: give each file its group")
    return [groups[name] for name in names]


def decode_in_batches(system: System, codes: Codes) -> np.ndarray:
    """(N, *shape) mean observations of codes."""
    starts = range(0, max(1, codes.rows), ENCODING_BATCH)
    return np.concatenate([system.render(codes.take(np.arange(codes.rows)[at : at + ENCODING_BATCH])) for at in starts])


def as_codes(system: System, given: Any) -> Codes:
    """Codes of this system from codes, from a mapping of blocks to arrays, or from an (n, D) array."""
    blocks = system.blocks
    if isinstance(given, Codes):
        if [(b.name, b.shape) for b in given.blocks] != [(b.name, b.shape) for b in blocks]:
            raise ShapeError(f"these are codes of {_told(given.blocks)}: this run has {_told(blocks)}")
        codes = given
    elif isinstance(given, Mapping):
        codes = Codes(blocks, {name: _one_row(values, blocks, name) for name, values in given.items()})
    else:
        matrix = _numbers(given)
        columns = sum(block.size for block in blocks)
        matrix = matrix[None] if matrix.ndim == 1 else matrix
        if matrix.ndim != 2 or matrix.shape[1] != columns:
            raise ShapeError(
                f"codes have shape {np.shape(given)}: expected (n, {columns}), side by side {_told(blocks)}"
            )
        codes = Codes.from_flat(blocks, matrix)
    if not codes.rows:
        raise ShapeError("there are no codes to decode: give at least one row")
    for block in blocks:
        values = _numbers(codes[block.name])
        wrong = ~np.isfinite(values)
        if block.kind == "discrete" and not wrong.any():
            wrong = values != np.floor(values)
        if wrong.any():
            place = np.argwhere(wrong)[0]
            kind = "a whole number" if block.kind == "discrete" else "a finite number"
            raise ShapeError(f"row {place[0]} of block {block.name!r} has {values[tuple(place)]}: expected {kind}")
    return codes


def _numbers(given: Any) -> np.ndarray:
    if hasattr(given, "detach"):  # a tensor of PyTorch
        given = given.detach().cpu()
    try:
        array = np.asarray(given)
    except (ValueError, TypeError) as error:
        raise ShapeError(f"codes are no array ({error}): give numbers, all rows of one length") from None
    if array.dtype.kind not in "buif":
        raise ShapeError(f"codes are of type {array.dtype}: expected numbers")
    return array


def _one_row(values: Any, blocks: Sequence[Any], name: str) -> np.ndarray:
    """An array of rows; one row may be given without the axis of rows."""
    array = _numbers(values)
    shapes = {block.name: block.shape for block in blocks}
    return array[None] if array.shape == shapes.get(name) and array.ndim else array


def _told(blocks: Sequence[Any]) -> str:
    return ", ".join(f"{block.name}{list(block.shape)}" for block in blocks)


def _chunks(rows: int, groups: np.ndarray | None) -> Iterator[np.ndarray]:
    """Places 0 .. rows - 1 in parts of about ENCODING_BATCH; no group is cut in two."""
    if groups is None:
        yield from np.split(np.arange(rows), range(ENCODING_BATCH, rows, ENCODING_BATCH))
        return
    order = np.argsort(groups, kind="stable")
    ends = np.flatnonzero(np.diff(groups[order])) + 1
    part: list[np.ndarray] = []
    for group in np.split(order, ends):
        part.append(group)
        if sum(map(len, part)) >= ENCODING_BATCH:
            yield np.concatenate(part)
            part = []
    if part:
        yield np.concatenate(part)
