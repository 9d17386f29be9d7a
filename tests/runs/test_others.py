"""What others hold of the cores: from counters made by hand, and from the real ones beside a busy process."""

import os
import subprocess
import sys
import time

import pytest

from unweave.runs.others import STAT, Others


class Counters:
    """A /proc/stat whose cores were busy, nice and idle for so many seconds each, a clock, and our own seconds."""

    def __init__(self, path, cores):
        self.path, self.now, self.ours = path, 100.0, 5.0
        self.busy, self.nice, self.idle = ([7.0] * cores for _ in range(3))
        self.write()

    def write(self):
        lines = ["cpu  1 2 3 4 5 6 7 8 9 10"]
        for core, (busy, nice, idle) in enumerate(zip(self.busy, self.nice, self.idle, strict=True)):
            # user, nice, system, idle, iowait, irq, softirq, steal, guest (which user holds already), guest_nice
            parts = [0.4 * busy, nice, 0.3 * busy, 0.5 * idle, 0.5 * idle, 0.0, 0.1 * busy, 0.2 * busy, 0.1 * busy, 0]
            lines.append(f"cpu{core} " + " ".join(str(round(100 * part)) for part in parts))
        self.path.write_text("\n".join([*lines, "intr 1 2 3", "ctxt 4"]) + "\n")

    def after(self, seconds, ours, *busy, nice=0.0):
        """So much later; of each core the share that was busy, and of the last one the share of what is nice."""
        self.now, self.ours = self.now + seconds, self.ours + ours * seconds
        for core, share in enumerate(busy):
            polite = nice if core == len(busy) - 1 else 0.0
            self.busy[core] += share * seconds
            self.nice[core] += polite * seconds
            self.idle[core] += (1 - share - polite) * seconds
        self.write()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """machine(cores, mine) is the counters of some cores, of which this process may use the given ones."""

    def make(cores=2, mine=(0, 1), nice=0, sessions="0\n"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(mine), raising=False)
        monkeypatch.setattr(os, "nice", lambda _: nice, raising=False)
        counters = Counters(tmp_path / "stat", cores)
        (tmp_path / "sessions").write_text(sessions)
        found = Others(counters.path, tmp_path / "sessions", lambda: counters.now, lambda: counters.ours)
        return counters, found

    return make


def test_what_is_busy_and_not_ours(machine):
    counters, found = machine()
    assert found.held() is None  # nothing to compare with
    counters.after(0.5, 1.2, 1.0, 0.9)
    assert found.held() == pytest.approx(0.7, abs=0.05)
    counters.after(0.5, 2.0, 1.0, 1.0)
    counters.after(0.5, 2.0, 1.0, 1.0)
    assert found.held() == pytest.approx(0.0, abs=0.05)


def test_only_the_last_half_second_counts(machine):
    counters, found = machine()
    for _ in range(20):
        counters.after(0.25, 1.0, 1.0, 1.0)
        found.held()
    assert found.held() == pytest.approx(1.0, abs=0.05)
    for _ in range(2):
        counters.after(0.25, 1.0, 1.0, 0.0)
        found.held()
    assert found.held() == pytest.approx(0.0, abs=0.05)


def test_cores_of_others_do_not_count(machine):
    counters, found = machine(cores=4, mine=(1, 3))
    assert found.cores == 2
    counters.after(1.0, 1.0, 1.0, 1.0, 1.0, 0.5)
    assert found.held() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("ours", "sessions", "held"),
    [(0, "0\n", 0.0), (5, "0\n", 1.0), (0, "1\n", 1.0)],
    ids=["it gives way", "we are nice too", "sessions share first"],
)
def test_who_is_nice_counts_where_it_does_not_give_way(machine, ours, sessions, held):
    counters, found = machine(nice=ours, sessions=sessions)
    counters.after(1.0, 1.0, 1.0, 0.0, nice=1.0)
    assert found.held() == pytest.approx(held, abs=0.05)


def test_it_is_looked_up_a_few_times_a_second(machine):
    counters, _ = machine()
    looks = []
    found = Others(counters.path, clock=lambda: counters.now, ours=lambda: looks.append(counters.now) or 0.0)
    for _ in range(100):
        counters.after(0.01, 0.0, 0.0, 0.0)
        found.held()
    assert 3 <= len(looks) <= 7


def test_counters_that_stand_still_or_run_wild_are_not_believed(machine):
    for factor in (0.0, 10.0):
        counters, found = machine()
        counters.after(1.0, 1.0, 1.0, 0.0)
        for values in (counters.busy, counters.idle):
            values[:] = [7.0 + factor * (value - 7.0) for value in values]
        counters.write()
        assert found.held() is None
        counters.after(1.0, 1.0, 1.0, 0.7)
        assert found.held() == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize("text", [None, "", "cpu0 a b c\n", "nothing of the kind\n"])
def test_where_the_system_says_nothing_it_is_not_known(tmp_path, text):
    path = tmp_path / "stat"
    if text is not None:
        path.write_text(text)
    found = Others(path)
    time.sleep(0.5)
    assert found.held() is None


@pytest.mark.skipif(not STAT.exists(), reason="the system has no /proc/stat")
def test_a_real_neighbour_is_seen():
    found = Others()
    if not found.available:
        pytest.skip("the counters cannot be read here")

    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        values, until = [], time.monotonic() + 2.5
        while time.monotonic() < until:
            time.sleep(0.1)
            values.append(found.held() or 0.0)
    finally:
        busy.kill()
        busy.wait()
    # Whatever else the machine does: who takes time from this neighbour is another one.
    assert max(values[8:]) > 0.5


def test_a_look_is_quick():
    found, began = Others(), time.perf_counter()
    for _ in range(2000):
        found.held()
    assert (time.perf_counter() - began) / 2000 < 5e-4
