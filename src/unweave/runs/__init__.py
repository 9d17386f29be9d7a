"""Runs: the directory in which training, encoding, scoring and pictures come together."""

from __future__ import annotations

from typing import Any

_WHERE = {"Run": "run", "train": "training", "resume": "training", "Manifest": "manifest"}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _WHERE:
        return getattr(importlib.import_module(f"unweave.runs.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'unweave.runs' has no attribute {name!r}")
