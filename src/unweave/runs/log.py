"""The log of a run: one CSV row per interval, and the same numbers as TensorBoard events."""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unweave.base.errors import RunError
from unweave.base.files import write_text
from unweave.base.shell import quoted

if TYPE_CHECKING:
    from torch import Tensor


class Tally:
    """What the next row of the log is made of: the terms of the steps since the row before, and the time so far.

    A checkpoint keeps it, so that the row after a resume is the one that would have been written anyway.

    values:  term -> its value at each step; a player that rests has none at a step
    seconds: of training before this process began
    """

    def __init__(self, values: Mapping[str, list[Tensor]] | None = None, seconds: float = 0.0) -> None:
        self.values: dict[str, list[Tensor]] = dict(values or {})
        self._before, self._began = seconds, time.perf_counter()

    @property
    def seconds(self) -> float:
        """Of training, over all processes that had a part in it."""
        return self._before + time.perf_counter() - self._began

    def add(self, record: Mapping[str, Tensor]) -> None:
        """Put the terms of a step aside; they are added up where the interval ends."""
        for name, value in record.items():
            self.values.setdefault(name, []).append(value)

    def take(self) -> dict[str, float]:
        """The means so far; the next interval begins."""
        import torch

        means = {name: float(torch.stack(values).mean()) for name, values in self.values.items()}
        self.values = {}
        return means


class TrainingLog:
    """Appends rows `step, seconds, term, ...`; those after step `start`, of a killed process, are removed first."""

    def __init__(self, path: Path, tensorboard: Path, start: int):
        from tensorboardX import SummaryWriter

        self.path = path
        self._columns: list[str] | None = None
        again = path.exists()
        if again:
            self._keep_until(start)
        # Named by the step, since two of one second would have one name; events after it are those of a killed process.
        purge = start + 1 if again else None
        self._writer = SummaryWriter(str(tensorboard), purge_step=purge, flush_secs=30, filename_suffix=f".{start}")

    def _keep_until(self, start: int) -> None:
        columns = read_log(self.path)
        kept = [row for row in range(len(columns["step"])) if columns["step"][row] <= start]
        if not kept:
            self.path.unlink()
            return
        self._rewrite({name: column[kept] for name, column in columns.items()})

    def _rewrite(self, columns: Mapping[str, np.ndarray]) -> None:
        self._columns = list(columns)
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(self._columns)
        for row in range(len(columns["step"])):
            writer.writerow([_number(columns[name][row]) for name in self._columns])
        write_text(self.path, text.getvalue())

    def append(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """Add the means of an interval that ends with `step`, after so many seconds of training."""
        try:
            self._write(step, seconds, values)
        except OSError as error:
            raise RunError(
                f"cannot write {self.path}: {error.strerror or error}; the last good checkpoint is kept: make room, "
                f"then `unweave resume {quoted(self.path.parent)}`"
            ) from error
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def _write(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        fresh = [name for name in values if self._columns is not None and name not in self._columns]
        if fresh:  # a term that first plays later in training: the rows before have no value for it
            before = read_log(self.path)
            self._rewrite({**before, **{name: np.full(len(before["step"]), np.nan) for name in fresh}})
        # Only the first row makes the file: one that was removed meanwhile would come back without its beginning.
        with self.path.open("x" if self._columns is None else "r+", newline="", encoding="utf-8") as file:
            file.seek(0, os.SEEK_END)
            writer = csv.writer(file)
            if self._columns is None:
                self._columns = ["step", "seconds", *values]
                writer.writerow(self._columns)
            row = {"step": step, "seconds": round(seconds, 3), **values}
            writer.writerow([_number(row.get(name, "")) for name in self._columns])

    def close(self) -> None:
        self._writer.close()

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _number(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return "" if np.isnan(value) else f"{value:.9g}"


def read_log(path: Path) -> dict[str, np.ndarray]:
    """Columns of a log; a row cut short by a kill is left out."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
    except OSError as error:
        raise RunError(f"cannot read the log {path}: {error.strerror}") from None
    if not rows:
        return {"step": np.zeros(0), "seconds": np.zeros(0)}
    header, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    try:
        return {
            name: np.array([float(row[number]) if row[number] else np.nan for row in body])
            for number, name in enumerate(header)
        }
    except ValueError:
        raise RunError(f"the log {path} is damaged: a cell is not a number; remove the file and resume") from None
