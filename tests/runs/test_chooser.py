"""The choice of threads on machines made of numbers: rates by threads and neighbours, a clock that only steps move.

What a chooser should reach is known there: the best count at every moment, which is its slow, obvious twin.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pytest

from unweave.runs import chooser
from unweave.runs.chooser import Chooser

# Steps a second of betavae, quick, dSprites, on two cores, with so many endless loops beside it: issue's measurement.
ACTIVE = {0: {1: 44.7, 2: 67.8}, 1: {1: 44.7, 2: 20.3}, 2: {1: 27.5, 2: 1.6}}
PASSIVE = {0: {1: 44.7, 2: 50.3}, 1: {1: 44.7, 2: 30.1}, 2: {1: 27.5, 2: 28.6}}
# A dense network so small that threads only cost.
SMALL = {0: {1: 900.0, 2: 700.0}, 1: {1: 900.0, 2: 200.0}, 2: {1: 500.0, 2: 20.0}}
# A step takes seconds.
LARGE = {crowd: {count: rate / 100 for count, rate in rates.items()} for crowd, rates in ACTIVE.items()}
NOTICE, WINDOW = 2.0, 10.0


def eight_cores(crowd):
    """Rates where every core helps less than the one before, and a thread without a core of its own holds all up."""
    alone = {count: 20 * count**0.6 * min(1, 8 / (count + crowd)) for count in range(1, 9)}
    return {count: rate / (1 if count == 1 or count + crowd <= 8 else 5) for count, rate in alone.items()}


@dataclass
class Machine:
    """Makes steps; `steps` are (begin, end, threads).

    rates: neighbours -> threads -> steps a second
    crowd: (since, neighbours), in order of time
    told:  whether the system says what others hold
    """

    rates: dict
    crowd: tuple = ((0.0, 0),)
    told: bool = True
    cores: int = 2
    noise: float = 0.1
    seed: int = 0
    now: float = 0.0
    steps: list = field(default_factory=list)

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self.used = deque([(0.0, 0.0)])  # clock and core-seconds of others
        self.changed = -math.inf
        self.threads = None

    def neighbours(self, at):
        return [number for since, number in self.crowd if since <= at][-1]

    def next_change(self, at):
        return min((since for since, _ in self.crowd if since > at), default=math.inf)

    def step(self, threads):
        """One step: its work is done at the rate of each moment. Threads that have just begun are slow."""
        began, left = self.now, math.exp(self.random.gauss(0, self.noise))
        left *= 4 if self.random.random() < 0.01 else 1  # a hiccup
        left /= math.exp(self.noise**2 / 2) * 1.03  # on average 1
        if threads != self.threads:
            self.threads, self.changed = threads, self.now
        while left > 0:
            crowd = self.neighbours(self.now)
            fresh = self.now < self.changed + 0.1
            rate = self.rates[crowd][threads] * (0.5 if fresh else 1)
            until = min(self.next_change(self.now), self.changed + 0.1 if fresh else math.inf)
            span = min(left / rate, until - self.now)
            held = min(crowd, self.cores * crowd / (crowd + threads)) if crowd + threads > self.cores else crowd
            self.used.append((self.now + span, self.used[-1][1] + held * span))
            left, self.now = left - span * rate, self.now + span
            if span == 0:
                break
        self.steps.append((began, self.now, threads))
        return self.now - began

    def held(self):
        """What others held on average in about the last half second, as the system's counters tell it."""
        if not self.told or self.now < 0.4:
            return None
        while len(self.used) > 2 and self.now - self.used[1][0] >= 0.4:
            self.used.popleft()
        (began, before), (end, after) = self.used[0], self.used[-1]
        return max(0.0, (after - before) / (end - began) + self.random.gauss(0, 0.03))

    def train(self, seconds, most=2):
        choice = Chooser(most, self.cores)
        while self.now < seconds:
            choice.made(self.step(choice.threads), self.now, self.held())
        return self

    def shares(self, most=2, window=WINDOW):
        """Work done over that of the best count at every moment, in any ten seconds; two after each change left out."""
        edge, quiet = 0.1, []  # (work done, best work) of each tenth of a second that counts
        ends = iter(self.steps)
        began, end, _ = next(ends)
        for tick in itertools.count():
            low, high = tick * edge, (tick + 1) * edge
            if high > self.steps[-1][1]:
                break
            done = 0.0
            while True:
                done += max(0.0, min(end, high) - max(began, low)) / (end - began)
                if end > high:
                    break
                began, end, _ = next(ends, (math.inf, math.inf, 0))
            last = max(since for since, _ in self.crowd if since <= low)
            if low - last >= NOTICE:
                best = max(self.rates[self.neighbours(low)][count] for count in range(1, most + 1))
                quiet.append((done, best * edge))
        width = round(window / edge)
        done, best = np.cumsum([(0.0, 0.0), *quiet], axis=0).T
        return ((done[width:] - done[:-width]) / (best[width:] - best[:-width])).tolist()


COMING_AND_GOING = ((0.0, 0), (20.0, 1), (45.0, 2), (70.0, 0), (95.0, 2), (120.0, 1), (145.0, 0))


# One without hiccups of noise would not tell whether noise alone makes the choice waver.
@pytest.mark.parametrize("rates", [ACTIVE, PASSIVE], ids=["active", "passive"])
@pytest.mark.parametrize("seed", range(4))
def test_never_far_from_the_best_while_neighbours_come_and_go(rates, seed):
    machine = Machine(rates, COMING_AND_GOING, seed=seed).train(170)
    assert min(machine.shares()) >= 0.88  # 0.9, and noise that the best choice had as well


@pytest.mark.parametrize("crowd", [0, 1, 2])
def test_the_best_of_each_row_of_the_table_is_found_and_kept(crowd):
    machine = Machine(ACTIVE, ((0.0, crowd),)).train(60)
    best = max((1, 2), key=lambda count: ACTIVE[crowd][count])
    settled = [(end - began, threads) for began, end, threads in machine.steps if began > NOTICE]
    assert sum(span for span, threads in settled if threads == best) >= 0.97 * sum(span for span, _ in settled)


def test_a_fixed_count_falls_short_where_the_choice_does_not():
    """What the tests above would show of a chooser that never changes."""
    for count in (1, 2):
        machine = Machine(ACTIVE, COMING_AND_GOING)
        while machine.now < 170:
            machine.step(count)
        assert min(machine.shares()) < 0.7


def test_a_quiet_machine_pays_little():
    for seed in range(4):
        machine = Machine(ACTIVE, seed=seed).train(120)
        assert len(machine.steps) / machine.now >= 0.97 * ACTIVE[0][2]


def test_a_network_too_small_for_threads_keeps_one():
    machine = Machine(SMALL).train(60)
    assert sum(end - began for began, end, threads in machine.steps if threads == 2) < 0.02 * machine.now


def test_steps_of_seconds_are_counted_by_steps():
    shares = []
    for seed in range(6):
        crowds = tuple((20 * since, crowd) for since, crowd in COMING_AND_GOING)
        machine = Machine(LARGE, crowds, seed=seed).train(3400)
        shares += machine.shares(window=400.0)
    assert sum(shares) / len(shares) >= 0.95


def test_a_neighbour_is_noticed_in_a_second_and_that_it_left_in_two():
    machine = Machine(ACTIVE, COMING_AND_GOING).train(170)
    for since, crowd in COMING_AND_GOING[1:]:
        best = 2 if crowd == 0 else 1
        first = next(began for began, _, threads in machine.steps if began >= since and threads == best)
        assert first - since < (2 if best == 2 else 1)


def test_without_counters_the_time_of_steps_tells():
    machine = Machine(ACTIVE, ((0.0, 0), (30.0, 1), (150.0, 0)), told=False).train(300)
    last = [threads for began, _, threads in machine.steps if 60 < began < 150]
    assert last.count(1) > 0.95 * len(last)
    last = [threads for began, _, threads in machine.steps if began > 150 + chooser.LONGEST_PAUSE + 10]
    assert last.count(2) > 0.95 * len(last)


def test_two_threads_are_not_tried_while_others_visibly_hold_the_cores():
    machine = Machine(ACTIVE, ((0.0, 2),)).train(120)
    assert {threads for _, _, threads in machine.steps} == {1}


@pytest.mark.parametrize("crowd", [0, 1, 3, 8])
def test_eight_cores_are_used_as_far_as_they_are_free(crowd):
    rates = {number: eight_cores(number) for number in range(9)}
    machine = Machine(rates, ((0.0, crowd),), cores=8).train(60, most=8)
    assert min(machine.shares(most=8)) >= 0.88
    assert max(threads for _, _, threads in machine.steps) <= max(1, 8 - crowd)


def test_never_more_than_asked_for():
    rates = {number: eight_cores(number) for number in range(9)}
    for most in (1, 3):
        machine = Machine(rates, cores=8).train(10, most=most)
        assert {threads for _, _, threads in machine.steps} <= {1, 2, 3} & set(range(most + 1))
    assert machine.steps[-1][2] == 3
    assert not [threads for _, _, threads in Machine(ACTIVE).train(10, most=1).steps if threads != 1]


def test_cores_are_taken_and_free_with_a_margin():
    choice = Chooser(8, 8)
    at = itertools.count()

    def limit(held, looks=1):
        for _ in range(looks):
            choice.made(0.01, next(at) / 5, held)
        return choice.limit

    assert limit(0.0) == 8
    assert limit(0.39) == 8
    assert limit(0.41) == 7
    assert limit(0.26, looks=20) == 7
    assert limit(0.24) == 7  # not at once
    assert limit(0.24, looks=5) == 8
    assert limit(3.5) == 4
    assert limit(0.0, looks=3) == 4
    assert limit(3.5) == 4
    assert limit(0.0, looks=4) == 4  # the time begins anew
    assert limit(0.0, looks=2) == 8
    assert limit(50.0) == 1
    assert limit(None, looks=6) == 8


def test_cores_taken_in_the_middle_of_a_trial_are_not_used():
    """Steps are quickest with two threads; others take a core at any step of any trial."""
    quiet = Chooser(2, 2)

    def step(choice, number, held):
        seconds = 0.01 if choice.threads == 2 else 0.02
        choice.made(seconds, 0.01 * number, held)
        return choice.threads

    counts = [step(quiet, number, 0.0) for number in range(1200)]
    changes = [number for number in range(1, 1200) if counts[number] != counts[number - 1]]
    assert [counts[number] for number in changes] == [2, 1, 2]  # found, and tried again some seconds later
    for late in range(changes[1] - 5, changes[2] + 5):
        choice = Chooser(2, 2)
        threads = [step(choice, number, 0.0 if number < late else 1.0) for number in range(late + 40)]
        assert set(threads[late:]) == {1}, late


def test_a_choice_costs_a_step_nothing():
    choice, began = Chooser(8, 8), time.perf_counter()
    for number in range(20_000):
        choice.made(0.01, 0.01 * number, 0.0)
    assert (time.perf_counter() - began) / 20_000 < 1e-4  # seconds; about 3e-6 on a quiet machine


def test_two_trainings_share_the_cores():
    """The second lasts from 10 to 40 seconds: meanwhile both have one thread, before and afterwards one has two."""
    alone, beside = ACTIVE[0], {1: {1: 44.7, 2: 20.3}, 2: {1: 30.0, 2: 5.0}}
    holds = {(1, 1): 1.0, (1, 2): 1.33, (2, 1): 0.67, (2, 2): 1.0}  # of ours and theirs: cores that they hold
    tick, noise = 0.005, random.Random(0)
    runs = [Chooser(2, 2), Chooser(2, 2)]
    left, began, lately = [1.0, 1.0], [0.0, 10.0], [deque(maxlen=80), deque(maxlen=80)]
    had = []
    for number in range(round(60 / tick)):
        now = number * tick
        there = [True, 10 <= now < 40]
        for me, run in enumerate(runs):
            if not there[me]:
                continue
            other = runs[1 - me].threads if there[1 - me] else 0
            lately[me].append(holds[run.threads, other] if other else 0.0)
            left[me] -= tick * (beside[other] if other else alone)[run.threads]
            if left[me] <= 0:
                left[me] += math.exp(noise.gauss(0, 0.1))
                held = sum(lately[me]) / len(lately[me]) if len(lately[me]) == 80 else None
                run.made(now + tick - began[me], now, held)
                began[me] = now + tick
        had.append((now, runs[0].threads, runs[1].threads if there[1] else 0))
    together = [both for at, *both in had if 12 < at < 40]
    assert together.count([1, 1]) >= 0.97 * len(together)
    for first, last in ((2, 10), (43, 60)):
        only = [mine for at, mine, _ in had if first < at < last]
        assert only.count(2) >= 0.9 * len(only)
