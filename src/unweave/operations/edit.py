"""Edit: chosen dimensions set to chosen values, all else as in the input's code or in a draw from the prior."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pydantic

from unweave.base.config import Config
from unweave.base.errors import ConfigError, UnweaveError
from unweave.core.capabilities import Decodes, Encodes, Samples
from unweave.knobs import Knob, find_knobs, render_grid
from unweave.media import Shown
from unweave.operations._operation import Inputs, Seed, operation

_ONE = re.compile(r"\s*([^=]+?)\s*=\s*([^=\s]+)\s*")
LARGEST = 1_000_000
"""Of a value in either direction: a decoder makes nothing of larger ones."""


def _assignments(text: str) -> tuple[tuple[str, float], ...]:
    """`"z[3]=1.2, digit=4"` as (("z[3]", 1.2), ("digit", 4.0)): commas inside brackets belong to the name."""
    found = []
    for part in re.split(r",(?![^\[]*\])", text):
        if not part.strip():
            continue
        one = _ONE.fullmatch(part)
        value = _number(one[2]) if one is not None else None
        if one is None or value is None:
            raise ConfigError(
                f"cannot read {part.strip()!r}: write dimension=number, such as z[3]=1.2,digit=4, "
                f"with numbers from {-LARGEST:,} to {LARGEST:,}"
            )
        found.append((one[1], value))
    return tuple(found)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= LARGEST else None  # neither infinite nor no number


class EditParams(Config):
    """What is set, and in which code."""

    set: str = ""
    """Dimensions with their new values, such as z[3]=1.2,digit=4: a real dimension takes any number, a category its
    number, a whole number itself. Empty: nothing changes."""
    seed: Seed | None = None
    """The code is drawn from the prior with this seed before anything is set. None: it is the input's own."""

    @pydantic.field_validator("set")
    @classmethod
    def _readable(cls, text: str) -> str:
        return ", ".join(f"{name}={value:.9g}" for name, value in _assignments(text))


@operation(EditParams, needs=(Encodes, Decodes), inputs=1, default_inputs=4)
def edit(system: Any, inputs: Inputs, params: EditParams) -> Shown:
    """Sets dimensions to values and shows what becomes of the inputs.

    Each row is an input: itself, its reconstruction, and the mean of p(x | z) with the chosen dimensions at their new
    values and all others as they were, or as in a draw from the prior when there is a seed.
    """
    codes, _ = inputs.codes.flat()
    changed = codes.astype(np.float64).copy()
    if params.seed is not None:
        changed[:] = _draw(system, params.seed)
    for name, value in _assignments(params.set):
        for knob in find_knobs(inputs.codes.blocks, [name]):
            changed[:, list(knob.columns)] = _value(knob, value)
    rendered = render_grid(system, inputs.codes, np.stack([codes.astype(np.float64), changed], axis=1))
    originals = np.asarray(inputs.observations, dtype=np.float32)[:, None]
    names = tuple(f"#{row}" for row in inputs.rows)
    return Shown(
        _title(params), np.concatenate([originals, rendered], axis=1), names, ("input", "reconstruction", "edited")
    )


def _draw(system: Any, seed: int) -> np.ndarray:
    """(D,) one code of the prior: that of the explorer's Random for the same seed."""
    if not isinstance(system, Samples):
        raise UnweaveError("edit with a seed needs a system that samples: this one does not; leave the seed out")
    drawn: np.ndarray = system.draw(1, seed).flat()[0][0]  # type: ignore[attr-defined]
    return drawn


def _title(params: EditParams) -> str:
    what = params.set or "nothing is set"
    return f"Edit: {what}" if params.seed is None else f"Edit of draw {params.seed}: {what}"


def _value(knob: Knob, number: float) -> np.ndarray:
    """(columns of the knob,) what it is set to, the same at each step of time."""
    if knob.block.kind == "real":
        return np.full(len(knob.columns), number)
    if number != int(number) or number < 0:
        raise ConfigError(f"{knob.name} takes whole numbers from 0 on: got {number:g}")
    if knob.block.kind == "discrete":
        return np.full(len(knob.columns), number)
    count = knob.by_step.shape[1]
    if number >= count:
        raise ConfigError(f"{knob.name} has the categories 0 to {count - 1}: got {number:g}")
    return np.tile(np.eye(count)[int(number)], knob.steps)
