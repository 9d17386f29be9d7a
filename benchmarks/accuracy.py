"""Is anything bought with accuracy? The same study before and after a change, system by system, score by score.

    python benchmarks/accuracy.py BEFORE/results.json AFTER/results.json

Two files that `unweave study` wrote. Prints the table (mean and standard deviation over seeds, before and after), how
many pairs of means differ by no more than the larger standard deviation, and how large differences are in units of
their standard error: 1 on average (root of the mean square) between two samples of the same thing.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

COLUMNS = (
    "reconstruction/nats",
    "scores/mig",
    "scores/kim",
    "scores/higgins_fixed",
    "scores/sap",
    "scores/dci_forest",
    "scores/modularity",
    "scores/explicitness",
    "scores/irs",
)
LINEAR = "parts/total_correlation/gaussian"  # said apart: it is near zero for some systems, where spreads are too

Runs = dict[str, list[dict[str, Any]]]


def read(path: Path) -> Runs:
    """Row -> its runs."""
    try:
        found: Runs = {}
        for run in json.loads(path.read_text(encoding="utf-8"))["runs"]:
            found.setdefault(run["row"], []).append(run)
        return found
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"{path} is not a results.json of `unweave study`: {error!r}") from None


def values(runs: list[dict[str, Any]], column: str) -> list[float]:
    kind, name = column.split("/", 1)
    return [float(run[kind][name]) for run in runs]


def told(numbers: list[float], digits: int) -> str:
    return f"{statistics.fmean(numbers):.{digits}f} ± {statistics.stdev(numbers):.{digits}f}"


def in_standard_errors(before: list[float], after: list[float]) -> float:
    error = math.sqrt(statistics.variance(before) / len(before) + statistics.variance(after) / len(after))
    return (statistics.fmean(after) - statistics.fmean(before)) / error


def within(before: list[float], after: list[float]) -> bool:
    """Whether the means differ by no more than the larger standard deviation."""
    apart = abs(statistics.fmean(after) - statistics.fmean(before))
    return apart <= max(statistics.stdev(before), statistics.stdev(after))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    given = parser.parse_args()
    before, after = read(given.before), read(given.after)
    rows = [row for row in before if row in after]
    names = [column.split("/")[1] if column.startswith("scores") else "reconstruction (nats)" for column in COLUMNS]
    print(f"| system | {' | '.join(names)} |\n|{' --- |' * (len(names) + 1)}")
    differences: dict[str, float] = {}
    close = 0
    for row in rows:
        cells = []
        for column, name in zip(COLUMNS, names, strict=True):
            pair = values(before[row], column), values(after[row], column)
            cells.append(", ".join(told(each, 1 if column == COLUMNS[0] else 2) for each in pair))
            differences[f"{name} of {row}"] = in_standard_errors(*pair)
            close += within(*pair)
        print(f"| {row} | {' | '.join(cells)} |")
    print(f"\n{close} of {len(differences)} pairs of means differ by no more than the larger standard deviation")
    size = math.sqrt(statistics.fmean(each**2 for each in differences.values()))
    largest = max(differences, key=lambda name: abs(differences[name]))
    print(f"differences in standard errors: {size:.1f} on average, largest {differences[largest]:.1f} ({largest})")
    for row in rows:
        pair = values(before[row], LINEAR), values(after[row], LINEAR)
        print(f"linear total correlation of {row}: {told(pair[0], 3)}, then {told(pair[1], 3)}")


if __name__ == "__main__":
    main()
