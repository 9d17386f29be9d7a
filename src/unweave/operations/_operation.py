"""What an operation is: a function of a trained system, inputs and typed parameters that shows something.

Every manipulation is the same three steps: edit the mapping of blocks, run the generative program, show the result.
The parameter class is the command line, the notebook call and the web form at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from unweave.core.capabilities import Capability, capabilities
from unweave.core.codes import Codes
from unweave.core.config import Config
from unweave.core.errors import UnweaveError
from unweave.core.registry import Registry

P = TypeVar("P", bound=Config)


@dataclass(frozen=True, eq=False)
class Inputs:
    """What an operation works on.

    observations: (n, *shape) the chosen inputs
    codes:        their codes, n rows
    reference:    codes of a sample of the data, for ranges and for ordering dimensions by information
    rows:         (n,) their row numbers in the data set
    """

    observations: np.ndarray
    codes: Codes
    reference: Codes
    rows: np.ndarray


@dataclass(frozen=True, eq=False)
class Shown:
    """The result of an operation: a grid of pictures with names, savable as PNG, and as GIF when it moves.

    title:   one line
    images:  (R, K, C, H, W) grid of R rows and K columns, values in data units; a cell of NaN is left blank
    rows:    R row names, may be empty strings
    columns: K column names, may be empty strings
    moves:   True when the columns are a movement: the GIF shows them one after the other
    """

    title: str
    images: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    moves: bool = False


class Operation(Generic[P]):
    """An operation with what lists, command line and pages need to know about it.

    name:     public name, also the command
    params:   its parameter class; every field has a default
    needs:    capabilities a system must have
    inputs:   the smallest number of input observations it needs (0: none)
    """

    def __init__(
        self,
        function: Callable[[Any, Inputs, P], Shown],
        params: type[P],
        needs: tuple[type[Capability], ...],
        inputs: int,
        default_inputs: int,
    ):
        functools.update_wrapper(self, function)
        self.function, self.params, self.needs = function, params, needs
        self.inputs, self.default_inputs = inputs, default_inputs
        self.name = function.__name__
        self.summary = (function.__doc__ or "").strip().splitlines()[0]

    def applies_to(self, system: Any) -> bool:
        """Whether a system (or system class) has the capabilities this operation needs."""
        return set(self.needs) <= set(capabilities(system))

    def __call__(self, system: Any, inputs: Inputs, params: P | None = None) -> Shown:
        if not self.applies_to(system):
            lacking = ", ".join(need.__name__ for need in self.needs if need not in capabilities(system))
            raise UnweaveError(f"{self.name} needs a system that {lacking.lower()}: this one does not")
        if len(inputs.observations) < self.inputs:
            raise UnweaveError(f"{self.name} needs at least {self.inputs} inputs: got {len(inputs.observations)}")
        return self.function(system, inputs, params if params is not None else self.params())


def operation(
    params: type[P], *, needs: tuple[type[Capability], ...], inputs: int = 1, default_inputs: int = 4
) -> Callable[[Callable[[Any, Inputs, P], Shown]], Operation[P]]:
    """Declare a function of this package as an operation."""

    def declare(function: Callable[[Any, Inputs, P], Shown]) -> Operation[P]:
        return Operation(function, params, needs, inputs, default_inputs)

    return declare


OPERATIONS: Registry[Operation] = Registry(
    "operation", "unweave.operations", lambda value: isinstance(value, Operation), lambda value: value.name
)
