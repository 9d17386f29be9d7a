"""Does `torch.compile` pay? A step of the reference beta-VAE: ours, the textbook's layers, and these compiled.

    python benchmarks/compiled.py [--turns 12] [--save]

All in one process, in turns of a few steps, so that what makes the arithmetic of a process fast (see
src/unweave/runs/arithmetic.py) helps all alike. The compiled loss is one graph, from the batch to the sum of all terms.
Needs a C++ compiler. `--save` keeps the result of this processor in benchmarks/results/compiled and puts it into
benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from _processes import machine, usable_cores
from _report import save, show, spread, table
from step_profile import ours, textbook

from unweave.runs.arithmetic import fast_arithmetic

STEPS = 8


def contenders(batch: torch.Tensor) -> dict[str, Callable[[], object]]:
    return {
        "unweave": ours(batch),
        "textbook layers, eager": textbook(batch),
        "textbook layers, compiled": textbook(batch, compiled=True),
        "textbook layers, channels-last, compiled": textbook(batch, compiled=True, channels_last=True),
    }


def seconds(step: Callable[[], object], steps: int = STEPS) -> float:
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - began) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--save", action="store_true", help="keep the result and put it into the README")
    given = parser.parse_args()
    torch.set_num_threads(usable_cores())
    torch.manual_seed(0)
    batch = (torch.rand(64, 1, 64, 64) > 0.9).float()
    first: dict[str, float] = {}
    taken: dict[str, list[float]] = {}
    with fast_arithmetic():
        steps = contenders(batch)
        for name, step in steps.items():
            first[name] = seconds(step, 2) * 2
            taken[name] = []
        for number in range(given.turns):
            names = list(steps)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                steps[name]()
                taken[name].append(seconds(steps[name]))
    rows = [
        [
            name,
            f"{first[name]:.1f}",
            spread([theirs / mine for mine, theirs in zip(taken["unweave"], times, strict=True)]),
        ]
        for name, times in taken.items()
    ]
    columns = ["contender", "seconds of the first two steps", "time of a step over unweave's"]
    tables = [table("torch.compile on the reference beta-VAE, batch 64", columns, rows)]
    show(tables)
    if given.save:
        save("compiled", machine(usable_cores()), {"turns": given.turns, "steps of a turn": STEPS}, tables, taken)


if __name__ == "__main__":
    main()
