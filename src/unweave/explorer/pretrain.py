"""Make the trained runs that ship with the library.

    UNWEAVE_DATA=FOLDER python -m unweave.explorer.pretrain [NAME ...] [--seed N --into FOLDER]

trains each run of `RUNS`, scores it, and keeps of it what the explorer reads: settings, weights, log, scores and a
sample of test rows, so that a run opens without its data. Under half an hour on one core; each of digits takes three
minutes. MNIST is downloaded where it is not in the data folder. Another seed goes into another folder: what ships is of
the seed of its recipe.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.torch import save_file

from unweave.base.errors import unknown_name
from unweave.core.system import SYSTEMS, SystemConfig
from unweave.data import Split
from unweave.explorer import pretrained
from unweave.runs import Run, train
from unweave.runs.sample import write_sample

KEPT = ("run.json", "environment.json", "weights.safetensors", "log.csv", "scores.json", "sample.npz")


@dataclass(frozen=True)
class Recipe:
    """How one run is trained; `rows` of its test rows travel with it, and `seeded` settings have the run's seed too."""

    system: str
    data: str
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    data_settings: Mapping[str, Any] = field(default_factory=dict)
    split: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    rows: int = 2000
    seeded: tuple[str, ...] = ()

    def chosen(self) -> dict[str, Any]:
        """The settings that differ from the preset's."""
        return {**self.settings, **dict.fromkeys(self.seeded, self.seed)}

    def config(self) -> SystemConfig:
        """All settings of the system; a run keeps them as they are fitted to its data."""
        return SYSTEMS[self.system].config_class.preset(self.preset).override(self.chosen())


def _falling(rate: float, steps: int) -> dict[str, Any]:
    """The number of steps, and a learning rate that falls to a twentieth in them."""
    return {"training.steps": steps, "training.optimiser.lr": f"cosine({rate:g}, {rate / 20:g}, {steps})"}


RUNS = {
    # The recipe of `unweave demo` (studies/demo.py, chosen on seeds of 100 and more): sprites that are not turned, the
    # shape of 300 of them told. A style that costs much at first gives x, y and size a dimension each; then its price
    # falls, and they become precise. Half as long again was tried with this seed: pictures were no better, x and y less
    # apart (MIG 0.54).
    "sprites-structured": Recipe(
        "structured",
        "dsprites",
        "quick",
        {
            "label": "shape",
            "labels": 300,
            "rho": 0.25,
            "alpha": 50.0,
            "latent": 3,
            "beta": "exponential(4, 1, 4000, 3000)",
            "nets.kind": "convolutional",
            "nets.stem": 4,
            "nets.channels": [64, 64, 64],
            "nets.hidden": [256],
            "classifier.kind": "convolutional",
            "classifier.stem": 2,
            "classifier.channels": [16, 32, 64],
            "classifier.hidden": [64],
            "shift": 4,
            "training.batch_size": 64,
            "training.steps": 8000,
            "training.optimiser.lr": "cosine(0.001, 0.0001, 8000)",
        },
        data_settings={"resolution": 32, "steps": [4, 1, 17, 17]},
        split={"train": 0.8},
        rows=600,
        seeded=("label_seed",),
    ),
    # 100 labels, ten of each digit: without any, the category of `hfvae` held two digits as often as one (purity 0.65).
    # What has no label is summed over (discrete=enumerate). Labelled images count a fiftieth as images, since the same
    # 100 in all batches are soon known by heart, and what is decoded between them is mist; they count for much as
    # labels. Noise decides how much style there is. With the preset's likelihood ten dimensions are in use, and two of
    # five pictures show the digit that was put into the code; with a deviation of 0.6 seven of eight do; with 0.9
    # nearly all, and of four dimensions two are left, one for slant and one for width and ink. Chosen on seed 100 and
    # validation rows with networks twice as wide; these make smaller files.
    "mnist-structured": Recipe(
        "structured",
        "mnist",
        settings={
            "labels": 100,
            "rho": 0.25,
            "gamma": 0.02,
            "alpha": 2500.0,
            "discrete": "enumerate",
            "latent": 4,
            "nets.kind": "dense",
            "nets.hidden": [256, 128],
            "nets.activation": "relu",
            "likelihood.kind": "gaussian",
            "likelihood.std": 0.9,
            "classifier.kind": "convolutional",
            "classifier.activation": "relu",
            "classifier.channels": [32, 64],
            "classifier.hidden": [64],
            "classifier.norm": "layer",
            "dropout": 0.5,
            "shift": 2,
            "training.batch_size": 128,
            "training.steps": 2000,
            "training.optimiser.lr": "cosine(0.001, 0, 2000)",
        },
        data_settings={"morphology": True},
        seeded=("label_seed",),
    ),
    # A short style, of four dimensions under much noise (deviation 1), has no room for the digit, which is cheaper in
    # the content of a group. With ten dimensions and a deviation of 0.7 three of four swapped pictures showed the digit
    # of the content, with five and 0.7 as many, with these nine of ten. Groups of 3 for twice as many steps were as
    # good. Chosen on seed 100 and validation rows with networks twice as wide; these make smaller files.
    "mnist-mlvae": Recipe(
        "mlvae",
        "mnist",
        settings={
            "content": 6,
            "style": 4,
            "groups_per_batch": 10,
            "members": 16,
            "nets.kind": "dense",
            "nets.hidden": [256, 128],
            "nets.activation": "relu",
            "likelihood.kind": "gaussian",
            "likelihood.std": 1.0,
            **_falling(1e-3, 6000),
        },
        data_settings={"morphology": True},
    ),
}
"""The runs by the names of their folders. All are of seed 0."""


def make(name: str, recipe: Recipe, folder: Path, progress: bool = True) -> None:
    """Train a run in a folder of its own and put what is kept into `folder`/name, in place of what was there."""
    with tempfile.TemporaryDirectory() as work:
        trained = train(
            recipe.system,
            recipe.data,
            preset=recipe.preset,
            settings=recipe.chosen(),
            data_settings=dict(recipe.data_settings),
            split=Split.from_dict(dict(recipe.split)),
            seed=recipe.seed,
            run=Path(work) / name,
            threads=1,  # sums in one order, however many cores there are
            device="cpu",
            log_every=100,
            progress=progress,
        )
        _halve(trained.path)
        run = Run.open(trained.path, data=trained.dataset())  # what is scored is what ships
        run.encode_split()
        run.evaluate(progress=progress)
        rows = np.random.default_rng(recipe.seed).permutation(run.split_rows()["test"])[: recipe.rows]
        write_sample(run.path, run.dataset(), np.sort(rows))
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
        for file in KEPT:
            shutil.copyfile(run.path / file, folder / name / file)
    size = sum(path.stat().st_size for path in (folder / name).iterdir())
    print(f"{name}: {size / 1e6:.1f} MB, {Run.open(folder / name).steps} steps")


def _halve(folder: Path) -> None:
    """Weights in 16 bits, half the size: loading puts them into 32 again. The checkpoint to go on from is left out."""
    path = folder / "weights.safetensors"
    with safe_open(str(path), framework="pt") as file:
        header = file.metadata()
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    save_file({name: w.half() if w.is_floating_point() else w for name, w in weights.items()}, str(path), header)
    (folder / "state.safetensors").unlink(missing_ok=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m unweave.explorer.pretrain", description="Make the runs that ship.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which; all without a name: {', '.join(RUNS)}")
    parser.add_argument("--seed", type=int, help="instead of the recipe's; with --into")
    parser.add_argument("--into", type=Path, help="folder for the runs, instead of that of those that ship")
    asked = parser.parse_args(arguments)
    if asked.seed is not None and asked.into is None:
        parser.error("a run of another seed does not ship: say where it goes with --into FOLDER")
    for name in asked.names:
        if name not in RUNS:
            raise unknown_name("run", name, RUNS)
    for name in asked.names or RUNS:
        recipe = RUNS[name] if asked.seed is None else replace(RUNS[name], seed=asked.seed)
        make(name, recipe, asked.into or Path(pretrained.__file__).parent)


if __name__ == "__main__":
    main(sys.argv[1:])
