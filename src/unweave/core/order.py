"""The order in which rows are trained on: a pure function of (seed, step), so that a run can stop and go on anywhere.

An order gives the row numbers of one step's batch. With several processes each gets its own part of the joint batch,
found without talking to the others. `unweave.batches.orders` has orders of groups and of shares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from unweave.base.errors import DataError
from unweave.base.seeding import derive_seed
from unweave.core.factors import Factors


@dataclass(frozen=True)
class Reads:
    """What a system's batches carry besides the observations: names of factors of the data set.

    group:  a discrete factor; rows of equal value are one group
    labels: factors given as labels, where they are known
    """

    group: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Table:
    """The rows that are trained on and what is known of them.

    rows:    (n,) row numbers in the data set
    factors: factors of these n rows, None where the data have none
    """

    rows: np.ndarray
    factors: Factors | None = None

    def column(self, name: str) -> np.ndarray:
        """(n,) values of a factor on these rows; NaN where missing."""
        if self.factors is None:
            raise DataError(f"the data have no factors and {name!r} is needed: give a table of factors with the data")
        return self.factors.column(name)


class Order(ABC):
    """Row numbers of each step's batch."""

    @abstractmethod
    def rows(self, step: int, rank: int = 0, processes: int = 1) -> np.ndarray:
        """(n,) row numbers of the batch of a step; of this process's part of it."""


@dataclass(frozen=True, eq=False)
class Permuted(Order):
    """Each epoch is a permutation of all rows; a last batch that would not be full is left out.

    So estimators of q(z) always see distinct rows. Each process takes every `processes`-th row, from its `rank` on.

    seed, stream: which permutations; further streams of one seed are independent
    """

    table: np.ndarray
    batch_size: int
    seed: int
    stream: int = 0

    def __post_init__(self) -> None:
        if len(self.table) < self.batch_size:
            raise DataError(
                f"the training split has {len(self.table)} observations and a batch {self.batch_size}: "
                f"set training.batch_size={len(self.table)} or less, or give more data"
            )

    def rows(self, step: int, rank: int = 0, processes: int = 1) -> np.ndarray:
        epoch, place = divmod(step, len(self.table) // self.batch_size)
        order = permutation(len(self.table), self.seed, self.stream, epoch)
        chosen = order[place * self.batch_size : (place + 1) * self.batch_size]
        return self.table[chosen[rank::processes]]


@lru_cache(maxsize=8)
def permutation(length: int, *seed: int) -> np.ndarray:
    """A permutation of 0 .. length - 1; the last few are remembered, since an epoch asks for one at each step."""
    order = np.random.default_rng(derive_seed(*seed)).permutation(length)
    order.setflags(write=False)
    return order
