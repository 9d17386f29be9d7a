"""What `train`, `resume` and `Run.open` are called with: a keyword they do not have is told what it may have meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from unweave.base.errors import ArgumentError, nearest
from unweave.core.system import System
from unweave.data import DataSet, Split

_ELSEWHERE = {
    "out": "run",
    "output": "run",
    "output_dir": "run",
    "folder": "run",
    "dir": "run",
    "dataset": "data",
    "random_state": "seed",
    "random_seed": "seed",
    "num_threads": "threads",
    "verbose": "progress",
    "quiet": "progress",
}
"""What other libraries call arguments."""
_ALIKE = 0.7
"""How much a misspelt word is like the one that was meant; less would be guessed."""


def check_modules(function: Callable[..., Any], system: type[System], modules: Mapping[str, Any]) -> None:
    """Raise ArgumentError unless all keywords are modules that the system takes.

    function: who was called with them, which takes the modules beside arguments of its own
    """
    takes = _parameters(system)
    if inspect.Parameter.VAR_KEYWORD in {parameter.kind for parameter in takes.values()}:
        return  # a system of the user's own that takes what it likes
    for name, value in modules.items():
        if name not in takes:
            raise ArgumentError(_told(function, system, tuple(takes), name, value))
        if "Module" in str(takes[name].annotation) and not isinstance(value, (nn.Module, type(None))):
            raise ArgumentError(
                f"{name} is of type {type(value).__name__}: {system.name()} takes a torch.nn.Module there"
            )


def check_data(data: Any) -> None:
    """Raise ArgumentError for a data set in memory that is not one: an array, a tensor, a list."""
    if not isinstance(data, DataSet):
        raise ArgumentError(
            f"data is of type {type(data).__name__}: make it a data set with unweave.data.from_arrays(...) or "
            "unweave.data.load(...)"
        )


def check_settings(settings: Any) -> None:
    """Raise ArgumentError unless settings are a mapping or a list of assignments."""
    if not (settings is None or isinstance(settings, (Mapping, list))):
        raise ArgumentError(
            f"settings is of type {type(settings).__name__}: give a mapping, settings={{'beta': 4}}, or a list, "
            "settings=['beta=4']"
        )


def check_split(split: Any) -> None:
    """Raise ArgumentError unless split is one."""
    if not (split is None or isinstance(split, Split)):
        raise ArgumentError(f"split is of type {type(split).__name__}: give unweave.data.Split(train=0.8) or the like")


def _parameters(system: type[System]) -> dict[str, inspect.Parameter]:
    """What the system's class takes beside settings and the kind of the data."""
    parameters = list(inspect.signature(system).parameters.values())
    return {parameter.name: parameter for parameter in parameters[2:]}


def _told(function: Callable[..., Any], system: type[System], takes: tuple[str, ...], name: str, value: Any) -> str:
    own = _own(function)
    if isinstance(value, nn.Module):
        close = nearest(name, takes, limit=1, cutoff=_ALIKE)
        guess = f"did you mean {close[0]!r}? " if close else ""
        return f"{system.name()} takes no module {name!r}: {guess}its modules are {', '.join(takes) or 'none'}"
    told, config = f"{function.__name__} has no argument {name!r}", system.config_class
    setting = config.setting_meant(name)
    if setting is not None and "settings" in own:
        why = "training is counted in steps" if "epochs" in name else "it is a setting"
        shown = repr(value) if isinstance(value, (int, float, str)) and "epochs" not in name else "..."
        return f"{told}: {why}, settings={{{setting!r}: {shown}}}"
    end = "" if setting is None else setting.rsplit(".", 1)[-1]  # as `resume` has steps=
    for word in (end, _ELSEWHERE.get(name, "")):
        if word in own:
            return f"{told}: did you mean {word!r}?"
    ends = {dotted.rsplit(".", 1)[-1]: dotted for dotted in config.setting_names()} if "settings" in own else {}
    close = nearest(name, (*own, *takes, *ends), limit=1, cutoff=_ALIKE)
    if close and close[0] in ends:
        return f"{told}: did you mean settings={{{ends[close[0]]!r}: ...}}?"
    settings = "; settings go into settings={NAME: VALUE}" if ends else ""
    modules = f"; modules of {system.name()} are {', '.join(takes)}" if takes else ""
    if close:
        return f"{told}: did you mean {close[0]!r}?"
    return f"{told}: it has {', '.join(own)}{settings}{modules}"


def _own(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of a function's own arguments."""
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return tuple(
        name for name, parameter in inspect.signature(function).parameters.items() if parameter.kind not in kinds
    )
