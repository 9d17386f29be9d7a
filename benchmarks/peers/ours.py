"""`unweave.train` as a user calls it: log, TensorBoard events and checkpoints written, settings of the reference model.

The rate is read from the run's log.csv, unless contenders take turns. One checkpoint is written within the measured
stretch, where the default would have one in 500 steps; the log gets a row every `warm` steps, where the default is 50.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from common import (
    BETA,
    DISCRIMINATOR_BETAS,
    DISCRIMINATOR_LAYERS,
    DISCRIMINATOR_LR,
    DISCRIMINATOR_WIDTH,
    GAMMA,
    LR,
    ROWS,
    Clock,
    Task,
    report,
    squares,
    status,
    task,
    threads,
)
from sizes import CHANNELS, DENSE

import unweave
from unweave.data import DataSet, Split, from_arrays


def settings(made: Task) -> dict[str, Any]:
    found: dict[str, Any] = {
        "latent": made.latent,
        "training.batch_size": made.batch,
        "training.steps": made.total,
        "training.optimiser.lr": LR,
    }
    if made.model == "mnist":
        return {**found, "nets.kind": "dense", "nets.hidden": list(DENSE), "nets.activation": "relu"}
    found |= {
        "nets.activation": "relu",
        "nets.kind": "convolutional",
        "nets.channels": list(CHANNELS),
        "nets.hidden": [256, 256],
        "nets.stem": 2,
    }
    if made.model == "factorvae":
        return found | {
            "gamma": GAMMA,
            "discriminator.layers": DISCRIMINATOR_LAYERS,
            "discriminator.width": DISCRIMINATOR_WIDTH,
            "discriminator.optimiser.lr": DISCRIMINATOR_LR,
            "discriminator.optimiser.betas": list(DISCRIMINATOR_BETAS),
        }
    return found | {"beta": BETA}


def data(made: Task) -> DataSet | str:
    """Squares in memory; or a file, by its name, or with none of its pages in memory."""
    if not made.data:
        return from_arrays(squares(ROWS, made.side))
    return forgotten(Path(made.data)) if made.cold else made.data


def forgotten(path: Path) -> DataSet:
    """The memory-mapped file after the check that loading makes, with its pages given back to the system."""
    import mmap
    import os

    import numpy as np

    array = np.load(path, mmap_mode="r")
    dataset = from_arrays(array)
    mapped = array.base
    if not isinstance(mapped, mmap.mmap):
        raise SystemExit("numpy does not tell which mapping the array belongs to: cold reads cannot be measured")
    mapped.madvise(mmap.MADV_DONTNEED)
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return dataset


def run(made: Task) -> None:
    clock = Clock(made)
    clock.watch(2 if made.model == "factorvae" else 1)
    with tempfile.TemporaryDirectory() as folder:
        trained = unweave.train(
            "vae" if made.model == "mnist" else made.model,
            data(made),
            settings=settings(made),
            run=Path(folder) / "run",
            split=Split(train=1.0),
            threads=threads(),
            device="cpu",
            log_every=made.warm,
            checkpoint_every=made.warm + max(1, made.steps // 2),
        )
        log = trained.log()
    first = list(log["step"]).index(made.warm)
    rate = made.steps * made.batch / (log["seconds"][-1] - log["seconds"][first])
    more = {}
    if made.data:
        more = {"private_mb": status("RssAnon"), "mapped_mb": status("RssFile")}
    total = log["vae/total" if made.model == "factorvae" else "total"][-1]
    report(made, clock, float(rate), loss=float(total), version=unweave.__version__, **more)


if __name__ == "__main__":
    run(task("unweave", ("betavae", "tcvae", "factorvae", "mnist")))
