"""Runs that ship with the library, so that there is something to explore before anyone trains.

`python -m unweave.explorer.pretrain` makes them anew.
"""

from __future__ import annotations

from pathlib import Path

from unweave.base.errors import RunError


def pretrained_runs() -> list[Path]:
    """Their directories."""
    found = sorted(path.parent for path in Path(__file__).parent.glob("*/run.json"))
    if not found:
        raise RunError("no trained runs ship with this installation: give a run, as in `unweave explore runs/demo`")
    return found
