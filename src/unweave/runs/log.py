"""The log of a run: one CSV row per interval, and the same numbers as TensorBoard events."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unweave.core.errors import RunError
from unweave.core.files import write_text
from unweave.core.shell import quoted


class TrainingLog:
    """Appends rows `step, seconds, term, ...`; rows after `start` (of a run that was killed) are removed first."""

    def __init__(self, path: Path, tensorboard: Path, start: int):
        from tensorboardX import SummaryWriter

        self.path = path
        self._columns: list[str] | None = None
        self.seconds_before = 0.0
        if path.exists():
            self._keep_until(start)
        self._writer = SummaryWriter(str(tensorboard), purge_step=start or None, flush_secs=30)

    def _keep_until(self, start: int) -> None:
        columns = read_log(self.path)
        kept = [row for row in range(len(columns["step"])) if columns["step"][row] <= start]
        if not kept:
            self.path.unlink()
            return
        self.seconds_before = float(columns["seconds"][kept[-1]])
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
        """Add the means of an interval that ends with `step`."""
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
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if self._columns is None:
                self._columns = ["step", "seconds", *values]
                writer.writerow(self._columns)
            row = {"step": step, "seconds": round(self.seconds_before + seconds, 3), **values}
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
