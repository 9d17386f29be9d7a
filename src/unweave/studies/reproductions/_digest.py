"""A digest of the code behind a measurement: it changes when the function, or one of the same package it uses, does.

Bytecode, constants and names count; comments, layout, code outside the package `unweave.studies` and what a function
imports while it runs do not.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from typing import Any

_first: dict[int, tuple[Any, list[str]]] = {}
"""Lists and tables of modules as they were first seen: one that collects results at work is not other code."""

PLAIN = (str, bytes, int, float, complex, bool, type(None))


def code_digest(function: Any) -> str:
    """16 hexadecimal digits."""
    home = str(getattr(getattr(function, "func", function), "__module__", ""))
    return hashlib.sha256("\n".join(_told(function, home, set())).encode()).hexdigest()[:16]


def _told(value: Any, home: str, seen: set[int]) -> list[str]:
    """Lines that stand for a value: everything of it that can change what it computes."""
    if isinstance(value, PLAIN):
        return [repr(value)]
    if isinstance(value, (tuple, list)):
        return [f"{type(value).__name__} {len(value)}", *(line for item in value for line in _told(item, home, seen))]
    if isinstance(value, (set, frozenset)):
        return sorted(repr(item) for item in value)
    if isinstance(value, dict):
        return [line for pair in value.items() for line in _told(pair, home, seen)]
    if isinstance(value, functools.partial):
        return _told((value.func, value.args, value.keywords), home, seen)
    if isinstance(value, types.CodeType):
        return _told((value.co_code, value.co_names, value.co_consts), home, seen)
    if not _ours(value, home) or id(value) in seen:
        return []
    seen.add(id(value))  # functions, classes and instances live as long as their module: no other gets this id
    if isinstance(value, types.FunctionType):
        inner = [cell.cell_contents for cell in value.__closure__ or () if _is_set(cell)]
        lines = _told((value.__code__, value.__defaults__, value.__kwdefaults__, inner), home, seen)
        used = (value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__)
        return lines + [line for item in used for line in _told_of_module(item, home, seen)]
    if isinstance(value, type):
        return _told([member for name, member in vars(value).items() if not name.startswith("__")], home, seen)
    return _told(vars(value), home, seen) if dataclasses.is_dataclass(value) else []


def _told_of_module(value: Any, home: str, seen: set[int]) -> list[str]:
    if not isinstance(value, (list, dict, set)):
        return _told(value, home, seen)
    if id(value) not in _first:
        _first[id(value)] = (value, [])  # it may hold a function that uses it
        _first[id(value)] = (value, _told(value, home, set()))
    return _first[id(value)][1]


def _ours(value: Any, home: str) -> bool:
    module = str(getattr(value, "__module__", ""))
    return module == home or module.startswith("unweave.studies.")


def _names(code: types.CodeType) -> list[str]:
    """Global names that a function and those written inside it use."""
    inner = (name for constant in code.co_consts if isinstance(constant, types.CodeType) for name in _names(constant))
    return list(dict.fromkeys((*code.co_names, *inner)))


def _is_set(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
