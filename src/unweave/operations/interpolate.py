"""Interpolation: straight lines between the codes of inputs."""

from __future__ import annotations

import itertools
from typing import Annotated, Any

import numpy as np
import pydantic

from unweave.core.capabilities import Decodes, Encodes
from unweave.core.codes import Codes
from unweave.core.config import Config
from unweave.operations._knobs import Names, find_columns, knobs, render_grid
from unweave.operations._operation import Inputs, Shown, operation


class InterpolateParams(Config):
    """What moves, and in how many steps."""

    steps: Annotated[int, pydantic.Field(ge=2)] = 9
    """Pictures from one input to the next, both ends included."""
    blocks: Names = ()
    """Blocks or dimensions that move; the others stay as in the first input. Empty: all move."""


@operation(InterpolateParams, needs=(Encodes, Decodes), inputs=2, default_inputs=4)
def interpolate(system: Any, inputs: Inputs, params: InterpolateParams) -> Shown:
    """Walks along straight lines between the codes of inputs.

    From a to b, step t shows the mean of p(x | (1 - t) z_a + t z_b). Four inputs are the corners of a square and fill
    it bilinearly; any other number makes one row for each pair of neighbours. A whole number has no line between two
    values: it changes at the middle.
    """
    codes, _ = inputs.codes.flat()
    codes = codes.astype(np.float64)
    if params.blocks:
        moving = find_columns(inputs.codes.blocks, params.blocks)
        kept = codes
        codes = np.repeat(codes[:1], len(codes), axis=0)
        codes[:, moving] = kept[:, moving]
    t = np.linspace(0.0, 1.0, params.steps)
    if len(codes) == 4:
        left, right = _line(inputs.codes, codes[0], codes[2], t), _line(inputs.codes, codes[1], codes[3], t)
        cells = np.stack([_line(inputs.codes, a, b, t) for a, b in zip(left, right, strict=True)])
        title = "Interpolation between four inputs, one in each corner"
        rows: tuple[str, ...] = ("",) * len(t)
    else:
        cells = np.stack([_line(inputs.codes, a, b, t) for a, b in itertools.pairwise(codes)])
        title = "Interpolation from one input to the next"
        rows = tuple(f"#{a} to #{b}" for a, b in itertools.pairwise(inputs.rows))
    if params.blocks:
        title += f": {', '.join(params.blocks)} only"
    return Shown(title, render_grid(system, inputs.codes, cells), rows, tuple(f"{step:.2g}" for step in t), moves=True)


def _line(codes: Codes, start: np.ndarray, end: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(steps, D) codes from start to end, each (D,)."""
    whole = np.zeros(len(start), dtype=bool)
    for knob in knobs(codes.blocks):
        whole[list(knob.columns)] = knob.block.kind == "discrete"
    line = (1 - t[:, None]) * start + t[:, None] * end
    return np.where(whole, np.where(t[:, None] < 0.5, start, end), line)
