"""The report of a run: one file that works offline and shows what each dimension means."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unweave.report.build import write_report

__all__ = ["write_report"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("unweave.report.build"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
