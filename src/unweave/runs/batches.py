"""The order in which data are seen: a pure function of (seed, step), so that a run can stop and go on anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from unweave.core.batch import Batch
from unweave.core.errors import DataError
from unweave.core.seeding import derive_seed
from unweave.data import DataSet


@dataclass(frozen=True)
class Batches:
    """The batches of steps `start` .. `stop` - 1.

    Each epoch is a permutation of the rows, drawn from (seed, stream, epoch); a last batch that would not be full is
    left out, so that estimators of q(z) always see distinct rows. Further streams (`extra`) are permuted on their own.

    With several processes each takes every `processes`-th row of the joint batch, starting at its own `rank`.
    """

    dataset: DataSet
    rows: np.ndarray
    batch_size: int
    seed: int
    start: int
    stop: int
    extra: tuple[str, ...] = ()
    rank: int = 0
    processes: int = 1

    def __post_init__(self) -> None:
        if len(self.rows) < self.batch_size:
            raise DataError(
                f"the training split of {self.dataset.name} has {len(self.rows)} observations and a batch "
                f"{self.batch_size}: set training.batch_size={len(self.rows)} or less, or give more data"
            )

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[Batch]:
        streams = [self._stream(number) for number in range(1 + len(self.extra))]
        for _ in range(len(self)):
            first, *others = (next(stream) for stream in streams)
            extra = {name: self._batch(rows) for name, rows in zip(self.extra, others, strict=True)}
            yield self._batch(first, extra)

    def _stream(self, number: int) -> Iterator[np.ndarray]:
        """Row numbers of one batch after the other."""
        per_epoch = len(self.rows) // self.batch_size
        step = self.start
        while True:
            epoch, within = divmod(step, per_epoch)
            order = np.random.default_rng(derive_seed(self.seed, number, epoch)).permutation(len(self.rows))
            for place in range(within, per_epoch):
                chosen = order[place * self.batch_size : (place + 1) * self.batch_size]
                yield self.rows[chosen[self.rank :: self.processes]]
                step += 1

    def _batch(self, rows: np.ndarray, extra: dict[str, Batch] | None = None) -> Batch:
        return Batch(
            rows=len(rows),
            x=torch.from_numpy(self.dataset.observations(rows)),
            index=torch.from_numpy(rows),
            extra=extra or {},
        )
