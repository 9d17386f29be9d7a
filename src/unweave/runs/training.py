"""Training: from a system's name and data to a run directory, resumable after a kill at any moment."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unweave.core.config import parse_assignments
from unweave.core.errors import DataError, DeviceError, RunError, UnweaveError, unknown_name
from unweave.core.files import write_json
from unweave.core.order import Table
from unweave.core.seeding import derive_seed
from unweave.core.shell import quoted
from unweave.core.system import SYSTEMS, System
from unweave.data import DataSet, DataSource, Split, source
from unweave.data._check import check_observations, check_values
from unweave.runs.arithmetic import fast_arithmetic
from unweave.runs.batches import Batches
from unweave.runs.checkpoint import checkpoint_step, load_optimisers, load_weights, save_checkpoint, save_weights
from unweave.runs.checkup import examine_run
from unweave.runs.log import TrainingLog
from unweave.runs.manifest import Manifest, commit, environment, read_manifest, usable_cores
from unweave.runs.progress import bar, say
from unweave.runs.run import Run

# Streams of random numbers that must not overlap: initial weights, order of data, noise in training.
_WEIGHTS, _ORDER, _NOISE = 0, 1, 2


def train(
    system: str | type[System],
    data: str | DataSource | DataSet,
    *,
    preset: str | None = None,
    settings: Mapping[str, Any] | list[str] | None = None,
    data_settings: Mapping[str, Any] | None = None,
    run: str | Path | None = None,
    seed: int = 0,
    split: Split | None = None,
    device: str = "auto",
    threads: int | None = None,
    log_every: int = 50,
    checkpoint_every: int = 500,
    progress: bool = True,
    **modules: nn.Module,
) -> Run:
    """Train a system on data and return its run.

    system:        registry name, or a system class of your own
    data:          registry name, path of a folder or array file, a data source, or a data set in memory
    preset:        named set of settings, e.g. "quick" or "paper"
    settings:      changes by dotted name, {"beta": 4, "training.steps": 2000} or ["beta=4", ...]
    data_settings: settings of the data source
    run:           where to write; runs/SYSTEM-DATA-SEED when not given, with a number when that is taken
    modules:       networks of your own where the system takes them: encoder=..., decoder=...
    """
    if run is not None and not str(run).strip():
        raise RunError("run is an empty text: name a folder, or leave it out for runs/SYSTEM-DATA-SEED")
    cls = SYSTEMS[system] if isinstance(system, str) else _known(system)
    changes = parse_assignments(settings) if isinstance(settings, list) else dict(settings or {})
    config = cls.config_class.preset(preset).override(changes)
    origin, dataset = _load(data, data_settings or {})
    rows = (split or Split()).rows(dataset)
    _check_sample(dataset, rows["train"])
    labels = {} if dataset.factors is None else dataset.factors.counts()
    spec = replace(dataset.spec, size=len(rows["train"]), labels=labels)
    manifest = Manifest(
        system=cls.name(),
        preset=preset,
        settings=config.to_dict(),
        data=origin.name if origin is not None else "",
        data_settings=origin.to_dict() if origin is not None else {},
        data_spec=spec.to_dict(),
        split=(split or Split()).to_dict(),
        seed=seed,
        threads=threads or sensible_threads(),
        device=choose_device(device),
        log_every=log_every,
        checkpoint_every=checkpoint_every,
    )
    # Build before anything is written: a setting that does not fit the data leaves no directory behind.
    torch.manual_seed(derive_seed(seed, _WEIGHTS))
    built = cls(config, spec, **modules)
    batches = _batches(dataset, rows["train"], built, manifest, start=0)
    folder = Path(run) if run is not None else _free_folder(f"{cls.name()}-{dataset.name}-{seed}")
    made = _create(folder, manifest)
    try:
        _fit(folder, manifest, built, batches, progress)
    except UnweaveError:
        if made and not (folder / "log.csv").exists():
            shutil.rmtree(folder)  # it never finished a step: nothing would be lost, and the name is free again
        raise
    return Run(folder, manifest, dataset=dataset, system=built.eval(), modules=modules)


def resume(
    run: str | Path,
    *,
    steps: int | None = None,
    data: DataSet | None = None,
    device: str | None = None,
    progress: bool = True,
    **modules: nn.Module,
) -> Run:
    """Go on with a run that was stopped, from its last checkpoint.

    steps:  train to this many steps in all, longer than it was meant to
    device: go on there instead of where it began; equal bit for bit only on the same one
    """
    handle = Run(Path(run), read_manifest(Path(run)), dataset=data, modules=modules)
    if handle.sampled:
        raise RunError(f"{handle.path} has only a sample of its data with it: train another with `unweave train`")
    manifest = handle.manifest.override({"device": choose_device(device or handle.manifest.device)})
    if steps is not None:
        settings = {**manifest.settings, "training": {**manifest.settings["training"], "steps": steps}}
        manifest = manifest.override({"settings": settings})
    state = handle.path / "state.safetensors"
    start = checkpoint_step(state) if state.exists() else 0
    torch.manual_seed(derive_seed(manifest.seed, _WEIGHTS))
    built = Run(handle.path, manifest, dataset=handle.dataset(), modules=modules).build_system()
    if start:
        load_weights(state, built)
    wanted = built.config.training.steps
    if start > wanted:
        raise RunError(f"{handle.path} has {start} steps already: ask for more than that, e.g. --steps {2 * start}")
    if start < wanted:
        write_json(handle.path / "run.json", manifest.to_dict())
        batches = _batches(handle.dataset(), handle.split_rows()["train"], built, manifest, start)
        _fit(handle.path, manifest, built, batches, progress)
    elif not (handle.path / "weights.safetensors").exists():
        save_weights(handle.path / "weights.safetensors", built)  # killed between the last checkpoint and this file
    return Run(handle.path, manifest, dataset=handle.dataset(), system=built.eval(), modules=modules)


def _known(cls: type[System]) -> type[System]:
    if not (isinstance(cls, type) and issubclass(cls, System)):
        raise UnweaveError(f"{cls!r} is not a system: give a name from `unweave systems` or a subclass of System")
    return SYSTEMS.register(cls)


def _load(data: str | DataSource | DataSet, settings: Mapping[str, Any]) -> tuple[DataSource | None, DataSet]:
    if isinstance(data, DataSet):
        if settings:
            raise DataError("data_settings belong to a named data source: this data set is in memory already")
        return None, data
    origin = data if isinstance(data, DataSource) else source(data, **settings)
    return origin, origin.load()


def _check_sample(dataset: DataSet, rows: np.ndarray) -> None:
    """A look at some observations: a data set of the user's own may give others than its spec says."""
    sample = dataset.observations(np.random.default_rng(0).permutation(rows)[:256])
    if sample.shape[1:] != dataset.spec.shape:
        raise DataError(
            f"{dataset.name} gives observations of shape {sample.shape[1:]} and its spec says {dataset.spec.shape}: "
            "correct the spec or the reader"
        )
    check_values(
        check_observations(sample, dataset.name), dataset.spec.values, sample, dataset.name, dataset.spec.levels
    )


def _free_folder(name: str) -> Path:
    """runs/NAME, or runs/NAME-2, ... when there is one of this name already."""
    numbers = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    return next(folder for number in numbers if not (folder := Path("runs") / f"{name}{number}").exists())


def _create(folder: Path, manifest: Manifest) -> bool:
    """Make the run directory; True when it did not exist before."""
    if (folder / "run.json").exists():
        raise RunError(
            f"{folder} holds a run already: go on with `unweave resume {quoted(folder)}`, or choose another --run"
        )
    existed = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "run.json", manifest.to_dict())
        write_json(folder / "environment.json", {**environment(), "commit": commit()})
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror or error}; choose another --run") from None
    return not existed


def sensible_threads() -> int:
    """The cores this process may use, at most 8: small networks do not gain from more."""
    return min(usable_cores(), 8)


def choose_device(device: str) -> str:
    """`auto` takes an accelerator when there is one; a device that is asked for and absent is an error."""
    available = ["cpu"]
    if torch.cuda.is_available():
        available.append("cuda")
    if torch.backends.mps.is_available():
        available.append("mps")
    if device == "auto":
        return available[-1]
    if device not in ("cpu", "cuda", "mps"):
        raise unknown_name("device", device, ("auto", "cpu", "cuda", "mps"))
    if device not in available:
        raise DeviceError(f"device {device!r} is not available on this machine: it has {', '.join(available)}")
    return device


def _batches(dataset: DataSet, rows: np.ndarray, system: System, manifest: Manifest, start: int) -> Batches:
    reads = system.reads
    table = Table(rows, None if dataset.factors is None else dataset.factors.take(rows))
    seed = derive_seed(manifest.seed, _ORDER)
    orders = [system.order(table, seed, stream) for stream in range(1 + len(system.extra_batches))]
    usable = {}
    for name, chosen in system.labelled(table).items():
        usable[name] = np.zeros(len(dataset), dtype=bool)
        usable[name][chosen] = True
    return Batches(dataset, orders, start, system.config.training.steps, system.extra_batches, reads, usable)


def _fit(folder: Path, manifest: Manifest, system: System, batches: Batches, progress: bool) -> None:
    start, steps = batches.start, batches.stop
    state = folder / "state.safetensors"
    system.training_seed, system.step = derive_seed(manifest.seed, _NOISE), start
    torch.set_num_threads(manifest.threads)
    system.to(manifest.device).train()
    optimisers = system.optimisers()
    if start:
        load_optimisers(state, optimisers)
    else:  # so that there are good weights to keep whatever happens before the first checkpoint
        save_checkpoint(state, system, optimisers)
    title = f"{system.name()} on {batches.dataset.name}"
    with (
        TrainingLog(folder / "log.csv", folder / "tensorboard", start) as log,
        bar(title, steps, start) if progress else nullcontext() as shown,
        fast_arithmetic(),
    ):
        means = _Means()
        began = time.perf_counter()
        for batch in batches:
            record = system.update(batch if manifest.device == "cpu" else batch.to(manifest.device), optimisers)
            step, last = system.step, system.step == steps
            means.add(record)
            if step == 1 or step % manifest.log_every == 0 or last:
                log.append(step, time.perf_counter() - began, means.take())
            if last:
                save_weights(folder / "weights.safetensors", system)
            if last or step % manifest.checkpoint_every == 0:
                save_checkpoint(state, system, optimisers)
            if shown is not None:
                if step % 50 == 0:
                    shown.set_postfix_str(_loss(record), refresh=False)
                shown.update(1)
    found = examine_run(folder, system, batches)
    if progress and found is not None and found.warning:
        say(found.warning)


class _Means:
    """Averages the terms of an interval of steps; a player that rests has no value at a step.

    A step only puts its values aside: they are added up where the interval ends.
    """

    def __init__(self) -> None:
        self.values: dict[str, list[Tensor]] = {}

    def add(self, record: Mapping[str, Tensor]) -> None:
        for name, value in record.items():
            self.values.setdefault(name, []).append(value)

    def take(self) -> dict[str, float]:
        """The means so far; the next interval begins."""
        means = {name: float(torch.stack(values).mean()) for name, values in self.values.items()}
        self.values = {}
        return means


def _loss(record: Mapping[str, Tensor]) -> str:
    """The first player's loss, for the progress bar."""
    totals = (value for name, value in record.items() if name.rsplit("/")[-1] == "total")
    return "".join(f"loss {float(total):.1f}" for total in itertools.islice(totals, 1))
