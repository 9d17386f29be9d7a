"""Are the settings that a person meets first alive? Every system, its defaults and `quick`, on three data sets.

    python benchmarks/defaults.py [--systems vae mlvae] [--data digits] [--presets default]
                                  [--steps-at-most N] [--minutes M] [--save]

The data: `digits` (8 x 8), `dsprites` (64 x 64, all 737,280) and a folder of 600 colour pictures of 48 x 48
(pictures.py), for `video` clips of moving digits. A run is alive when at least two dimensions of its code carry more
than 0.1 nats and its reconstructions of test rows are nearer than the mean of the training rows.

--steps-at-most  look after so many steps; a run that is alive then is not trained further, any other makes twice as
                 many, and so on to the end of its own. The table says how many of its steps a run made.
--minutes        begin no further run after so many minutes. With --save nothing is measured twice, so that the table
                 can be made in pieces; rows of an earlier source of the library are named below it until they are
                 measured again.

One thread, seed 0.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _processes import machine
from _report import HERE, kept, save, show, table
from pictures import make_folder

from unweave.batches.assemble import assemble
from unweave.core.system import SYSTEMS
from unweave.data import DataSet, load, source
from unweave.runs import Run, resume, train
from unweave.runs.checkup import LEAST, ROWS, USED, VALUES, Checkup, examine

DATA = ("digits", "dsprites", "folder", "moving_digits")
PRESETS = ("default", "quick")
THREADS = 1


def fits(system: str, data: str) -> bool:
    """Clips are for the system of clips, pictures for all others."""
    return (system == "video") == (data == "moving_digits")


def read(data: str, folder: Path) -> DataSet:
    """The data set; that of a folder is read from pictures written there."""
    if data != "folder":
        return load(data)
    return source(str(make_folder(folder)), factors=folder / "factors.csv").load()


def told(system: str, data: str) -> dict[str, Any]:
    """What a system needs said about data with several discrete factors: which one groups rows or labels them."""
    fields = SYSTEMS[system].config_class.model_fields
    names = {"dsprites": {"group": "shape", "label": "shape"}, "folder": {"group": "person", "label": "shape"}}
    return {field: name for field, name in names.get(data, {}).items() if field in fields}


def look(run: Run) -> Checkup:
    """What a run makes of test rows, labels withheld; the mean image is that of training rows."""
    dataset, split, system = run.dataset(), run.split_rows(), run.system()
    rows, others = (some(split[part], dataset.spec.shape) for part in ("test", "train"))
    unknown = {name: np.zeros(len(dataset), dtype=bool) for name in system.reads.labels}
    mean = torch.from_numpy(dataset.observations(others).mean(axis=0))
    found = examine(system, [assemble(dataset, rows, system.reads, unknown)], mean)
    assert found is not None
    return found


def some(rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """So many rows, drawn at random, as the look at a run's end takes."""
    most = min(ROWS, max(VALUES // math.prod(shape), 16), len(rows))
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def measure(system: str, dataset: DataSet, preset: str, given: dict[str, Any], at_most: int, seed: int) -> dict:
    """Train until the run is alive or out of steps, looking after `at_most`, twice as many, and so on."""
    config = SYSTEMS[system].config_class.preset(preset).override(given)
    own = config.training.steps
    steps = min(at_most, own)
    with tempfile.TemporaryDirectory() as place:
        settings = {**given, "training.steps": steps}
        options = {"preset": preset, "settings": settings, "seed": seed, "threads": THREADS, "progress": False}
        run = train(system, dataset, run=Path(place) / "run", **options)
        seconds = run.log()["seconds"][-1]
        while (found := look(run)).collapsed and steps < own:
            steps = min(2 * steps, own)
            run = resume(run.path, steps=steps, data=dataset, progress=False)
            seconds = run.log()["seconds"][-1]
    made = {"steps": steps, "own": own, "seconds": float(seconds), "alive": not found.collapsed}
    return {**made, "used": found.used, "dims": len(found.nats), "mse": found.mse, "mean_mse": found.mean_mse}


def of_source() -> str:
    """The library's source as git names it; a name of its own, never met again, where it has uncommitted changes."""
    where = HERE.parent / "src" / "unweave"
    ask = ["git", "-C", str(HERE)]
    changed = subprocess.run([*ask, "status", "--porcelain", "--", str(where)], capture_output=True, text=True)
    tree = subprocess.run([*ask, "rev-parse", "HEAD:src/unweave"], capture_output=True, text=True)
    if changed.returncode or tree.returncode or changed.stdout:
        return f"changed at {time.time():.0f}"
    return tree.stdout.strip()[:12]


def measured(path: Path) -> dict[str, dict]:
    """What is kept, by "system data preset"."""
    return json.loads(path.read_text(encoding="utf-8"))["raw"] if path.exists() else {}


def told_rows(found: dict[str, dict]) -> list[list[str]]:
    rows = []
    for name, each in found.items():
        steps = f"{each['steps']:,}" + ("" if each["steps"] == each["own"] else f" of {each['own']:,}")
        alive = "yes" if each["alive"] else "**no**"
        errors = [f"{each[error]:.4f}" for error in ("mse", "mean_mse")]
        used = f"{each['used']} of {each['dims']}"
        rows.append([*name.split(), alive, used, *errors, steps, f"{each['seconds']:.0f}"])
    return rows


def tables(found: dict[str, dict], tree: str) -> list[dict]:
    columns = ("system", "data", "preset", "alive", "in use", "error", "mean image", "steps", "seconds")
    notes = (
        f"alive: {LEAST} dimensions or more with more than {USED} nats, and a squared error of test rows below that of "
        "the mean image of training rows",
        "steps: a run that is alive after fewer than its own is not trained further here; seconds are those of the "
        "steps made, on one thread, beside other work",
    )
    earlier = [name for name, each in found.items() if each["source"] != tree]
    if earlier:
        notes = (*notes, f"of an earlier source of the library: {', '.join(earlier)}")
    return [table("What a person meets first", columns, told_rows(found), notes)]


def main() -> None:
    names = SYSTEMS.names()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", choices=names, default=names)
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=PRESETS)
    parser.add_argument("--steps-at-most", type=int, default=10**9, metavar="N")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="M")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", action="store_true", help="keep the result and put it into the README")
    given = parser.parse_args()
    began, here, tree = time.monotonic(), machine(THREADS), of_source()
    wanted = [(s, d, p) for d in given.data for s in given.systems for p in given.presets if fits(s, d)]
    found = measured(kept("defaults", here)) if given.save else {}
    with tempfile.TemporaryDirectory() as place:
        sets: dict[str, DataSet] = {}
        for system, data, preset in wanted:
            name = f"{system} {data} {preset}"
            if found.get(name, {}).get("source") == tree or time.monotonic() - began > 60 * given.minutes:
                continue
            if data not in sets:
                sets[data] = read(data, Path(place) / "pictures")
            made = measure(system, sets[data], preset, told(system, data), given.steps_at_most, given.seed)
            found[name] = {**made, "source": tree}
            print(" | ".join(told_rows({name: found[name]})[0]), flush=True)
            if given.save:
                order = {f"{s} {d} {p}": found.get(f"{s} {d} {p}") for d in DATA for s in names for p in PRESETS}
                found = {each: row for each, row in order.items() if row is not None}
                settings = {"seed": given.seed}
                save("defaults", here, settings, tables(found, tree), found)
    show(tables(found, tree))


if __name__ == "__main__":
    main()
