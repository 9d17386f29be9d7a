"""Seconds of each score on 10,000 and 100,000 codes of 10 dimensions and 5 factors of 3, 6, 40, 32 and 32 values.

    python benchmarks/scores.py [--rows 10000 100000] [--scores mig sap ...] [--quick] [--save]

Codes are a random mixture of the factors with noise, as a half-trained encoder would give. Scores are computed from
arrays: one encoding of the data serves all of them. A score of less than three seconds is timed three times. Processor
seconds, of all threads together, tell how the work grows even where the machine has other work to do. `--save` keeps
the result of this processor in benchmarks/results/scores and puts it into benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from _processes import machine, usable_cores
from _report import Table, save, show, spread, table

from unweave.metrics import METRICS, evaluate

SIZES, DIMENSIONS = (3, 6, 40, 32, 32), 10
REPEATS, QUICK_SECONDS = 3, 3.0
# Seconds of disentanglement_lib for the same scores of 10,000 codes of this shape. Not measured here: the figures of
# an earlier measurement on another machine of this kind, two cores.
PEER_ROWS = 10_000
LIBRARY = {
    "mig": 0.2,
    "sap": 1.1,
    "modularity and explicitness": 4.8,
    "kim": 1.9,
    "higgins_fixed": 2.7,
    "dci_boosted, all factors classified": 1200.0,
    "dci_forest, 100 trees for each factor": 25.0,
}
# The same amount of work: it classifies every factor, and grows 100 trees for each (here 20 in each of 5 folds).
ALIKE: dict[str, tuple[str, dict[str, Any]]] = {
    "dci_boosted, all factors classified": ("dci_boosted", {"most_classes": 100}),
    "dci_forest, 100 trees for each factor": ("dci_forest", {"trees": 20}),
}
IN_PROCESSES = ("dci_forest", "dci_boosted")
WITHOUT_DCI = ("mig", "sap", "modularity", "explicitness", "kim", "higgins_fixed")

Times = dict[str, dict[int, dict[str, list[float]]]]  # score -> codes -> "wall" and "processor" seconds of each repeat


def world(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes (N, 10), factors (N, 5), posterior standard deviations (N, 10)."""
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(0, size, rows) for size in SIZES], axis=1)
    standard = (factors - factors.mean(0)) / factors.std(0)
    codes = standard @ rng.normal(size=(len(SIZES), DIMENSIONS)) / 2 + 0.3 * rng.normal(size=(rows, DIMENSIONS))
    return codes, factors, np.full(codes.shape, 0.3)


def timed(
    name: str, data: tuple[np.ndarray, np.ndarray, np.ndarray], repeats: int
) -> tuple[dict[str, list[float]], float]:
    """Seconds of each repeat, and the value; one repeat where it takes long."""
    codes, factors, spreads = data
    score, settings = ALIKE.get(name, (name, {}))
    wall: list[float] = []
    processor: list[float] = []
    value = float("nan")
    while len(wall) < repeats and (not wall or wall[0] < QUICK_SECONDS):
        began, used = time.perf_counter(), time.process_time()
        if settings:
            value = METRICS[score](codes, factors, **settings).value
        else:
            value = evaluate(codes, factors, spreads=spreads, scores=[score])[score].value
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
    return {"wall": wall, "processor": processor}, value


def run(sizes: Sequence[int], names: Sequence[str], quick: bool) -> tuple[Times, dict[str, dict[int, float]]]:
    times: Times = {}
    values: dict[str, dict[int, float]] = {}
    for rows in sizes:
        data = world(rows)
        codes, factors, spreads = (array[:500] for array in data)
        evaluate(codes, factors, spreads=spreads)  # imports are not part of it
        alike = [name for name, (score, _) in ALIKE.items() if score in names and rows == min(sizes) and not quick]
        for name in [*names, *alike]:
            seconds, value = timed(name, data, 1 if quick else REPEATS)
            times.setdefault(name, {})[rows] = seconds
            values.setdefault(name, {})[rows] = value
            print(f"{rows:>8} {name:<40} {spread(seconds['wall']):<24} value {value:.4f}", flush=True)
    return times, values


def tables_of(times: Times, sizes: Sequence[int]) -> list[Table]:
    first, last = min(sizes), max(sizes)
    own = []
    for name in [*METRICS.names(), *ALIKE]:
        if name not in times:
            continue
        few, many = times[name][first], times[name].get(last)
        if many is None or last == first:
            own.append((name, spread(few["wall"]), "", "", ""))
            continue
        growth = [statistics.median(many[kind]) / statistics.median(few[kind]) for kind in ("wall", "processor")]
        by_wall, by_processor = (f"{times:.1f}" for times in growth)
        own.append(
            (name, spread(few["wall"]), spread(many["wall"]), by_wall, "" if name in IN_PROCESSES else by_processor)
        )
    middle = {name: statistics.median(of[first]["wall"]) for name, of in times.items()}
    if "modularity" in middle and "explicitness" in middle:
        middle["modularity and explicitness"] = middle["modularity"] + middle["explicitness"]
    beside = [
        (name, f"{seconds:g}", f"{middle[name]:.2f}", f"{seconds / middle[name]:.1f}")
        for name, seconds in LIBRARY.items()
        if name in middle
    ]
    if all(name in middle for name in WITHOUT_DCI):
        ours = sum(middle[name] for name in WITHOUT_DCI)
        theirs = sum(seconds for name, seconds in LIBRARY.items() if not name.startswith("dci"))
        beside.append(("all without DCI", f"{theirs:g}", f"{ours:.2f}", f"{theirs / ours:.1f}"))
    found = [
        table(
            "Seconds of each score",
            ("score", f"{first:,} codes", f"{last:,} codes", "growth", "growth of processor seconds"),
            own,
            (
                "Median, and of several repeats the lowest and highest. Default settings unless said.",
                f"Growth: how many times as long {last:,} codes take, {last / first:g} times as many.",
                "Forests and boosted trees grow in processes of their own, whose processor seconds are not known here.",
            ),
        )
    ]
    if first == PEER_ROWS and beside:
        notes = (
            "disentanglement_lib was not run here: its seconds were measured once, on another machine of this kind, "
            "two cores.",
            "It gives no intervals and fits once; ours are with intervals, DCI with five folds.",
        )
        columns = ("score", "disentanglement_lib, s", "unweave, s", "times as fast")
        found.append(table(f"Beside disentanglement_lib, {first:,} codes", columns, beside, notes))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000], help="numbers of codes")
    parser.add_argument("--scores", nargs="+", default=METRICS.names(), help="names of scores; all if not given")
    parser.add_argument("--quick", action="store_true", help="few codes and one repeat: does everything run")
    parser.add_argument("--save", action="store_true", help="keep the result and put it into the README")
    chosen = parser.parse_args()
    sizes = [4000, 8000] if chosen.quick else sorted(set(chosen.rows))
    times, values = run(sizes, chosen.scores, chosen.quick)
    tables = tables_of(times, sizes)
    show(tables)
    if chosen.save:
        raw = {
            name: {
                str(rows): {
                    **{kind: [round(s, 4) for s in seconds] for kind, seconds in of[rows].items()},
                    "value": round(values[name][rows], 6),
                }
                for rows in of
            }
            for name, of in times.items()
        }
        save("scores", machine(usable_cores()), {"codes": sizes, "dimensions": DIMENSIONS}, tables, raw)


if __name__ == "__main__":
    main()
