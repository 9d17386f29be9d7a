"""The one type all data come as: observations by row number, with factors where they are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from unweave.core.card import Card
from unweave.core.config import Config
from unweave.core.dataspec import DataSpec
from unweave.core.errors import DataError
from unweave.core.factors import Factors
from unweave.core.registry import Registry

Rows = Sequence[int] | np.ndarray


@dataclass(frozen=True, eq=False)
class DataSet:
    """N observations, read by row number.

    name:    what it is called in runs and reports
    spec:    shape, range and number of observations
    read:    rows (n,) -> observations (n, *spec.shape), float32; must not keep or change what it returns
    factors: K ground-truth factors of all N rows, or None
    notes:   what was found and done on reading (range, scaling, channel order), shown to the user
    """

    name: str
    spec: DataSpec
    read: Callable[[np.ndarray], np.ndarray]
    factors: Factors | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if self.factors is not None and len(self.factors) != self.spec.size:
            raise DataError(
                f"factor table has {len(self.factors)} rows and {self.name} {self.spec.size} observations: "
                "give one row per observation, in the same order"
            )

    def __len__(self) -> int:
        return self.spec.size

    def observations(self, rows: Rows) -> np.ndarray:
        """(n, *spec.shape) float32 observations of the given rows."""
        rows = np.asarray(rows, dtype=np.int64)
        if rows.size and (rows.min() < 0 or rows.max() >= len(self)):
            wrong = int(rows.min()) if rows.min() < 0 else int(rows.max())
            raise DataError(f"there is no row {wrong} in {self.name}: it has rows 0 to {len(self) - 1}")
        return self.read(rows)

    def take(self, rows: Rows) -> DataSet:
        """The data set of these rows only."""
        rows = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            spec=replace(self.spec, size=len(rows)),
            read=lambda inner: self.read(rows[inner]),
            factors=None if self.factors is None else self.factors.take(rows),
        )


class DataSource(Config, ABC):
    """Where data come from: typed settings and a `load`. One subclass per data set, found by the registry."""

    name: ClassVar[str]
    card: ClassVar[Card]

    @abstractmethod
    def load(self) -> DataSet:
        """Read, render or download the data; raises DataError with the file and the remedy when it cannot."""


def _is_source(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, DataSource) and value is not DataSource


DATA: Registry[type[DataSource]] = Registry("data set", "unweave.data", _is_source, lambda value: value.name)
