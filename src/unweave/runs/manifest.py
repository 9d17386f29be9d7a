"""What a run is: system, settings, data, seed and versions, as one JSON file."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pydantic

from unweave.base.config import Config
from unweave.base.errors import RunError, UnweaveError

# Raised by one whenever an older library could no longer read a run of this one.
FORMAT = 2


class Manifest(Config):
    """Everything needed to build the system and the data of a run again."""

    format: int = FORMAT
    """Version of the run directory's layout."""
    system: str
    """Registry name of the system."""
    preset: str | None = None
    """Preset the settings started from."""
    settings: dict[str, Any]
    """The system's settings, complete."""
    data: str
    """Registry name of the data source."""
    data_settings: dict[str, Any]
    """The data source's settings, complete."""
    data_spec: dict[str, Any]
    """Shape, range and number of training observations."""
    data_digest: dict[str, Any] = pydantic.Field(default_factory=dict)
    """By what the data are known again: size, hash of sampled observations, hash of each factor."""
    split: dict[str, Any]
    """How rows are split."""
    seed: pydantic.NonNegativeInt
    """Seed of every random number."""
    threads: pydantic.PositiveInt | None
    """CPU threads; kept on resuming, since sums in another order differ in the last bit. None: chosen at every step,
    and what was used is in threads.csv."""
    device: str
    """Where it trains: cpu, cuda, mps."""
    log_every: pydantic.PositiveInt
    """Steps per log row."""
    checkpoint_every: pydantic.PositiveInt
    """Steps between checkpoints."""


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a run directory; one line says what is wrong when there is none to read."""
    path = folder / "run.json"
    if not folder.exists():
        raise RunError(f"there is no run at {folder}: check the path, or make one with `unweave train`")
    if not path.exists():
        raise RunError(f"{folder} is not a run: it has no run.json; make one with `unweave train`")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise RunError(f"{path} is damaged ({error}): restore it or train again") from None
    found = values.get("format") if isinstance(values, dict) else None
    if not isinstance(found, int):
        raise RunError(f"{path} is damaged: it names no format; restore it or train again")
    if found > FORMAT:
        raise RunError(
            f"{folder} was made by a newer version (format {found}, this one reads {FORMAT}): update unweave"
        )
    try:
        return Manifest(**values)
    except UnweaveError as error:
        raise RunError(f"{path} is damaged: {error}") from None


def environment() -> dict[str, str]:
    """Versions of what a run depends on."""
    names = ("unweave", "torch", "numpy", "scipy", "scikit-learn", "safetensors", "pydantic")
    found = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed as a package"
    return found


@cache
def commit() -> str:
    """The commit this library is at, marked when its source differs from it; the version where it is not in git."""
    here = Path(__file__).resolve().parents[1]
    if _git(here, "ls-files", "--error-unmatch", "__init__.py") is None:
        return f"version {environment()['unweave']}"
    # Evidence lies in the package and is no code: writing that of one paper does not change the next one's.
    changed = _git(here, "status", "--porcelain", "--", ".", ":(exclude)studies/reproductions/evidence")
    return (_git(here, "rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if changed else "")


def _git(folder: Path, *words: str) -> str | None:
    """What git prints, None when it fails or is not installed."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def usable_cores() -> int:
    """The cores this process may use: fewer than the machine has in a container or under `taskset`."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
