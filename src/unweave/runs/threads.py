"""How many threads each step of a run has: as many as were asked for, or chosen while it trains and kept with it.

Sums in another order differ in the last bit, so which numbers a run gives may depend on its threads. Where they are
chosen the file threads.csv says what was used from which step on, the first step being 1 as in log.csv:

    step,threads
    1,1
    38,2

A line is written before its step is made. So a run that was killed repeats what it did: steps that the file or the log
tells of get the threads they had, and only for later ones is chosen anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch

from unweave.base.errors import RunError
from unweave.base.files import write_text
from unweave.base.shell import quoted
from unweave.runs.chooser import Chooser
from unweave.runs.log import read_log
from unweave.runs.manifest import Manifest, usable_cores
from unweave.runs.others import Others
from unweave.runs.writer import Writer

RECORD = "threads.csv"
HEADER = "step,threads"
SILENCE = 60.0
"""Seconds at least between two lines about cores that others take."""


class Threads(Protocol):
    """Asked before and after each step."""

    def begin(self, step: int) -> None:
        """Give the step its threads; the first one is 1."""

    def end(self) -> None:
        """The step is made."""

    def sync(self) -> None:
        """Before a checkpoint is written: what it was made with must reach the disk first."""


def threads_of(manifest: Manifest, writer: Writer, tell: Callable[[str], None]) -> Threads:
    """The threads of a run. To be called before its log is opened, which forgets what a killed process did.

    tell: where a line for the person at the terminal goes
    """
    if manifest.threads is not None or manifest.device != "cpu":  # an accelerator's arithmetic does not depend on them
        return Fixed(manifest.threads or most_threads())
    record = Record(writer.folder / RECORD, writer.check)
    return Chosen(record, max(record.last_step, _last_logged(writer.folder / "log.csv")), tell)


def used(manifest: Manifest, folder: Path) -> list[int]:
    """The counts of threads that a run has had, in their order; [1] where its record is gone."""
    if manifest.threads is not None:
        return [manifest.threads]
    return [threads for _, threads in Record(folder / RECORD).lines] or [1]


def most_threads() -> int:
    """The cores this process may use; at most 8, small networks do not gain from more; fewer if OMP_NUM_THREADS is."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(usable_cores(), 8, max(1, int(asked)) if asked.isdigit() else 8)


class Fixed:
    """The same for every step; nothing is measured or written."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)

    def begin(self, step: int) -> None:
        pass

    def end(self) -> None:
        pass

    def sync(self) -> None:
        pass


class Chosen:
    """As recorded until step `until`, then chosen.

    record:  what was used; told of every change before it is made
    chooser: makes the choice
    others:  what other programs hold of the cores
    """

    def __init__(
        self,
        record: Record,
        until: int,
        tell: Callable[[str], None],
        chooser: Chooser | None = None,
        others: Others | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.record, self.until = record, until
        self.others = others or Others()
        self.chooser = chooser or Chooser(most_threads(), self.others.cores)
        self._tell, self._clock = tell, clock
        self._began, self._told, self._silent_until = 0.0, 0, 0.0
        self._threads, self._repeats = 0, False

    def begin(self, step: int) -> None:
        self._repeats = step <= self.until
        threads = (self.record.at(step) if self._repeats else None) or self.chooser.threads
        if threads != self._threads:
            if not self._repeats or self.record.at(step) is None:
                self.record.add(step, threads)
            torch.set_num_threads(threads)
            self._threads = threads
        self._began = self._clock()

    def end(self) -> None:
        now = self._clock()
        if not self._repeats:
            self.chooser.made(now - self._began, now, self.others.held())
            self._say(now)

    def sync(self) -> None:
        self.record.sync()

    def _say(self, now: float) -> None:
        """One line when the cores that are left become fewer than could be used, or enough again."""
        chooser = self.chooser
        if chooser.limit == self._told or now < self._silent_until:
            return
        before, self._told = self._told or chooser.most, chooser.limit
        if chooser.limit < chooser.most:
            taken = "1 core is" if chooser.taken == 1 else f"{chooser.taken} cores are"
            left = "1 thread" if chooser.limit == 1 else f"at most {chooser.limit} threads"
            self._tell(f"{taken} taken by other programs: training goes on with {left}")
        elif before < chooser.most:
            self._tell(f"the cores are free again: training goes on with up to {chooser.most} threads")
        else:
            return
        self._silent_until = now + SILENCE


class Record:
    """The file threads.csv; of a line that a kill cut short nothing is read.

    lines: (step, threads), in the order in which they were written
    check: of who writes: raises where nothing may be written any more
    """

    def __init__(self, path: Path, check: Callable[[], None] | None = None) -> None:
        self.path, self._check = path, check
        self.lines: list[tuple[int, int]] = []
        if not path.exists():
            return
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise RunError(f"cannot read {path}: {error.strerror}") from None
        whole, end, torn = text.rpartition("\n")
        try:
            self.lines = [_line(line) for line in whole.splitlines()[1:]]
        except ValueError:
            raise RunError(
                f"{path} is damaged: a line is not `{HEADER}` as two numbers; remove it, and threads are chosen anew"
            ) from None
        if torn and check is not None:
            write_text(path, whole + end)

    @property
    def last_step(self) -> int:
        """The last one that a line is about; 0 where there is none."""
        return max((step for step, _ in self.lines), default=0)

    def at(self, step: int) -> int | None:
        """The threads of a step; None where no line tells."""
        before = [line for line in self.lines if line[0] <= step]
        return max(before, key=lambda line: line[0])[1] if before else None

    def add(self, step: int, threads: int) -> None:
        """Say that from a step on there are so many threads."""
        if self._check is not None:
            self._check()
        try:
            with self.path.open("a" if self.lines else "w", encoding="utf-8") as file:
                file.write(f"{step},{threads}\n" if self.lines else f"{HEADER}\n{step},{threads}\n")
        except OSError as error:
            raise RunError(
                f"cannot write {self.path}: {error.strerror or error}; the last good checkpoint is kept: make room, "
                f"then `unweave resume {quoted(self.path.parent)}`"
            ) from error
        self.lines.append((step, threads))

    def sync(self) -> None:
        """Wait until the lines are on the disk."""
        if self.path.exists():
            with self.path.open("rb") as file:
                os.fsync(file.fileno())


def _line(line: str) -> tuple[int, int]:
    step, threads = map(int, line.split(","))
    if step < 1 or threads < 1:
        raise ValueError(line)
    return step, threads


def _last_logged(path: Path) -> int:
    logged = read_log(path)["step"] if path.exists() else ()
    return int(max(logged, default=0))
