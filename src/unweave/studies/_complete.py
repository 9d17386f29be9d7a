"""Make planned runs complete: train what is missing, go on with what was stopped, reuse what is finished.

Each run is a process of its own with its share of the cores: runs at a time x threads of each are never more than there
are. Within its share a run chooses its threads by measuring, as any other does.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unweave.base.errors import UnweaveError
from unweave.core.dataspec import DataSpec
from unweave.core.system import SYSTEMS
from unweave.data import Split, source
from unweave.runs.checkpoint import checkpoint_step
from unweave.runs.manifest import read_manifest, usable_cores
from unweave.studies._study import PlannedRun


def complete_all(
    planned: Sequence[PlannedRun],
    folder: Path,
    share: Share,
    done: Callable[[PlannedRun], None],
    score: bool = True,
) -> None:
    """Complete all runs, some at a time; after a failure or an interrupt no further run is started."""
    pool = ThreadPoolExecutor(share.runs)
    try:
        working = {pool.submit(complete, run, folder, share, score): run for run in planned}
        for future in as_completed(working):
            future.result()
            done(working[future])
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True)
class Share:
    """How runs share the cores.

    runs:    at a time
    threads: of each: as many when `fixed`, else never more
    """

    runs: int
    threads: int
    fixed: bool

    @classmethod
    def of(cls, jobs: int, threads: int | None = None) -> Share:
        """As many runs at a time as were asked for, if there are cores for all their threads."""
        runs = max(1, min(jobs, usable_cores() // (threads or 1)))
        return cls(runs, threads or usable_cores() // runs, threads is not None)

    def __str__(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{'' if self.fixed else 'up to '}{self.threads} threads"
        return f"{self.runs} at a time with {threads} each"


def complete(run: PlannedRun, folder: Path, share: Share, score: bool = True) -> None:
    """Train (or resume) one run in a process of its own, and score it, unless that has been done."""
    path = folder / run.name
    if (path / "run.json").exists():
        require_same(run, path)
    if score and (path / "scores.json").exists():
        return
    if (path / "run.json").exists():
        if not is_finished(path):
            _command(path, share.threads, "resume", str(path), "--quiet")
    else:
        settings = {**run.settings, **{f"data.{key}": value for key, value in run.data_settings.items()}}
        settings |= {f"split.{key}": value for key, value in run.split.items()}
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={_written(value)}")]
        preset = ["--preset", run.preset] if run.preset else []
        options = ["--seed", str(run.seed), "--quiet", "--run", str(path)]
        options += ["--threads", str(share.threads)] if share.fixed else []
        _command(path, share.threads, "train", run.system, "--data", run.data, *preset, *words, *options)
    if score:
        _command(path, share.threads, "evaluate", str(path), "--quiet")


def is_finished(path: Path) -> bool:
    """Whether the run at `path` has its final weights, of as many steps as its settings say."""
    weights = path / "weights.safetensors"
    if not (path / "run.json").exists() or not weights.exists():
        return False
    return checkpoint_step(weights) >= read_manifest(path).settings["training"]["steps"]


def require_same(run: PlannedRun, path: Path) -> None:
    """A run of an earlier plan must not be counted as one of this."""
    found = read_manifest(path)
    planned = SYSTEMS[run.system].config_class.preset(run.preset).override(run.settings)
    settings = planned.fitted(DataSpec.from_dict(found.data_spec)).to_dict()
    data = source(run.data, **run.data_settings)
    expected = {
        "system": run.system,
        "seed": run.seed,
        "settings": settings,
        "data": data.name,
        "data_settings": data.to_dict(),
        "split": Split().override(run.split).to_dict(),
    }
    other = [name.replace("_", " ") for name, value in expected.items() if getattr(found, name) != value]
    if other:
        raise UnweaveError(
            f"{path} holds a run with other settings than are planned ({', '.join(other)}): move it, or choose another "
            "--folder"
        )


def _written(value: Any) -> str:
    """A setting as the command line reads it."""
    return str(value) if isinstance(value, str) or value is None else json.dumps(value, default=str)


def _command(path: Path, threads: int, *words: str) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "LOKY_MAX_CPU_COUNT": str(threads)}
    done = subprocess.run([sys.executable, "-m", "unweave", *words], capture_output=True, text=True, env=env)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UnweaveError(f"`unweave {shlex.join(words)}` failed: {last}; mend it, then start the same command again")
