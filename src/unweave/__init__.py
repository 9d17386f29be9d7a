"""Disentangled representations: train, score, edit and explore codes whose named parts each stand for one thing.

    import unweave

    run = unweave.train("betavae", "dsprites", preset="quick")   # a run directory
    print(run.evaluate().table())                                # every score that applies
    run.report()                                                 # one HTML file that shows what each dimension means

Nothing heavy is imported until it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from unweave.runs.run import Run as Run
    from unweave.runs.training import resume as resume
    from unweave.runs.training import train as train

_WHERE = {"train": "unweave.runs.training", "resume": "unweave.runs.training", "Run": "unweave.runs.run"}
_PACKAGES = ("core", "data", "metrics", "nets", "objectives", "operations", "report", "runs", "systems")


def __getattr__(name: str) -> Any:
    import importlib

    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"unweave.{name}")
    raise AttributeError(f"module 'unweave' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*globals(), *_WHERE, *_PACKAGES))
