"""Drawing rows that agree in a value: what the protocols that hold a factor fixed or change it are made of."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np

from unweave.base.errors import MetricError
from unweave.metrics.discretise import MISSING

# Numbers gathered at a time when codes of many groups are looked up: 32 MB of float64.
MOST_NUMBERS = 4_000_000


class RowsByValue:
    """The rows of each value of a numbered column, laid out so that draws need no loop.

    order: (M,) row numbers, the rows of value 0 first, then those of value 1, ...; only values with enough rows
    start: (M,) for each position in `order` where the rows of its value start
    count: (M,) and how many they are
    """

    def __init__(self, numbers: np.ndarray, name: str, least: int = 2):
        """numbers: (N,) 0, 1, ..., -1 where missing. least: a value with fewer rows is left out."""
        rows = np.flatnonzero(numbers != MISSING)
        counts = np.bincount(numbers[rows])
        rows = rows[counts[numbers[rows]] >= least]
        if len(rows) == 0:
            raise MetricError(
                f"no value of factor {name!r} has {least} rows to draw from: give more rows, "
                "or kind 'continuous' to bin its values"
            )
        self.numbers, self.name = numbers, name
        self.order = rows[np.argsort(numbers[rows], kind="stable")]
        value = numbers[self.order]
        self.start = np.searchsorted(value, value, side="left")
        self.count = np.searchsorted(value, value, side="right") - self.start

    def within(self, chosen: np.ndarray, least: int = 2) -> RowsByValue:
        """The same with the chosen rows only; chosen: (N,) booleans."""
        return RowsByValue(np.where(chosen, self.numbers, MISSING), self.name, least)

    def draw(self, rng: np.random.Generator, groups: int, size: int) -> np.ndarray:
        """(groups, size) rows; the rows of a group share a value. Values come as often as in the data."""
        position = rng.integers(len(self.order), size=groups)
        within = (rng.random((groups, size)) * self.count[position, None]).astype(np.int64)
        return self.order[self.start[position, None] + within]

    def draw_pairs(self, rng: np.random.Generator, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Two arrays of rows of the shape: at each place two different rows that share a value, any value."""
        position = rng.integers(len(self.order), size=shape)
        start, count = self.start[position], self.count[position]
        step = 1 + (rng.random(shape) * (count - 1)).astype(np.int64)  # 1 .. count - 1: never the row itself
        return self.order[position], self.order[start + (position - start + step) % count]


class RowsByOthers:
    """The rows that have a partner equal in every other factor and different in this one.

    order:     (M,) rows without a missing value, sorted by the other factors, then by this one
    start:     (M,) where the rows with the same other factors start; count: (M,) how many they are
    own_start: (M,) where, among these, the rows with the same value of this factor start; own_count: how many
    paired:    positions in `order` that have a partner
    """

    def __init__(self, numbers: np.ndarray, k: int, name: str):
        """numbers: (N, K) value numbers, -1 where missing. k: this factor, called name."""
        rows = np.flatnonzero((numbers != MISSING).all(axis=1))
        others = np.zeros(len(rows), dtype=np.int64)
        for column in np.delete(numbers[rows], k, axis=1).T:
            # Renumbered after each factor: the product of all numbers of values may not fit into an integer.
            others = np.unique(others * (column.max(initial=0) + 1) + column, return_inverse=True)[1]
        both = others * (numbers[:, k].max() + 1) + numbers[rows, k]
        order = np.argsort(both, kind="stable")
        self.name = name
        self._lay(rows[order], others[order], both[order])

    def _lay(self, order: np.ndarray, others: np.ndarray, both: np.ndarray) -> None:
        self.order, self.others, self.both = order, others, both
        self.start = np.searchsorted(others, others, side="left")
        self.count = np.searchsorted(others, others, side="right") - self.start
        self.own_start = np.searchsorted(both, both, side="left")
        self.own_count = np.searchsorted(both, both, side="right") - self.own_start
        self.paired = np.flatnonzero(self.count > self.own_count)
        if len(self.paired) == 0:
            raise MetricError(
                f"too few rows differ in factor {self.name!r} alone: this protocol needs pairs of rows equal in every "
                "other factor, to train and to test; give `groups` made by changing one factor, or fewer factors"
            )

    def within(self, chosen: np.ndarray) -> RowsByOthers:
        """The same with the chosen rows only; chosen: (N,) booleans."""
        kept, part = chosen[self.order], copy(self)
        part._lay(self.order[kept], self.others[kept], self.both[kept])
        return part

    def draw_pairs(self, rng: np.random.Generator, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Two arrays of rows of the shape: at each place two rows that differ in this factor and in no other."""
        position = self.paired[rng.integers(len(self.paired), size=shape)]
        start, own_start, own_count = self.start[position], self.own_start[position], self.own_count[position]
        partner = start + (rng.random(shape) * (self.count[position] - own_count)).astype(np.int64)
        partner = np.where(partner >= own_start, partner + own_count, partner)  # step over the rows with the same value
        return self.order[position], self.order[partner]


def random_half(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """(N,) booleans, half of them true. All factors are to use the same half: with a half for each, the rest of the
    rows would differ from it in the opposite way, factor by factor, and noise would score below chance."""
    return rng.permutation(n_rows) < n_rows // 2


def in_chunks(groups: int, numbers_per_group: int) -> Iterator[slice]:
    """Slices over the groups, each of a bounded number of gathered numbers."""
    step = max(1, MOST_NUMBERS // max(1, numbers_per_group))
    for start in range(0, groups, step):
        yield slice(start, min(start + step, groups))
