"""Interpolation: straight lines between the codes of inputs."""

from __future__ import annotations

import itertools
from typing import Annotated, Any

import numpy as np
import pydantic

from unweave.base.config import Config
from unweave.base.errors import ConfigError
from unweave.core.capabilities import Decodes, Encodes
from unweave.core.codes import Codes
from unweave.knobs import Names, find_columns, knobs, render_grid
from unweave.media import Shown
from unweave.operations._operation import Inputs, operation


class InterpolateParams(Config):
    """What moves, and in how many steps."""

    steps: Annotated[int, pydantic.Field(ge=2)] = 9
    """Pictures from one input to the next, both ends included."""
    blocks: Names = ()
    """Blocks or dimensions that move; the others stay as in the first input. Empty: all move."""
    across: Names = ()
    """Blocks or dimensions that move downwards while the others move to the right: a grid between the first two inputs.
    Empty: no such grid."""


@operation(InterpolateParams, needs=(Encodes, Decodes), inputs=2, default_inputs=4)
def interpolate(system: Any, inputs: Inputs, params: InterpolateParams) -> Shown:
    """Walks along straight lines between the codes of inputs.

    From a to b, step t shows the mean of p(x | (1 - t) z_a + t z_b). Four inputs are the corners of a square and fill
    it bilinearly; any other number makes one row for each pair of neighbours. A whole number has no line between two
    values: it changes at the middle.

    With `across`, two parts move by themselves between the first two inputs: step (s, t) has `across` at s, downwards,
    and `blocks` at t, to the right.
    """
    codes, _ = inputs.codes.flat()
    codes = codes.astype(np.float64)
    if params.across:
        return _grid(system, inputs, params, codes[:2])
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


def _grid(system: Any, inputs: Inputs, params: InterpolateParams, ends: np.ndarray) -> Shown:
    """Two parts of the code between two inputs, one downwards and one to the right; ends (2, D)."""
    blocks = inputs.codes.blocks
    down = find_columns(blocks, params.across)
    right = find_columns(blocks, params.blocks) if params.blocks else np.setdiff1d(np.arange(ends.shape[1]), down)
    if len(np.intersect1d(down, right)) or not len(right):
        raise ConfigError(
            f"{', '.join(params.across)} cannot move both downwards and to the right: name other blocks in 'across' "
            "than in 'blocks', and leave something to move to the right"
        )
    t = np.linspace(0.0, 1.0, params.steps)
    line = _line(inputs.codes, ends[0], ends[1], t)
    cells = np.tile(ends[0], (params.steps, params.steps, 1))
    cells[:, :, down] = line[:, None, down]
    cells[:, :, right] = line[None, :, right]
    first, second = inputs.rows[:2]
    return Shown(
        f"Interpolation from #{first} to #{second}: {', '.join(params.blocks) or 'all else'} to the right, "
        f"{', '.join(params.across)} downwards",
        render_grid(system, inputs.codes, cells),
        tuple(f"{step:.2g}" for step in t),
        tuple(f"{step:.2g}" for step in t),
        moves=True,
    )


def _line(codes: Codes, start: np.ndarray, end: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(steps, D) codes from start to end, each (D,)."""
    whole = np.zeros(len(start), dtype=bool)
    for knob in knobs(codes.blocks):
        whole[list(knob.columns)] = knob.block.kind == "discrete"
    line = (1 - t[:, None]) * start + t[:, None] * end
    return np.where(whole, np.where(t[:, None] < 0.5, start, end), line)
