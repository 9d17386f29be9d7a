"""What a training step costs with the networks that are chosen by the picture's size, and with others: beta-VAE.

    python benchmarks/networks.py [--save]

Steps of all networks take turns on one thread, in one process, with batches of 64; the table has the ratio of images
per second to that of the networks that are chosen, the median over rounds with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from _processes import machine
from _report import save, show, table

from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.core.system import System
from unweave.nets.build import BURGESS, Nets
from unweave.runs.arithmetic import fast_arithmetic
from unweave.systems.betavae import BetaVAE, BetaVAEConfig

SHAPES = ((1, 28, 28), (3, 48, 48), (1, 64, 64), (3, 96, 96))
NETWORKS = {
    "chosen": Nets(),
    "chosen, hidden=(128,)": Nets(hidden=(128,)),
    "stem=2": Nets(stem=2),
    "stem=4": Nets(stem=4),
    "Burgess et al.": BURGESS,
    "dense, hidden=(256, 256)": Nets(kind="dense"),
    "dense, hidden=(512, 256)": Nets(kind="dense", hidden=(512, 256)),
}
ROWS, WARM, ROUNDS, STEPS = 64, 3, 15, 3


def built(nets: Nets, spec: DataSpec) -> System:
    return BetaVAE(BetaVAEConfig(nets=nets), spec).train()


def rates(shape: tuple[int, int, int]) -> dict[str, list[float]]:
    """Images per second of each network, round by round."""
    torch.manual_seed(0)
    batch, spec = Batch.of(torch.rand(ROWS, *shape)), DataSpec(shape, "unit", 10_000)
    systems = {name: built(nets, spec) for name, nets in NETWORKS.items()}
    optimisers = {name: system.optimisers() for name, system in systems.items()}
    found: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(WARM + ROUNDS):
        for name, system in systems.items():
            began = time.perf_counter()
            for _ in range(STEPS):
                system.update(batch, optimisers[name])
            if number >= WARM:
                found[name].append(STEPS * ROWS / (time.perf_counter() - began))
    return found


def sizes(shape: tuple[int, int, int]) -> str:
    """The network that is chosen: its stem and how many convolutions."""
    nets = Nets().fitted(DataSpec(shape, "unit", 10_000))
    return f"stem {nets.stem}, {len(nets.channels)} layers"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true", help="keep the result and put it into the README")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with fast_arithmetic():
        raw = {" x ".join(map(str, shape)): rates(shape) for shape in SHAPES}
    rows = []
    for name in NETWORKS:
        cells = [name]
        for shape, found in zip(SHAPES, raw.values(), strict=True):
            ratios = [mine / chosen for mine, chosen in zip(found[name], found["chosen"], strict=True)]
            ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            cells.append(sizes(shape) if name == "chosen" else ratio)
        rows.append(cells)
    per_second = [f"{statistics.median(found['chosen']):,.0f}" for found in raw.values()]
    rows.append(["chosen: images per second", *per_second])
    tables = [table("Images per second of other networks over those of the chosen ones", ("network", *raw), rows)]
    show(tables)
    if given.save:
        save("networks", machine(1), {"rounds": ROUNDS, "batch": ROWS}, tables, raw)


if __name__ == "__main__":
    main()
