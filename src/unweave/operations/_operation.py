"""What an operation is: a function of a trained system, inputs and typed parameters that shows something.

Every manipulation is the same three steps: edit the mapping of blocks, run the generative program, show the result.
The parameter class is the command line, the notebook call and the web form at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
import pydantic

from unweave.base.config import Config
from unweave.base.errors import UnweaveError
from unweave.base.registry import Registry
from unweave.core.capabilities import Capability, capabilities
from unweave.core.codes import Codes
from unweave.media.shown import Shown

P = TypeVar("P", bound=Config)
Seed = Annotated[int, pydantic.Field(ge=0, le=2**63 - 1)]
"""Type of a parameter from which draws are made."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """What an operation works on.

    observations: (n, *shape) the chosen inputs
    codes:        their codes, n rows
    reference:    codes of a sample of the data, for ranges and for ordering dimensions by information
    rows:         (n,) their row numbers in the data set
    groups:       (n,) the group each belongs to, for systems trained on groups; None for others
    """

    observations: np.ndarray
    codes: Codes
    reference: Codes
    rows: np.ndarray
    groups: np.ndarray | None = None


class Operation(Generic[P]):
    """An operation with what lists, command line and pages need to know about it.

    name:     public name, also the command
    params:   its parameter class; every field has a default
    needs:    capabilities a system must have
    inputs:   the smallest number of input observations it needs (0: none)
    clips:    whether the observations must be clips (T, C, H, W)
    one_group: whether inputs that nobody chose are members of one group
    """

    def __init__(
        self,
        function: Callable[[Any, Inputs, P], Shown],
        params: type[P],
        needs: tuple[type[Capability], ...],
        inputs: int,
        default_inputs: int,
        clips: bool = False,
        one_group: bool = False,
    ):
        functools.update_wrapper(self, function)
        self.function, self.params, self.needs = function, params, needs
        self.inputs, self.default_inputs = inputs, default_inputs
        self.clips, self.one_group = clips, one_group
        self.name = function.__name__
        self.summary = (function.__doc__ or "").strip().splitlines()[0]

    def applies_to(self, system: Any) -> bool:
        """Whether a system (or system class) has the capabilities this operation needs, and a system its kind of data.

        A class has no data yet: one that may be trained on clips is taken to be.
        """
        spec = None if isinstance(system, type) else getattr(system, "spec", None)
        fits = not self.clips or spec is None or len(spec.shape) == 4
        return fits and set(self.needs) <= set(capabilities(system))

    def __call__(self, system: Any, inputs: Inputs, params: P | None = None) -> Shown:
        lacking = ", ".join(need.__name__ for need in self.needs if need not in capabilities(system))
        if lacking:
            raise UnweaveError(f"{self.name} needs a system that {lacking.lower()}: this one does not")
        if len(inputs.observations) < self.inputs:
            raise UnweaveError(
                f"{self.name} needs at least {self.inputs} inputs: got {len(inputs.observations)}; choose them with "
                "--rows, or rows=[...] in Python"
            )
        if self.clips and np.ndim(inputs.observations) != 5:
            shape = tuple(inputs.observations.shape[1:])
            raise UnweaveError(f"{self.name} needs clips (T, C, H, W): these observations have the shape {shape}")
        return self.function(system, inputs, params if params is not None else self.params())


def operation(
    params: type[P],
    *,
    needs: tuple[type[Capability], ...],
    inputs: int = 1,
    default_inputs: int = 4,
    clips: bool = False,
    one_group: bool = False,
) -> Callable[[Callable[[Any, Inputs, P], Shown]], Operation[P]]:
    """Declare a function of this package as an operation."""

    def declare(function: Callable[[Any, Inputs, P], Shown]) -> Operation[P]:
        return Operation(function, params, needs, inputs, default_inputs, clips, one_group)

    return declare


OPERATIONS: Registry[Operation] = Registry(
    "operation", "unweave.operations", lambda value: isinstance(value, Operation), lambda value: value.name
)
