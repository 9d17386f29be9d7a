"""Make the trained runs that ship with the library.

    UNWEAVE_DATA=FOLDER python -m unweave.explorer.pretrain [NAME ...] [--seed N --into FOLDER]

trains each run of `RUNS`, scores it, and keeps of it what the explorer reads: settings, weights, log, scores and a
sample of test rows, so that a run opens without its data. Under half an hour on one core; MNIST is downloaded where it
is not in the data folder. Another seed goes into another folder: what ships is of the seed of its recipe.
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
from unweave.core.system import SYSTEMS
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
    seed: int = 0
    rows: int = 2000
    seeded: tuple[str, ...] = ()

    def chosen(self) -> dict[str, Any]:
        """The settings that differ from the preset's."""
        return {**self.settings, **dict.fromkeys(self.seeded, self.seed)}

    def complete(self) -> dict[str, Any]:
        """All settings of the system, as a run keeps them."""
        return SYSTEMS[self.system].config_class.preset(self.preset).override(self.chosen()).to_dict()


def _falling(rate: float, steps: int) -> dict[str, Any]:
    """The number of steps, and a learning rate that falls to a twentieth in them."""
    return {"training.steps": steps, "training.optimiser.lr": f"cosine({rate:g}, {rate / 20:g}, {steps})"}


RUNS = {
    # A KL that costs much at first lets the position in before anything else, so that x and y get dimensions of their
    # own; then it falls to the 4 of the preset, and scale finds a place. Shape and orientation do not: every sprite
    # becomes a disc. The first settings that were tried.
    "sprites-betavae": Recipe(
        "betavae", "dsprites", "quick", {"beta": "exponential(100, 4, 8000, 500)", **_falling(1e-3, 10_000)}
    ),
    # The start of the reproduction (`unweave reproduce hfvae`): the category before the style, its information free of
    # charge. Over more steps, and warm at first, so that more categories stay alive. The end of alpha is 3 and not 1: a
    # code that knows more than the memory can tell (log 2176 = 7.7 nats) would be charged for its category again. The
    # temperature was chosen on training rows: with 0.66 from the start four categories were in use after 800 steps at
    # alpha = 8, with this one five.
    "mnist-hfvae": Recipe(
        "hfvae",
        "mnist",
        "mnist",
        {
            "nets.kind": "dense",
            "nets.hidden": [256, 256],
            "alpha": "linear(8, 3, 4000)",
            "anchors": ["digit"],
            "anchor": "linear(8, 3, 4000)",
            "temperature": "exponential(2, 0.66, 2000)",
            "memory": 2048,
            "training.batch_size": 128,
            **_falling(2e-3, 7000),
        },
        {"morphology": True},
    ),
    # Chosen by the swaps of eight test rows. With the preset's likelihood they were blends of two digits; with the
    # normal one of the reproduction (`unweave reproduce mlvae`: deviation 1) style left the digit alone, but pictures
    # were faint. Less noise makes them clearer, and groups of 8 instead of 25: the page shows the content of one image.
    "mnist-mlvae": Recipe(
        "mlvae",
        "mnist",
        "quick",
        {
            "nets.hidden": [256],
            "nets.activation": "relu",
            "likelihood.kind": "gaussian",
            "likelihood.std": 0.7,
            "members": 8,
            **_falling(1e-3, 8000),
        },
        {"morphology": True},
    ),
}
"""The runs by the names of their folders. All are of seed 0, the only one that was tried."""


def make(name: str, recipe: Recipe, folder: Path, progress: bool = True) -> None:
    """Train a run in a folder of its own and put what is kept into `folder`/name, in place of what was there."""
    with tempfile.TemporaryDirectory() as work:
        trained = train(
            recipe.system,
            recipe.data,
            preset=recipe.preset,
            settings=recipe.chosen(),
            data_settings=dict(recipe.data_settings),
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
