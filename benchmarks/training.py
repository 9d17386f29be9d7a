"""What `unweave train` costs beside a bare loop over the same model, data and optimiser, interleaved in one run.

    python benchmarks/training.py

The bare loop calls the system's objective, `backward` and Adam on batches made beforehand: no logging, no checkpoints,
no reading of data. A ratio of 1 would mean that all of that is free.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import torch

from unweave.core.order import Table
from unweave.core.system import SYSTEMS
from unweave.data import DataSet, Split, load
from unweave.runs import train
from unweave.runs.batches import Batches

STEPS, ROUNDS, THREADS = 150, 3, 1


def bare(name: str, dataset: DataSet) -> float:
    """Images per second of the bare loop."""
    cls = SYSTEMS[name]
    config = cls.config_class.preset("quick")
    rows = Split().rows(dataset)["train"]
    system = cls(config, dataset.spec)
    orders = [system.order(Table(rows), 0, stream) for stream in range(1 + len(system.extra_batches))]
    batches = list(Batches(dataset, orders, 0, STEPS, system.extra_batches))
    optimisers = system.configure_optimizers()
    began = time.perf_counter()
    for step, batch in enumerate(batches):
        for player, optimiser in zip(system.players(), optimisers, strict=True):
            optimiser.zero_grad()
            system.objective(player.name, batch, step).total(step).backward()
            optimiser.step()
    return STEPS * config.training.batch_size / (time.perf_counter() - began)


def ours(name: str, dataset: DataSet) -> float:
    """Images per second of `unweave.train`, from its own log: from the first step to the last."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"training.steps": STEPS}
        run = train(name, dataset, preset="quick", settings=settings, run=Path(folder) / "run", threads=THREADS)
        seconds = run.log()["seconds"]
    return (STEPS - 1) * run.system().config.training.batch_size / (seconds[-1] - seconds[0])


def main() -> None:
    torch.set_num_threads(THREADS)
    dataset = load("dsprites")
    for name in ("betavae", "tcvae", "factorvae"):
        pairs = [(bare(name, dataset), ours(name, dataset)) for _ in range(ROUNDS)]
        ratios = [mine / plain for plain, mine in pairs]
        print(f"{name:<10} bare {statistics.median(p for p, _ in pairs):6.0f} images/s, ours / bare "
              f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")  # fmt: skip


if __name__ == "__main__":
    main()
