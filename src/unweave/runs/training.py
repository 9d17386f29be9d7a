"""Training: from a system's name and data to a run directory, resumable after a kill at any moment."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from unweave.base.config import parse_assignments
from unweave.base.errors import DataError, DeviceError, RunError, UnweaveError, unknown_name
from unweave.base.files import write_json
from unweave.base.seeding import derive_seed
from unweave.base.shell import quoted
from unweave.batches.assemble import Batches
from unweave.core.order import Table
from unweave.core.system import SYSTEMS, System
from unweave.data import (
    DataSet,
    DataSource,
    Split,
    check_observations,
    check_values,
    digest,
    factor_difference,
    source,
)
from unweave.runs.arguments import check_modules, check_settings, check_split
from unweave.runs.checkpoint import Checkpoint, checkpoint_step, read_checkpoint, save_weights
from unweave.runs.log import read_log
from unweave.runs.loop import ORDER, WEIGHTS, fit
from unweave.runs.manifest import Manifest, commit, environment, read_manifest
from unweave.runs.run import Run
from unweave.runs.threads import RECORD
from unweave.runs.writer import Writer, sole_writer


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
    threads:       of every step; chosen while it trains when not given, see docs/threads.md
    modules:       networks of your own where the system takes them: encoder=..., decoder=...
    """
    if run is not None and not str(run).strip():
        raise RunError("run is an empty text: name a folder, or leave it out for runs/SYSTEM-DATA-SEED")
    cls = SYSTEMS[system] if isinstance(system, str) else _known(system)
    check_modules(train, cls, modules)
    check_settings(settings)
    check_split(split)
    changes = parse_assignments(settings) if isinstance(settings, list) else dict(settings or {})
    config = cls.config_class.preset(preset).override(changes)
    origin, dataset = _load(data, data_settings or {})
    rows = (split or Split()).rows(dataset)
    _check_sample(dataset, rows["train"])
    labels = {} if dataset.factors is None else dataset.factors.counts()
    spec = replace(dataset.spec, size=len(rows["train"]), labels=labels)
    config = config.fitted(spec)  # a run keeps what was chosen for it, whatever a later version would choose
    manifest = Manifest(
        system=cls.name(),
        preset=preset,
        settings=config.to_dict(),
        data=origin.name if origin is not None else "",
        data_settings=origin.to_dict() if origin is not None else {},
        data_spec=spec.to_dict(),
        data_digest=digest(dataset),
        split=(split or Split()).to_dict(),
        seed=seed,
        threads=threads,
        device=choose_device(device),
        log_every=log_every,
        checkpoint_every=checkpoint_every,
    )
    # Build before anything is written: a setting that does not fit the data leaves no directory behind.
    torch.manual_seed(derive_seed(seed, WEIGHTS))
    built = cls(config, spec, **modules)
    batches = _batches(dataset, rows["train"], built, manifest, start=0)
    folder = _make_free_folder(f"{cls.name()}-{dataset.name}-{seed}") if run is None else Path(run)
    with _new_run(folder, manifest, made=run is None) as writer:
        fit(writer, manifest, built, batches, None, progress)
    return Run(folder, manifest, dataset=dataset, system=built.eval(), modules=modules)


def resume(
    run: str | Path,
    *,
    steps: int | None = None,
    data: DataSet | None = None,
    device: str | None = None,
    from_weights: bool = False,
    anew: bool = False,
    progress: bool = True,
    **modules: nn.Module,
) -> Run:
    """Go on with a run that was stopped, from its last checkpoint.

    steps:        train to this many steps in all, longer than it was meant to
    data:         the data set, for runs trained on data in memory
    device:       go on there instead of where it began; equal bit for bit only on the same one
    from_weights: where the checkpoint is lost, go on from the final weights with fresh optimisers
    anew:         where the checkpoint is lost, train again from the first step
    """
    if from_weights and anew:
        raise RunError("from_weights and anew are two ways to go on: choose one")
    folder = Path(run)
    handle = Run(folder, read_manifest(folder), dataset=data)
    check_modules(resume, SYSTEMS[handle.manifest.system], modules)
    if handle.sampled:
        raise RunError(f"{folder} has only a sample of its data with it: train another with `unweave train`")
    with sole_writer(folder) as writer:
        manifest = read_manifest(folder)  # again, now that nobody else writes it
        manifest = manifest.override({"device": choose_device(device or manifest.device)})
        if steps is not None:
            settings = {**manifest.settings, "training": {**manifest.settings["training"], "steps": steps}}
            manifest = manifest.override({"settings": settings})
        checkpoint = _last_checkpoint(folder, from_weights, anew)
        start = 0 if checkpoint is None else checkpoint.step
        torch.manual_seed(derive_seed(manifest.seed, WEIGHTS))
        handle = Run(folder, manifest, dataset=data, modules=modules)
        dataset = handle.dataset()
        built = handle.build_system()
        reads = tuple(filter(None, (built.reads.group, *built.reads.labels)))
        if other := factor_difference(dataset, manifest.data_digest, reads):
            raise DataError(f"{dataset.name} is not what {folder} was trained on, {other}: give those data")
        if checkpoint is not None:
            checkpoint.load_weights(built)
        wanted = built.config.training.steps
        if start > wanted:
            raise RunError(f"{folder} has {start} steps already: ask for more than that, e.g. --steps {2 * start}")
        if start < wanted:
            write_json(folder / "run.json", manifest.to_dict())
            batches = _batches(dataset, handle.split_rows()["train"], built, manifest, start)
            fit(writer, manifest, built, batches, checkpoint, progress)
        elif not (folder / "weights.safetensors").exists():
            save_weights(folder / "weights.safetensors", built)  # killed between the last checkpoint and this file
    return Run(folder, manifest, dataset=dataset, system=built.eval(), modules=modules)


def _last_checkpoint(folder: Path, from_weights: bool, anew: bool) -> Checkpoint | None:
    """Where to go on from; None is the first step. Where the checkpoint is lost it has to be said what is wanted."""
    state, weights = folder / "state.safetensors", folder / "weights.safetensors"
    if state.exists():
        return read_checkpoint(state)
    if from_weights and weights.exists():
        return read_checkpoint(weights)
    logged = read_log(folder / "log.csv")["step"] if (folder / "log.csv").exists() else ()
    done = checkpoint_step(weights) if weights.exists() else int(max(logged, default=0))
    if anew or not done:
        return None
    choice = "--from-weights goes on from its final weights with fresh optimisers, " if weights.exists() else ""
    in_python = "from_weights=True, anew=True" if choice else "anew=True"
    raise RunError(
        f"{folder} was trained for {done} steps and its checkpoint state.safetensors is gone: put it back, or choose: "
        f"{choice}--anew trains again from the first step (in Python: {in_python})"
    )


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


def _make_free_folder(name: str) -> Path:
    """Make runs/NAME, or runs/NAME-2, ... when there is one of this name already."""
    for suffix in itertools.chain([""], (f"-{number}" for number in itertools.count(2))):
        folder = Path("runs") / f"{name}{suffix}"
        with contextlib.suppress(FileExistsError):
            _make(folder, exist_ok=False)
            return folder
    raise AssertionError("numbers do not end")


def _make(folder: Path, exist_ok: bool) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=exist_ok)
    except OSError as error:
        if isinstance(error, FileExistsError) and not exist_ok:
            raise
        raise RunError(f"cannot write to {folder}: {error.strerror or error}; choose another --run") from None


@contextlib.contextmanager
def _new_run(folder: Path, manifest: Manifest, made: bool) -> Iterator[Writer]:
    """Make the run directory and hold it while it is trained; it goes again when not one step is finished.

    made: whether the folder was made for this run
    """
    made = made or not folder.exists()
    _make(folder, exist_ok=True)
    with sole_writer(folder) as writer:
        if (folder / "run.json").exists():
            raise RunError(
                f"{folder} holds a run already: go on with `unweave resume {quoted(folder)}`, or choose another --run"
            )
        try:
            (folder / RECORD).unlink(missing_ok=True)  # of a run whose run.json is gone: what it did is not repeated
            try:
                write_json(folder / "run.json", manifest.to_dict())
                write_json(folder / "environment.json", {**environment(), "commit": commit()})
            except OSError as error:
                raise RunError(f"cannot write to {folder}: {error.strerror or error}; choose another --run") from None
            yield writer
        except UnweaveError:
            if made and writer.holds() and not (folder / "log.csv").exists():
                shutil.rmtree(folder)  # nothing would be lost, and the name is free again
            raise


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
    seed = derive_seed(manifest.seed, ORDER)
    orders = [system.order(table, seed, stream) for stream in range(1 + len(system.extra_batches))]
    usable = {}
    for name, chosen in system.labelled(table).items():
        usable[name] = np.zeros(len(dataset), dtype=bool)
        usable[name][chosen] = True
    return Batches(dataset, orders, start, system.config.training.steps, system.extra_batches, reads, usable)
