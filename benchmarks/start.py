"""How long it takes until something happens: imports, `unweave --help`, the first training step.

    python benchmarks/start.py [--rounds 7] [--threads N] [--quick] [--save]

Everything in fresh processes, in turn, timed from start to end, so the start of Python itself is within each figure
and in the first line alone. Files are in the page cache: a first round is not counted.
"""

from __future__ import annotations

import argparse
import sys

from _processes import OURS, PLAIN, installed_peers, interpreter, machine, measure, seconds, usable_cores
from _report import Table, save, show, spread, table

FIRST = "first step, "


def commands(peers: bool) -> dict[str, list[str]]:
    python = [sys.executable, "-c"]
    found = {
        "python, nothing imported": [*python, "pass"],
        "import torch": [*python, "import torch"],
        "import unweave": [*python, "import unweave"],
        "from unweave import train": [*python, "from unweave import train"],
        "unweave --help": [sys.executable, "-m", "unweave", "--help"],
        "unweave train --help": [sys.executable, "-m", "unweave", "train", "--help"],
    }
    if peers:
        # disent cannot be imported without its stand-in: its contender's first step has its import.
        for name, module in {"pythae": "pythae.models, pythae.trainers", "pyro": "pyro, pyro.infer"}.items():
            found[f"import {name}"] = [interpreter(name), "-c", f"import {module}"]
    return found


def run(rounds: int, threads: int) -> dict[str, list[float]]:
    """Name -> seconds in each round."""
    peers = installed_peers()
    found: dict[str, list[float]] = {}
    starters = [OURS, PLAIN, *(("pythae", "disent", "pyro") if peers else ())]
    for number in range(rounds + 1):
        for name, command in commands(peers).items():
            taken = seconds(command, threads)
            if number:
                found.setdefault(name, []).append(taken)
        for contender in starters:
            line = measure(contender, "betavae", 64, 1, threads, "--warm", "1")
            if number:
                found.setdefault(FIRST + contender, []).append(line["first_step_seconds"])
        print(f"round {number} of {rounds}", flush=True)
    return found


def tables(found: dict[str, list[float]]) -> list[Table]:
    torch = found["import torch"]
    rows = [
        [
            name.replace(FIRST + OURS, FIRST + "unweave.train").replace(FIRST + PLAIN, FIRST + "plain loop"),
            spread(values),
            spread([mine / base for mine, base in zip(values, torch, strict=True)]),
        ]
        for name, values in found.items()
    ]
    note = "first step: beta-VAE, batch 64, images of 64 x 64 made in memory, from the start of the process to the end "
    return [
        table(
            "Start-up in fresh processes",
            ["what", "seconds", "times import torch"],
            rows,
            [
                "`import unweave` fetches nothing until a name is used; training needs `from unweave import train`",
                note + "of the first step; unweave.train has checked the data and written a checkpoint by then",
            ],
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--save", action="store_true", help="keep the result and put it into the README")
    given = parser.parse_args()
    rounds = 1 if given.quick else given.rounds
    found = run(rounds, given.threads)
    made = tables(found)
    show(made)
    if given.save and not given.quick:
        save("start", machine(given.threads), {"rounds": rounds}, made, found)


if __name__ == "__main__":
    main()
