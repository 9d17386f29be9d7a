"""How the cost of an image grows with the batch, the image and the data set.

    python benchmarks/growth.py [--rounds 3] [--threads N] [--rows 10000 100000 1000000] [--quick] [--save]

Costs are per image and relative to the first line of each table, within a round. Batch and image size are measured for
the plain loop too. Data sets are memory-mapped .npy files of 64 x 64 bytes in a temporary folder (4 GB for a million);
the last line has the largest file with none of its pages in memory, as a file larger than the memory would be.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _processes import OURS, PLAIN, machine, measure, usable_cores
from _report import Table, save, show, spread, table
from sizes import flops

BATCHES, SIDES, ROWS = (64, 128, 256, 512, 1024), (32, 64, 128), (10_000, 100_000, 1_000_000)
MODELS = {"betavae": "beta-VAE", "tcvae": "TC-VAE"}
IMAGES = 4096  # that a measurement trains on at least

Lines = list[dict[str, Any]]


def steps_for(batch: int, quick: bool, images: int = IMAGES) -> tuple[int, str]:
    """Measured steps, and steps before them."""
    return (1, "1") if quick else (max(3, images // batch), str(max(1, 512 // batch)))


def write(path: Path, rows: int, side: int = 64) -> None:
    """(N, H, W) bytes: random squares, the same 10,000 again and again, in pieces so that little memory is needed."""
    rng = np.random.default_rng(0)
    piece = np.zeros((min(rows, 10_000), side, side), dtype=np.uint8)
    corners = rng.integers(0, side // 2, (len(piece), 3))
    for image, (top, left, size) in zip(piece, corners, strict=True):
        image[top : top + 4 + size, left : left + 4 + size] = 255
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(rows, side, side))
    for start in range(0, rows, len(piece)):
        array[start : start + len(piece)] = piece[: rows - start]
    array.flush()


def run(rounds: int, threads: int, quick: bool, rows: list[int]) -> dict[str, Lines]:
    """What was measured -> the line of each round."""
    found: dict[str, Lines] = {}

    def add(name: str, contender: str, model: str, batch: int, steps: int, *more: str) -> None:
        line = measure(contender, model, batch, steps, threads, *more)
        found.setdefault(name, []).append(line)
        print(f"  {name}: {1e3 / line['images_per_second']:.3f} ms per image", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        files = {count: Path(folder) / f"{count}.npy" for count in rows}
        for count, path in files.items():
            write(path, count)
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", flush=True)
            for model in MODELS:
                for batch in BATCHES:
                    steps, warm = steps_for(batch, quick)
                    for contender in (OURS, PLAIN):
                        add(f"batch {model} {batch} {contender}", contender, model, batch, steps, "--warm", warm)
            for side in SIDES:
                steps, warm = steps_for(64, quick, IMAGES * 64 // side)
                for contender in (OURS, PLAIN):
                    more = ("--warm", warm, "--size", str(side))
                    add(f"side betavae {side} {contender}", contender, "betavae", 64, steps, *more)
            steps, warm = steps_for(64, quick)
            for count, path in files.items():
                add(f"rows {count} cached", OURS, "betavae", 64, steps, "--warm", warm, "--data", str(path))
            if hasattr(os, "posix_fadvise"):
                more = ("--warm", warm, "--data", str(files[max(rows)]), "--cold")
                add(f"rows {max(rows)} cold", OURS, "betavae", 64, steps, *more)
    return found


def tables(found: dict[str, Lines]) -> list[Table]:
    def costs(name: str) -> list[float]:
        return [1 / line["images_per_second"] for line in found[name]]

    def against(name: str, base: str) -> str:
        return spread([mine / first for mine, first in zip(costs(name), costs(base), strict=True)])

    def peak(name: str, field: str = "peak_mb") -> str:
        return spread([line[field] for line in found[name]], 0)

    by_batch = []
    for batch in BATCHES:
        row = [str(batch)]
        for model in MODELS:
            ours, plain = f"batch {model} {batch} {OURS}", f"batch {model} {batch} {PLAIN}"
            row += [against(ours, f"batch {model} {BATCHES[0]} {OURS}"), against(plain, ours), peak(ours)]
        by_batch.append(row)
    by_side = []
    for side in SIDES:
        ours, plain = f"side betavae {side} {OURS}", f"side betavae {side} {PLAIN}"
        grown = against(ours, f"side betavae {SIDES[0]} {OURS}")
        work = f"{flops('betavae', side) / flops('betavae', SIDES[0]):.2f}"
        by_side.append([f"{side} x {side}", grown, work, against(plain, ours), peak(ours)])
    names = [name for name in found if name.startswith("rows")]
    by_rows = [
        [
            f"{int(name.split()[1]):,}" + (", no page in memory" if name.endswith("cold") else ""),
            against(name, names[0]),
            spread([line["first_step_seconds"] for line in found[name]], 1),
            peak(name, "private_mb"),
            peak(name, "mapped_mb"),
        ]
        for name in names
    ]
    columns = [f"{label}: {what}" for label in MODELS.values() for what in ("cost", "plain / ours", "peak MB")]
    return [
        table("Cost per image by batch size, relative to a batch of 64", ["batch", *columns], by_batch),
        table(
            "Cost per image by image size, beta-VAE, batch 64, relative to 32 x 32",
            ["image", "cost", "operations", "plain / ours", "peak MB"],
            by_side,
            ["operations: how the arithmetic itself grows, from the sizes of the layers"],
        ),
        table(
            "Cost per image by size of the data set, beta-VAE, batch 64, a memory-mapped file of 64 x 64 bytes",
            ["images", "cost", "seconds to first step", "private MB", "mapped MB"],
            by_rows,
            [
                "seconds to first step: loading looks at every value once; private and mapped: memory held at the end, "
                "of which the mapped pages belong to the file and are given up when memory is short",
                "no page in memory: the file's pages are dropped after loading, so that rows come from the disk",
            ],
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS), help="sizes of the data sets")
    parser.add_argument("--quick", action="store_true", help="one round of one step; data sets of 10,000 at most")
    parser.add_argument("--save", action="store_true", help="keep the result and put it into the README")
    given = parser.parse_args()
    rounds = 1 if given.quick else given.rounds
    rows = [10_000] if given.quick else given.rows
    found = run(rounds, given.threads, given.quick, rows)
    made = tables(found)
    show(made)
    if given.save and not given.quick:
        save("growth", machine(given.threads), {"rounds": rounds}, made, found)


if __name__ == "__main__":
    main()
