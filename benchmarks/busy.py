"""Training beside other programs: the threads that a run chooses by measuring, against every fixed number of them.

    python benchmarks/busy.py [--rounds 2] [--quick] [--save]

Beta-VAE with the network of the preset `quick`, batch 64, images of 64 x 64 made in memory. The neighbours are our own:
endless loops in plain Python, and a second training. They come and go while one run, which chooses, is trained from
beginning to end; in between it waits for a moment, and runs with fixed threads have their turns beside the same
neighbours. So a ratio is taken within a turn of all, and what else the machine does meets all alike. The first two
seconds of a turn of the choice are not measured: these it has to notice that the neighbours are others now.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _processes import PEERS, machine, usable_cores
from _report import Table, save, show, spread, table

sys.path.insert(0, str(PEERS))

CHOSEN = "chosen"
NOTICE, LEAD = 2.0, 1.0
"""Seconds of a turn that are not measured: of the choice, of fixed threads."""
NEIGHBOURS = {
    "none": [],
    "one loop": ["loop"],
    "two loops": ["loop", "loop"],
    "a second training": ["training"],
}
BATCH = 64


def counts() -> list[str]:
    """1, 2, 4, ... and all cores; what a run chooses from is at most 8."""
    most = min(usable_cores(), 8)
    return [str(count) for count in sorted({*(2**power for power in range(4) if 2**power < most), most})]


def work(threads: str, gated: bool) -> None:
    """Train until killed; when gated, only as many seconds at a time as a line on stdin says, and print the steps'."""
    import torch
    from common import squares

    from unweave.data import DataSet, from_arrays
    from unweave.runs import train

    images = from_arrays(squares(4096, 64))
    times: list[float] = []
    threads_of: list[int] = []
    until = 0.0

    def read(rows: Any) -> Any:
        nonlocal until
        if gated and len(rows) == BATCH:
            now = time.monotonic()
            times.append(now)
            threads_of.append(torch.get_num_threads())
            if now >= until and len(times) > 5:
                print(json.dumps({"times": times, "threads": threads_of[1:]}), flush=True)
                until = float(sys.stdin.readline()) + time.monotonic()
                times[:], threads_of[:] = [time.monotonic()], [0]
        return images.observations(rows)

    with tempfile.TemporaryDirectory() as folder:
        train(
            "betavae",
            DataSet("squares", images.spec, read),
            preset="quick",
            settings={"training.steps": 10**7, "training.batch_size": BATCH},
            run=Path(folder) / "run",
            threads=None if threads == CHOSEN else int(threads),
            device="cpu",
            progress=False,
        )


class Worker:
    """A run in a process of its own that trains when it is its turn."""

    def __init__(self, threads: str):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work", threads], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.threads: list[int] = []
        self._steps()

    def turn(self, seconds: float) -> list[float]:
        """When the steps of a turn ended, from its beginning on; `threads` has how many each had."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        began, *ends = self._steps()
        return [end - began for end in ends]

    def _steps(self) -> list[float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a run of the benchmark ended by itself: what it said is above")
        found = json.loads(line)
        self.threads = found["threads"]
        times: list[float] = found["times"]
        return times


@contextlib.contextmanager
def neighbours(kinds: list[str]) -> Iterator[list[int]]:
    """While it lasts these programs are busy; gives the numbers of their processes."""
    loop = [sys.executable, "-c", "while True: pass"]
    training = [sys.executable, __file__, "--work", CHOSEN, "--free"]
    started = [subprocess.Popen(loop if kind == "loop" else training) for kind in kinds]
    try:
        if "training" in kinds:
            time.sleep(8)  # until it trains
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


class Strangers:
    """Cores that programs other than the benchmark's held while it lasts, where the system tells."""

    def __init__(self, processes: list[int]):
        self.processes, self.held = processes, float("nan")

    def __enter__(self) -> Strangers:
        self._began = (time.monotonic(), self._busy())
        return self

    def __exit__(self, *_: object) -> None:
        self.held = (self._busy() - self._began[1]) / (time.monotonic() - self._began[0])

    def _busy(self) -> float:
        """Seconds that the cores were busy so far, without those of the benchmark."""
        try:
            user, nice, system, _, _, irq, soft, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
            ours = [Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split() for each in self.processes]
        except (OSError, ValueError):
            return float("nan")
        ticks = user + nice + system + irq + soft + steal - sum(int(words[11]) + int(words[12]) for words in ours)
        return ticks / os.sysconf("SC_CLK_TCK")


def rate(ends: list[float], since: float, until: float) -> float:
    """Steps a second between two moments of a turn; a step that lies across one counts in part."""
    begins = [0.0, *ends]
    parts = (
        max(0.0, min(end, until) - max(begin, since)) / (end - begin)
        for begin, end in zip(begins, ends, strict=False)
        if end > begin
    )
    return sum(parts) / (until - since)


def run(rounds: int, fixed_seconds: float, window: float, chosen_seconds: float) -> list[dict[str, Any]]:
    """A record for each turn: the neighbours, rates with fixed threads, rate and slowest window of the choice."""
    workers: dict[str, Worker] = {}
    found = []
    try:
        for name in (*counts(), CHOSEN):
            workers[name] = Worker(name)
        for number in range(rounds):
            for label, kinds in NEIGHBOURS.items():
                with (
                    neighbours(kinds) as busy,
                    Strangers([*busy, *(w.process.pid for w in workers.values())]) as strangers,
                ):
                    order = counts()[number % len(counts()) :] + counts()[: number % len(counts())]
                    fixed = {}
                    for name in order:
                        ends = workers[name].turn(LEAD + fixed_seconds)
                        fixed[name] = rate(ends, LEAD, max(ends[-1], LEAD + fixed_seconds))
                    ends = workers[CHOSEN].turn(NOTICE + chosen_seconds)
                    last = max(ends[-1], NOTICE + chosen_seconds)
                    starts = [NOTICE + 0.1 * tick for tick in range(1 + int(10 * (last - NOTICE - window)))]
                    slowest = min(rate(ends, start, start + window) for start in starts)
                    measured = [n for n, end in zip(workers[CHOSEN].threads, ends, strict=True) if end > NOTICE]
                    record = {"neighbours": label, "fixed": fixed, CHOSEN: rate(ends, NOTICE, last), "slowest": slowest}
                record |= {"steps by threads": dict(Counter(measured)), "strangers": round(strangers.held, 2)}
                found.append(record)
                print(f"round {number + 1} of {rounds}, {label}: {record}", flush=True)
    finally:
        for worker in workers.values():
            worker.process.kill()
            worker.process.wait()
    return found


def tables(found: list[dict[str, Any]], window: float) -> list[Table]:
    rows = []
    for label in NEIGHBOURS:
        turns = [record for record in found if record["neighbours"] == label]
        # The best fixed choice is one number of threads, the best on average over all turns beside these neighbours.
        best = max(counts(), key=lambda count: statistics.fmean(turn["fixed"][count] for turn in turns))
        rows.append(
            [
                label,
                *(spread([turn["fixed"][count] for turn in turns], 1) for count in counts()),
                spread([turn[CHOSEN] for turn in turns], 1),
                spread([turn[CHOSEN] / turn["fixed"][best] for turn in turns]),
                f"{min(turn['slowest'] / turn['fixed'][best] for turn in turns):.2f}",
                spread([turn["strangers"] for turn in turns]),
            ]
        )
    fixed = [f"{count} thread{'s' if count != '1' else ''}" for count in counts()]
    return [
        table(
            "Steps a second beside other programs that come and go",
            [
                "neighbours",
                *fixed,
                "chosen",
                "chosen / best fixed",
                f"slowest {window:.0f} seconds / best fixed",
                "strangers",
            ],
            rows,
            [
                "Median, lowest and highest of the turns. The run that chooses is one run through all of them",
                f"slowest: of any {window:.0f} seconds of all turns, after {NOTICE:.0f} seconds to notice a change",
                "strangers: cores that programs held that are no part of this; more than 0.1 blurs the figures",
            ],
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one round of shorter turns: a minute")
    parser.add_argument("--save", action="store_true", help="keep the result and put it into the README")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--free", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work, gated=not given.free)
        return
    rounds, fixed_seconds, window, chosen_seconds = (
        (1, 2.0, 3.0, 4.0) if given.quick else (given.rounds, 3.0, 10.0, 11.0)
    )
    found = run(rounds, fixed_seconds, window, chosen_seconds)
    made = tables(found, window)
    show(made)
    if given.save and not given.quick:
        save("busy", machine(usable_cores()), {"rounds": rounds, "seconds of a turn": chosen_seconds}, made, found)


if __name__ == "__main__":
    main()
