"""How many threads a step gets, chosen by measuring steps while they are made.

More threads are quicker while the cores are free. Beside other programs they are slower, by far: at the end of every
operation they wait for the one whose core somebody else has, and burn the others' time meanwhile. So

- no count is used that is above the cores that others leave, as far as the system tells what they hold;
- of the rest the quickest is found by trials, a few steps with each count, from the present one up and down as long as
  steps get quicker: at the start; when more cores are free than ever before; when steps take another time than they
  did; and now and then, less and less often while nothing comes of it. When cores are free again, what was best with
  so many is best again, until the next trial.

All of it follows from what `made` is told: no clock and no processor is asked here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

LEAD_SECONDS = 0.1
"""Of each count, not measured: its threads begin and find their cores. One step at least."""
TRIAL_STEPS, TRIAL_SECONDS = 3, 0.2
"""Measured of each count in a trial, both at least."""
HOPELESS, GRACE = 3.0, 0.25
"""A count is given up when its steps take so many times as long as the quickest one's, and so many seconds more."""
BETTER = 0.95
"""Another count is taken when its steps take less than this share of the present one's."""
WINDOW_STEPS, WINDOW_SECONDS = 2, 0.5
"""What the time of a step is outside of trials: the mean over so many, both at least."""
CHANGED = 1.25
"""Steps take another time when they take so many times as long, or as short, in two windows one after the other."""
PAUSE, LONGEST_PAUSE, TRIALS_OF_PAUSE = 5.0, 60.0, 10.0
"""Seconds from a trial to the next without a reason, doubled whenever a trial changed nothing; never less than so many
times as long as the last trial took."""
REACTION = 0.1
"""The share of the pause after which another time of a step is reason enough."""
TAKEN, FREE = 0.4, 0.25
"""One more core is taken when others hold more than this of it, and free again when they hold less than that."""
FREE_SECONDS = 0.8
"""A core must be free for so long before it is used again."""


class Chooser:
    """The number of threads of the next step.

    most:    never more
    cores:   how many this process may use, some of which others may hold
    threads: of the next step
    taken:   cores that others hold, in whole numbers
    """

    def __init__(self, most: int, cores: int, threads: int = 1) -> None:
        self.most, self.cores, self.threads, self.taken = most, cores, threads, 0
        self._free_since: float | None = None  # since when others hold fewer than `taken`
        self._settling = True
        self._stretch = _Stretch()
        self._trial: _Trial | None = None
        self._trial_seconds = 0.0  # that the last one took
        self._best: dict[int, int] = {}  # limit -> the count that the last trial with it chose
        self._usual: float | None = None  # seconds of a step with this count
        self._changes = 0  # windows in a row in which it was another
        self._pause, self._since = PAUSE, -math.inf

    @property
    def limit(self) -> int:
        """The largest count with a core for every thread."""
        return max(1, min(self.most, self.cores - self.taken))

    def made(self, seconds: float, now: float, held: float | None) -> None:
        """Learn how long the last step took, and choose for the next.

        now:  seconds on any clock
        held: cores that others hold; None where that is not known
        """
        before = self.limit
        self._count_taken(held, now)
        self._stretch.add(seconds)
        if self._settling:
            # The first steps prepare what later ones use; what others hold is known soon if it is ever.
            if len(self._stretch.times) >= TRIAL_STEPS and (held is not None or self._stretch.seconds > WINDOW_SECONDS):
                self._settling = False
                self._use(min(self.threads, self.limit))
                self._begin(True, now)
        elif self.limit < self.threads:
            self._end(self.limit, None, now)
        elif self.limit > before and self.limit in self._best:
            self._end(self._best[self.limit], None, now)
        elif self.limit > before:
            self._begin(True, now)
        elif self._trial is not None:
            self._try(self._trial, now)
        else:
            self._watch(now)

    def _count_taken(self, held: float | None, now: float) -> None:
        """More are taken at once, fewer after a while: little is gained from a core that comes and goes."""
        held = min(held or 0.0, self.cores)
        self.taken = max(self.taken, math.floor(held + 1 - TAKEN))
        fewer = math.ceil(held - FREE)
        if fewer >= self.taken:
            self._free_since = None
        elif self._free_since is None:
            self._free_since = now
        elif now - self._free_since >= FREE_SECONDS:
            self.taken, self._free_since = fewer, None

    def _use(self, threads: int) -> None:
        self.threads, self._stretch = threads, _Stretch()

    def _begin(self, upwards: bool, now: float, mean: float | None = None) -> None:
        """Begin a trial with the present count; `mean` is the time of its steps, if that is known."""
        self._trial = _Trial(self.threads, upwards, now, {} if mean is None else {self.threads: mean})
        self._use(self.threads if mean is None else self._following(self._trial) or self.threads)

    def _following(self, trial: _Trial) -> int | None:
        """The next count to try: a neighbour of the quickest one so far; None when both its neighbours were tried."""
        counts = sorted({*(2**power for power in range(8) if 2**power < self.limit), self.limit, *trial.found})
        place = counts.index(trial.quickest)
        around = (place + 1, place - 1) if trial.upwards else (place - 1, place + 1)
        return next((counts[n] for n in around if 0 <= n < len(counts) and counts[n] not in trial.found), None)

    def _try(self, trial: _Trial, now: float) -> None:
        """One more step of a trial is made."""
        for count in [count for count in trial.found if count > self.limit]:
            del trial.found[count]  # their cores were taken meanwhile
        stretch, best = self._stretch, trial.found[trial.quickest] if trial.found else math.inf
        hopeless = stretch.whole > HOPELESS * best * stretch.steps + GRACE
        if not hopeless and (len(stretch.times) < TRIAL_STEPS or stretch.seconds < TRIAL_SECONDS):
            return
        trial.found[self.threads] = math.inf if hopeless else stretch.mean
        following = self._following(trial)
        if following is not None:
            self._use(following)
            return
        better = trial.found[trial.quickest] < BETTER * trial.found.get(trial.began, math.inf)
        chosen = trial.quickest if better else trial.began
        self._best[self.limit] = chosen
        self._end(chosen, trial.found[chosen], now)

    def _end(self, threads: int, usual: float | None, now: float) -> None:
        """Go on with a count, after a trial or because the cores for more are gone."""
        same = self._trial is not None and threads == self._trial.began
        self._pause = min(2 * self._pause, LONGEST_PAUSE) if same else PAUSE
        self._trial_seconds = 0.0 if self._trial is None else now - self._trial.since
        self._trial, self._usual, self._changes, self._since = None, usual, 0, now
        self._use(threads)

    def _watch(self, now: float) -> None:
        """One more step is made outside of trials: is it time for one?"""
        if len(self._stretch.times) < WINDOW_STEPS or self._stretch.seconds < WINDOW_SECONDS:
            return
        mean, self._stretch = self._stretch.mean, _Stretch()
        usual = self._usual or mean
        self._changes = self._changes + 1 if max(mean / usual, usual / mean) > CHANGED else 0
        self._usual = usual if self._changes else 0.9 * usual + 0.1 * mean
        if self.limit == 1:
            return
        waited = (now - self._since) / max(self._pause, TRIALS_OF_PAUSE * self._trial_seconds)
        if waited >= (REACTION if self._changes >= 2 else 1):
            self._begin(mean <= CHANGED * usual, now, mean)


class _Stretch:
    """Steps made one after the other with one count.

    times: of steps that are measured, in seconds; seconds: their sum
    steps, whole: number and sum of all
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.seconds = self.whole = 0.0
        self.steps = 0

    def add(self, seconds: float) -> None:
        if self.steps and self.whole >= LEAD_SECONDS:
            self.times.append(seconds)
            self.seconds += seconds
        self.steps, self.whole = self.steps + 1, self.whole + seconds

    @property
    def mean(self) -> float:
        """Seconds of a step, without the slowest of several: a hiccup of the machine is nobody's."""
        several = len(self.times) > 2
        return (self.seconds - several * max(self.times)) / (len(self.times) - several)


@dataclass
class _Trial:
    """What was found so far.

    began:   the count before the trial
    upwards: whether larger counts are tried first
    since:   when it began
    found:   count -> seconds of a step
    """

    began: int
    upwards: bool
    since: float
    found: dict[int, float] = field(default_factory=dict)

    @property
    def quickest(self) -> int:
        return min(self.found, key=lambda count: self.found[count])
