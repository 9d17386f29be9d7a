"""Signals that end a program, while a run is trained: seen between two steps, and what was done is saved first."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

# Ctrl-C; what `kill`, schedulers and shutdowns send; a closed terminal; Ctrl-Break on Windows.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended training, after what was done had been saved."""


class Stop:
    """Whether a signal came.

    signal: the first one that came, None before
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def end(self, line: str) -> None:
        """End as the signal would have: KeyboardInterrupt for Ctrl-C, else the exit code 128 + its number."""
        assert self.signal is not None
        if self.signal is signal.SIGINT:
            raise Interrupted(line)
        raise SystemExit(128 + self.signal)


@contextlib.contextmanager
def stopping() -> Iterator[Stop]:
    """While it lasts signals are noted and do nothing; a Ctrl-C after the first signal ends at once.

    Signals that the program ignores stay ignored. Python hears signals in its main thread: elsewhere nothing is done.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}

    def note(number: int, frame: FrameType | None) -> None:
        if stop.signal is None:
            stop.signal = signal.Signals(number)
            if before[signal.SIGINT] is not None:
                signal.signal(signal.SIGINT, before[signal.SIGINT])

    ours = [number for number in numbers if before[number] not in (signal.SIG_IGN, None)]
    for number in ours:
        signal.signal(number, note)
    try:
        yield stop
    finally:
        for number in ours:
            signal.signal(number, before[number])
