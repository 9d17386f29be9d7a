"""Batches: rows of a data set with everything a system reads of them, in a system's order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from unweave.base.errors import DataError
from unweave.batches.orders import group_numbers
from unweave.core.batch import Batch
from unweave.core.order import Order, Reads
from unweave.core.trace import Given

if TYPE_CHECKING:
    from unweave.data import DataSet

NOTHING = Reads()
LabelColumn = tuple[np.ndarray, np.ndarray]


def assemble(
    dataset: DataSet,
    rows: np.ndarray,
    reads: Reads = NOTHING,
    usable: Mapping[str, np.ndarray] | None = None,
    groups: np.ndarray | None = None,
    labels: Mapping[str, LabelColumn] | None = None,
) -> Batch:
    """The batch of these rows: observations, row numbers, and the factors that are read as groups and labels.

    usable: label name -> (N,) bool, rows of the data set whose label may be used; all when not named
    groups: (n,) groups of these rows, in place of the factor that is read
    labels: what `label_columns` gave, where many batches are made of the same data
    """
    if groups is None and reads.group is not None:
        groups = _column(dataset, reads.group)[rows]
        if np.isnan(groups).any():
            row = int(rows[np.isnan(groups).argmax()])
            raise DataError(f"row {row} of {dataset.name} belongs to no group: its {reads.group!r} is missing; give it")
    columns = label_columns(dataset, reads, usable or {}) if labels is None else labels
    return Batch(
        rows=len(rows),
        x=torch.from_numpy(dataset.observations(rows)),
        index=torch.from_numpy(rows),
        labels={
            name: Given(torch.from_numpy(values[rows]), torch.from_numpy(known[rows]))
            for name, (values, known) in columns.items()
        },
        group=None if groups is None else torch.from_numpy(group_numbers(groups)),
    )


def label_columns(dataset: DataSet, reads: Reads, usable: Mapping[str, np.ndarray]) -> dict[str, LabelColumn]:
    """Label name -> (N,) values and (N,) bool, rows of the data set whose label is known and may be used."""
    columns = {}
    for name in reads.labels:
        values = _column(dataset, name)
        known = ~np.isnan(values)
        if name in usable:
            known &= usable[name]
        # What is not known is zero, not the truth: a system that forgets the mask must not learn from it.
        columns[name] = np.where(known, values, 0.0).astype(np.float32), known
    return columns


def _column(dataset: DataSet, name: str) -> np.ndarray:
    if dataset.factors is None:
        raise DataError(f"{dataset.name} has no factors and {name!r} is needed: give a table of factors with the data")
    return dataset.factors.column(name)


@dataclass(frozen=True)
class Batches:
    """The batches of steps `start` .. `stop` - 1.

    orders: the order of the batches, then one for each name in `extra`
    reads:  what the batches carry besides observations; `usable` as in `assemble`
    """

    dataset: DataSet
    orders: Sequence[Order]
    start: int
    stop: int
    extra: tuple[str, ...] = ()
    reads: Reads = NOTHING
    usable: Mapping[str, np.ndarray] = field(default_factory=dict)
    rank: int = 0
    processes: int = 1

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[Batch]:
        for step in range(self.start, self.stop):
            first, *others = (self._batch(order.rows(step, self.rank, self.processes)) for order in self.orders)
            yield replace(first, extra=dict(zip(self.extra, others, strict=True))) if others else first

    def _batch(self, rows: np.ndarray) -> Batch:
        return assemble(self.dataset, rows, self.reads, labels=self._labels)

    @cached_property
    def _labels(self) -> dict[str, LabelColumn]:
        return label_columns(self.dataset, self.reads, self.usable)
