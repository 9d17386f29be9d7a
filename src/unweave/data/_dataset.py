"""The one type all data come as: observations by row number, with factors where they are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from unweave.base.card import Card
from unweave.base.config import Config
from unweave.base.errors import DataError
from unweave.base.registry import Registry
from unweave.core.dataspec import DataSpec
from unweave.core.factors import Factors
from unweave.data._fitting import Fitted, middle

Rows = Sequence[int] | np.ndarray


def row_numbers(rows: Rows) -> np.ndarray:
    """(n,) whole numbers, as they were given."""
    array = np.asarray(rows)
    if array.size and array.dtype.kind not in "iu":
        raise DataError(f"rows are of type {array.dtype}: give whole numbers, such as [0, 5, 7]")
    return array.astype(np.int64)


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
        rows = row_numbers(rows)
        if rows.size and not 0 <= (lowest := rows.min()) <= (highest := rows.max()) < len(self):
            wrong = int(lowest) if lowest < 0 else int(highest)
            raise DataError(f"there is no row {wrong} in {self.name}: it has rows 0 to {len(self) - 1}")
        return self.read(rows)

    def take(self, rows: Rows) -> DataSet:
        """The data set of these rows only."""
        rows = row_numbers(rows)
        return replace(
            self,
            spec=replace(self.spec, size=len(rows)),
            read=lambda inner: self.read(rows[inner]),
            factors=None if self.factors is None else self.factors.take(rows),
        )

    def with_groups(
        self, by: np.ndarray | Sequence[Sequence[int]] | Callable[[int], Any], name: str = "group"
    ) -> DataSet:
        """The same data with a discrete factor that says which group each observation belongs to.

        by: (N,) one value per row, equal for the members of a group; or a partition, a list of lists of row numbers;
            or a function from row number to such a value
        """
        if callable(by):
            values = [by(row) for row in range(len(self))]
        elif len(by) and not np.isscalar(by[0]) and np.ndim(by[0]) == 1:
            values = self._partition([np.asarray(rows, dtype=np.int64) for rows in by])
        else:
            values = list(np.asarray(by))
        if len(values) != len(self):
            raise DataError(f"{len(values)} groups were given for the {len(self)} observations of {self.name}")
        keys = {key: number for number, key in enumerate(dict.fromkeys(values))}
        column = np.array([keys[key] for key in values], dtype=np.float64)[:, None]
        labels = tuple(map(str, keys))
        if self.factors is None:
            return replace(self, factors=Factors((name,), column, ("discrete",), (labels,)))
        known = self.factors
        if name in known.names:
            raise DataError(f"{self.name} has a factor {name!r} already: give the groups another name")
        return replace(
            self,
            factors=Factors(
                (*known.names, name),
                np.concatenate([known.values, column], axis=1),
                (*known.kinds, "discrete"),
                (*known.labels, labels),
            ),
        )

    def _partition(self, groups: list[np.ndarray]) -> list[int]:
        """(N,) group numbers from lists of rows; each row must be in exactly one."""
        owner = np.full(len(self), -1)
        for number, rows in enumerate(groups):
            if not len(rows):
                raise DataError(f"group {number} is empty: leave it out, or give it at least one row")
            if rows.min() < 0 or rows.max() >= len(self):
                raise DataError(f"group {number} has row {rows.max()}: {self.name} has rows 0 to {len(self) - 1}")
            if (owner[rows] >= 0).any() or len(np.unique(rows)) < len(rows):
                raise DataError(f"group {number} has a row that is in a group already: groups share no rows")
            owner[rows] = number
        if (owner < 0).any():
            raise DataError(f"row {int((owner < 0).argmax())} of {self.name} is in no group: each row needs one")
        return [int(number) for number in owner]


class DataSource(Config, ABC):
    """Where data come from: typed settings and a `load`. One subclass per data set, found by the registry."""

    name: ClassVar[str]
    card: ClassVar[Card]

    @abstractmethod
    def load(self) -> DataSet:
        """Read, render or download the data; raises DataError with the file and the remedy when it cannot."""

    def fit(self, picture: Any, height: int, width: int) -> Fitted:
        """A picture of another size as these data would have it, and in words what was done."""
        return middle(picture, height, width)

    def mode(self, mode: str) -> str | None:
        """The mode of Pillow in which these data read a picture of this mode; None where they read no pictures."""
        return None


def _is_source(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, DataSource) and value is not DataSource


DATA: Registry[type[DataSource]] = Registry("data set", "unweave.data", _is_source, lambda value: value.name)
