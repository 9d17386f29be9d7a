"""How many of the cores this process may use other programs hold.

    others = (busy time of these cores - processor time of this process) / time

from the kernel's own counters (/proc/stat on Linux). The rate of steps alone cannot tell that a neighbour has left:
with one thread a step takes as long beside it as without.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from unweave.runs.manifest import usable_cores

STAT = Path("/proc/stat")
SESSIONS = Path("/proc/sys/kernel/sched_autogroup_enabled")
POLL, SPAN = 0.2, 0.4
"""Seconds from one look at the counters to the next, and that a difference spans at least: they count in 1/100."""
# Columns of /proc/stat after the name: user, nice, system, idle, iowait, irq, softirq, steal.
_BUSY, _NICE, _ALL = (0, 2, 5, 6, 7), 1, 8


class Others:
    """What others use, looked up a few times a second however often it is asked for.

    cores:  how many this process may use
    clock:  seconds
    ours:   processor seconds of this process, all its threads
    """

    def __init__(
        self,
        stat: Path = STAT,
        sessions: Path = SESSIONS,
        clock: Callable[[], float] = time.monotonic,
        ours: Callable[[], float] = time.process_time,
    ) -> None:
        self.cores = usable_cores()
        self._stat, self._clock, self._ours = stat, clock, ours
        self._counted = _BUSY if _polite(sessions) else (*_BUSY, _NICE)
        self._looks: deque[tuple[float, float, float, float]] = deque()  # clock, busy, all, ours
        self._value: float | None = None
        self.available = self._look()

    def held(self) -> float | None:
        """Cores that others held lately, such as 0.7; None where the system does not say, and in the first moment."""
        now = self._clock()
        if self.available and now - self._looks[-1][0] >= POLL:
            self.available = self._look()
            while len(self._looks) > 2 and self._looks[-1][0] - self._looks[1][0] >= SPAN:
                self._looks.popleft()
            self._update()
        return self._value if self.available else None

    def _update(self) -> None:
        (began, busy, all_, ours), (now, busy_now, all_now, ours_now) = self._looks[0], self._looks[-1]
        span = now - began
        if span < SPAN:
            return
        # A sandbox's counters may stand still or run wild, and a machine may have been stopped.
        sane = 0.5 < (all_now - all_) / (span * self.cores) < 2
        self._value = max(0.0, (busy_now - busy - (ours_now - ours)) / span) if sane else None

    def _look(self) -> bool:
        """Take down the counters; False where there are none."""
        try:
            mine = os.sched_getaffinity(0)
            lines = (line.split() for line in self._stat.read_text(encoding="ascii").splitlines())
            cores = [words[1 : 1 + _ALL] for words in lines if words and _core(words[0]) in mine]
            columns = [sum(map(int, column)) / os.sysconf("SC_CLK_TCK") for column in zip(*cores, strict=True)]
            busy = sum(columns[each] for each in self._counted)
        except (OSError, AttributeError, ValueError, IndexError):
            return False
        self._looks.append((self._clock(), busy, sum(columns), self._ours()))
        return True


def _polite(sessions: Path) -> bool:
    """Whether programs that are nice give way to us: not when we are nice too, nor where Linux shares the cores between
    sessions first, whatever is nice within each.
    """
    try:
        return os.nice(0) <= 0 and sessions.read_text(encoding="ascii").strip() == "0"
    except (OSError, AttributeError):
        return False


def _core(name: str) -> int | None:
    """The number of a core from the name of its line; the first line, `cpu`, has the sums of all cores."""
    return int(name[3:]) if name[:3] == "cpu" and name[3:].isdigit() else None
