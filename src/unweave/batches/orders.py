"""Orders for systems that need more than permutations: batches of groups, and batches with fixed shares of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unweave.base.errors import DataError, unknown_name
from unweave.base.seeding import derive_seed
from unweave.core.order import Order, permutation


@dataclass(frozen=True, eq=False)
class Grouped(Order):
    """Batches of whole groups, or of a few members of each; rows of a group follow one another.

    Each epoch is a permutation of the groups. A group belongs to one process: it is never divided.

    table:      (n,) row numbers
    groups:     (n,) the group of each row, any numbers; rows whose group is missing (NaN) are left out
    per_batch:  groups in a batch
    members:    most members of a group in a batch, drawn without replacement; None for whole groups
    """

    table: np.ndarray
    groups: np.ndarray
    per_batch: int
    members: int | None
    seed: int
    stream: int = 0

    def __post_init__(self) -> None:
        if len(self._members) < self.per_batch:
            raise DataError(
                f"the training split has {len(self._members)} groups and a batch {self.per_batch}: "
                f"set groups_per_batch={max(1, len(self._members))} or less, or give more groups"
            )

    @cached_property
    def _members(self) -> list[np.ndarray]:
        """Row numbers of each group."""
        known = np.flatnonzero(~np.isnan(np.asarray(self.groups, dtype=np.float64)))
        order = known[np.argsort(self.groups[known], kind="stable")]
        ends = np.flatnonzero(np.diff(self.groups[order])) + 1
        return np.split(self.table[order], ends) if len(order) else []

    def rows(self, step: int, rank: int = 0, processes: int = 1) -> np.ndarray:
        if self.per_batch < processes:
            raise DataError(
                f"{self.per_batch} groups in a batch cannot be shared out to {processes} processes: a group is never "
                f"divided; set groups_per_batch={processes} or more"
            )
        epoch, place = divmod(step, len(self._members) // self.per_batch)
        order = permutation(len(self._members), self.seed, self.stream, epoch)
        chosen = order[place * self.per_batch : (place + 1) * self.per_batch]
        # One generator per group: what a group gives does not depend on which process asks.
        parts = [
            self._some(self._members[group], derive_seed(self.seed, self.stream, step, int(group)))
            for group in chosen[rank::processes]
        ]
        return np.concatenate(parts)

    def _some(self, members: np.ndarray, seed: int) -> np.ndarray:
        if self.members is None or len(members) <= self.members:
            return members
        return members[np.random.default_rng(seed).choice(len(members), self.members, replace=False)]


@dataclass(frozen=True, eq=False)
class Shares(Order):
    """Batches with fixed shares of several sets of rows: a share rho of labelled ones, 1 - rho of the others.

    Each set is gone through in permutations of its own, one after the other. A share that is not a whole number of
    rows is kept over the steps: after t steps a set has given the whole part of t * share * batch_size rows, and the
    set with the largest share the rest.

    parts: (rows, share) of each set; shares add up to 1, a set with a share of 0 may be empty
    """

    parts: Sequence[tuple[np.ndarray, float]]
    batch_size: int
    seed: int
    stream: int = 0

    def __post_init__(self) -> None:
        shares = [share for _, share in self.parts]
        if min(shares) < 0 or abs(sum(shares) - 1) > 1e-9:
            raise DataError(f"the shares {shares} of a batch must not be negative and must add up to 1")
        for rows, share in self.parts:
            if share > 0 and not len(rows):
                raise DataError(f"a share {share:g} of each batch is to come from an empty set of rows: set it to 0")

    def _given(self, steps: int) -> list[int]:
        """How many rows each set has given after so many steps; together steps * batch_size."""
        shares = [share for _, share in self.parts]
        given = [math.floor(share * steps * self.batch_size + 1e-6) for share in shares]
        given[shares.index(max(shares))] += steps * self.batch_size - sum(given)
        return given

    def rows(self, step: int, rank: int = 0, processes: int = 1) -> np.ndarray:
        before, after = self._given(step), self._given(step + 1)
        parts = [
            self._sequence(number, rows, start, stop)
            for number, ((rows, _), start, stop) in enumerate(zip(self.parts, before, after, strict=True))
            if stop > start
        ]
        return np.concatenate(parts)[rank::processes]

    def _sequence(self, number: int, rows: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Places start .. stop - 1 of the endless sequence of permutations of a set."""
        chosen = []
        for epoch in range(start // len(rows), (stop - 1) // len(rows) + 1):
            order = permutation(len(rows), self.seed, self.stream, number, epoch)
            first = epoch * len(rows)
            chosen.append(order[max(start - first, 0) : stop - first])
        return rows[chosen[0] if len(chosen) == 1 else np.concatenate(chosen)]


def group_numbers(values: np.ndarray) -> np.ndarray:
    """(n,) numbers 0 .. G - 1 of any (n,) group values, in the order in which they first appear."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def grouping_factor(labels: dict[str, int] | None, wanted: str) -> str:
    """The factor that groups the data: the one wanted, else one called "group", else the only discrete one.

    labels: name -> number of values, 0 for a continuous factor, as in DataSpec.labels
    """
    labels = labels or {}
    discrete = [name for name, count in labels.items() if count]
    if wanted:
        if wanted not in labels:
            raise unknown_name("factor", wanted, labels)
        if wanted not in discrete:
            raise DataError(
                f"factor {wanted!r} is continuous and cannot group observations: choose one of "
                f"{', '.join(discrete) or 'no factor: there is no discrete one'}"
            )
        return wanted
    if "group" in discrete:
        return "group"
    if len(discrete) == 1:
        return discrete[0]
    if not discrete:
        raise DataError(
            "the data have no groups: give a table with a discrete column (data.factors=TABLE), a folder's sub-folders "
            "(data.folder_factor=NAME), or data.with_groups(...) in Python"
        )
    raise DataError(f"several factors could group the data, {', '.join(discrete)}: choose one with group=NAME")
