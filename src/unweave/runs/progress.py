"""Progress of long work on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


def say(line: str) -> None:
    """A line for the person at the terminal, above the progress bar. It may be closed, and the work goes on."""
    from tqdm import tqdm

    with suppress(OSError):
        tqdm.write(line, file=sys.stderr)
        sys.stderr.flush()


def bar(title: str, total: int, initial: int = 0, unit: str = "step") -> Any:
    """A tqdm bar that redraws often on a terminal and writes few lines into a file."""
    from tqdm import tqdm

    interval = 0.2 if sys.stderr.isatty() else 15.0
    return tqdm(total=total, initial=initial, desc=title, unit=unit, mininterval=interval)


@contextmanager
def score_bar(show: bool = True) -> Iterator[Callable[[str, int, int], None] | None]:
    """What `unweave.metrics.evaluate` calls with (score, its number, how many there are); None when nothing is shown.

    The bar's line ends with it, so that an error has a line of its own.
    """
    shown: dict[str, Any] = {}

    def advance(name: str, number: int, total: int) -> None:
        if "bar" not in shown:
            shown["bar"] = bar("scoring", total, unit="score")
        shown["bar"].update(number - shown["bar"].n)
        shown["bar"].set_postfix_str(name, refresh=True)

    try:
        yield advance if show else None
    finally:
        if "bar" in shown:
            shown["bar"].close()
