"""Ground-truth factors of a data set: named columns, discrete or continuous, some values possibly missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unweave.base.errors import DataError, unknown_name

FactorKind = Literal["discrete", "continuous"]


@dataclass(frozen=True, eq=False)
class Factors:
    """K factors of N observations.

    names:  K column names
    values: (N, K) float64; discrete factors hold whole numbers 0, 1, ...; NaN where the value is missing
    kinds:  "discrete" or "continuous" for each column
    labels: for each column the names of its discrete values, or None
    """

    names: tuple[str, ...]
    values: np.ndarray
    kinds: tuple[FactorKind, ...]
    labels: tuple[tuple[str, ...] | None, ...] = ()

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 2:
            raise DataError(f"factors have shape {values.shape}: expected two axes (observations, factors)")
        if not values.shape[1] == len(self.names) == len(self.kinds):
            raise DataError(
                f"factors have {values.shape[1]} columns, {len(self.names)} names and {len(self.kinds)} kinds: "
                "give one name and one kind per column"
            )
        if len(set(self.names)) != len(self.names):
            raise DataError(f"two factors have the same name: {', '.join(self.names)}")
        if np.isinf(values).any():
            column = self.names[int(np.isinf(values).any(axis=0).argmax())]
            raise DataError(f"factor {column!r} has infinite values: use an empty cell or NaN for a missing value")
        values = values.copy()
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "labels", tuple(self.labels) or (None,) * len(self.names))

    def __len__(self) -> int:
        """The number of observations N."""
        return self.values.shape[0]

    def column(self, name: str) -> np.ndarray:
        """(N,) values of one factor."""
        return self.values[:, self.position(name)]

    def position(self, name: str) -> int:
        if name not in self.names:
            raise unknown_name("factor", name, self.names)
        return self.names.index(name)

    def counts(self) -> dict[str, int]:
        """Name -> number of values of a discrete factor (of its labels where it has them), 0 for a continuous one."""
        counts = {}
        for name, column, kind, labels in zip(self.names, self.values.T, self.kinds, self.labels, strict=True):
            largest = np.nanmax(column) if (~np.isnan(column)).any() else -1
            counts[name] = 0 if kind == "continuous" else max(len(labels or ()), int(largest) + 1)
        return counts

    def take(self, rows: Sequence[int] | np.ndarray) -> Factors:
        return Factors(self.names, self.values[np.asarray(rows, dtype=np.int64)], self.kinds, self.labels)

    def select(self, names: Iterable[str]) -> Factors:
        """The named columns, in the order given."""
        names = tuple(names)
        columns = [self.position(name) for name in names]
        return Factors(
            names,
            self.values[:, columns],
            tuple(self.kinds[column] for column in columns),
            tuple(self.labels[column] for column in columns),
        )
