"""Operations on trained systems: edit the codes, run the generative program again, show the result.

`OPERATIONS` finds every operation of this package; each is also here by its own name: `unweave.operations.traverse`.
Nothing is imported before it is asked for, and nothing here imports torch.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unweave.operations._operation import OPERATIONS, Inputs, Operation, operation

__all__ = ["OPERATIONS", "Inputs", "Operation", "operation"]


class _Operations(ModuleType):
    """The attribute `traverse` is the operation, not its module of the same name, whichever was asked for first."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and not name.startswith("_"):
            value = getattr(value, name, value)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Operations


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(f"{__name__}._operation"), name)
    if not name.startswith("_"):
        registry = importlib.import_module(f"{__name__}._operation").OPERATIONS
        if name in registry:
            return registry[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    registry = importlib.import_module(f"{__name__}._operation").OPERATIONS
    return sorted((*__all__, *registry.names()))
