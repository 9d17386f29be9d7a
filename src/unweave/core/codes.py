"""Codes: what a system makes of data. The currency between systems, metrics, operations and pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from unweave.base.errors import ShapeError, unknown_name
from unweave.core.block import Block


class Codes(Mapping[str, np.ndarray]):
    """An immutable mapping from block name to an array of N rows.

    A row belongs to an observation. A block of scope "group" or "sequence" repeats its value on every row of the
    group or sequence, so that all blocks have the same number of rows and can be edited row by row.

    blocks:  the blocks, in order
    values:  name -> (N, *block.shape); posterior means where the posterior has one, probabilities on a simplex
    spreads: name -> (N, *block.shape) posterior standard deviations, for the blocks that have them
    names:   N texts, what each row is called (the file it was made of); None where rows have no names
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        values: Mapping[str, np.ndarray],
        spreads: Mapping[str, np.ndarray] | None = None,
        names: Sequence[str] | None = None,
    ):
        self.blocks = tuple(blocks)
        known = {block.name: block for block in self.blocks}
        for name in (*values, *(spreads or {})):
            if name not in known:
                raise unknown_name("block", name, known)
        rows = {len(np.asarray(values[block.name])) for block in self.blocks if block.name in values}
        missing = [block.name for block in self.blocks if block.name not in values]
        if missing:
            raise ShapeError(f"codes lack block {missing[0]!r}: give a value for each of {', '.join(known)}")
        if len(rows) > 1:
            raise ShapeError(f"blocks have different numbers of rows {sorted(rows)}: all need one row per observation")
        self.rows = rows.pop() if rows else 0
        self._values = {name: self._checked(known[name], values[name]) for name in known}
        self._spreads = {name: self._checked(known[name], spread) for name, spread in (spreads or {}).items()}
        self.names = None if names is None else tuple(names)
        if self.names is not None and len(self.names) != self.rows:
            raise ShapeError(f"{len(self.names)} names were given for {self.rows} rows of codes: give each row one")

    def _checked(self, block: Block, value: np.ndarray) -> np.ndarray:
        array = np.array(value)  # a copy: codes never change under their holder
        expected = (self.rows, *block.shape)
        if array.shape != expected:
            raise ShapeError(
                f"block {block.name!r} has values of shape {array.shape}: expected {expected} (rows, *block shape)"
            )
        array.setflags(write=False)
        return array

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._values:
            raise unknown_name("block", name, self._values)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        """The number of blocks (`rows` is the number of observations)."""
        return len(self._values)

    def __repr__(self) -> str:
        return f"Codes({self.rows} rows: {', '.join(f'{b.name}{list(b.shape)}' for b in self.blocks)})"

    def block(self, name: str) -> Block:
        for block in self.blocks:
            if block.name == name:
                return block
        raise unknown_name("block", name, self._values)

    def spread(self, name: str) -> np.ndarray | None:
        """(N, *shape) posterior standard deviations of a block, None where the posterior has none."""
        self.block(name)
        return self._spreads.get(name)

    def replace(self, **values: np.ndarray) -> Codes:
        """The same codes with other values for some blocks (their spreads are dropped: they no longer apply)."""
        for name in values:
            self.block(name)
        spreads = {name: spread for name, spread in self._spreads.items() if name not in values}
        return Codes(self.blocks, {**self._values, **values}, spreads, self.names)

    def named(self, names: Sequence[str] | None) -> Codes:
        """The same codes with these names of rows."""
        return Codes(self.blocks, self._values, self._spreads, names)

    def take(self, rows: Sequence[int] | np.ndarray) -> Codes:
        """The given rows, in the given order, repeats allowed."""
        rows = np.asarray(rows, dtype=np.int64)
        return Codes(
            self.blocks,
            {name: value[rows] for name, value in self._values.items()},
            {name: spread[rows] for name, spread in self._spreads.items()},
            None if self.names is None else [self.names[row] for row in rows],
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all numbers of a row, in the order of `flat()`: `("digit[0]", ..., "style[3]", ...)`."""
        return tuple(column for block in self.blocks for column in block.columns)

    def flat(self) -> tuple[np.ndarray, tuple[str, ...]]:
        """(N, D) matrix of all blocks side by side, and the D column names."""
        return self._flatten(self._values), self.columns

    def flat_spread(self) -> np.ndarray:
        """(N, D) standard deviations in the order of `flat()`; NaN for blocks that have none."""
        return self._flatten(
            {b.name: self._spreads.get(b.name, np.full((self.rows, *b.shape), np.nan)) for b in self.blocks}
        )

    def _flatten(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        if not self.blocks:
            return np.zeros((self.rows, 0))
        return np.concatenate([values[b.name].reshape(self.rows, b.size) for b in self.blocks], axis=1)

    def unflat(self, matrix: np.ndarray) -> Codes:
        """Codes with these blocks from an (M, D) matrix laid out as `flat()` lays it out."""
        return Codes.from_flat(self.blocks, matrix)

    @staticmethod
    def from_flat(blocks: Sequence[Block], matrix: np.ndarray) -> Codes:
        """Codes of these blocks from an (M, D) matrix laid out as `flat()` lays it out."""
        matrix, columns = np.asarray(matrix), sum(block.size for block in blocks)
        if matrix.ndim != 2 or matrix.shape[1] != columns:
            raise ShapeError(f"matrix has shape {matrix.shape}: expected (rows, {columns}), one column per code")
        values, start = {}, 0
        for block in blocks:
            values[block.name] = matrix[:, start : start + block.size].reshape(len(matrix), *block.shape)
            start += block.size
        return Codes(blocks, values)

    @staticmethod
    def concatenate(parts: Sequence[Codes]) -> Codes:
        """Rows of several codes of the same blocks, one after the other."""
        blocks = parts[0].blocks
        kept = [name for name in parts[0]._spreads if all(name in part._spreads for part in parts)]
        names = [name for part in parts for name in part.names or ()]
        return Codes(
            blocks,
            {block.name: np.concatenate([part[block.name] for part in parts]) for block in blocks},
            {name: np.concatenate([part._spreads[name] for part in parts]) for name in kept},
            names if all(part.names is not None for part in parts) else None,
        )
