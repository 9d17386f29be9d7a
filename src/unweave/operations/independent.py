"""Independent generations: one block of a clip moves on while all others are held (Whitney, Fergus, fig. 3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pydantic

from unweave.base.config import Config
from unweave.base.errors import ConfigError, UnweaveError
from unweave.core.capabilities import Decodes, Encodes
from unweave.core.codes import Codes
from unweave.knobs import Names, find_knobs, render_grid, time_axis
from unweave.media import Shown
from unweave.operations._operation import Inputs, operation


class IndependentParams(Config):
    """What moves, and where the rest is held."""

    blocks: Names = ()
    """Blocks or dimensions that move, each by itself. Empty: every block that has steps of time."""
    hold: pydantic.NonNegativeInt = 1
    """The step, counted from 0, whose values all other blocks keep."""


@operation(IndependentParams, needs=(Encodes, Decodes), inputs=1, default_inputs=1, clips=True)
def independent(system: Any, inputs: Inputs, params: IndependentParams) -> Shown:
    """Lets one block of a clip move on while all others stand still.

    Rows are the clip, its reconstruction, and one for each block i: step t is the mean of
    p(x | z^1_h, ..., z^i_t, ..., z^K_h) with the blocks of q(z | x) and the step h = `hold`. Columns are time.
    """
    timed = [block.name for block in inputs.codes.blocks if time_axis(block) is not None]
    if not timed:
        raise UnweaveError("independent needs a code with steps of time: no block of this system has a time axis")
    names = params.blocks or tuple(timed)
    flat = inputs.codes.flat()[0]  # (n, D)
    held = _held(inputs.codes, params.hold).flat()[0]
    cells = np.stack([flat, *[held] * len(names)], axis=1)  # (n, 1 + M, D)
    for row, name in enumerate(names, start=1):
        for knob in find_knobs(inputs.codes.blocks, [name]):
            if knob.block.name not in timed:
                raise UnweaveError(f"{name!r} has no steps of time and cannot move: name one of {', '.join(timed)}")
            cells[:, row, list(knob.columns)] = flat[:, list(knob.columns)]
    rendered = render_grid(system, inputs.codes, cells)  # (n, 1 + M, T, C, H, W)
    clips = np.concatenate([inputs.observations[:, None].astype(np.float32), rendered], axis=1)
    rows = ["original", "reconstruction", *(f"only {name}" for name in names)]
    if len(inputs.rows) > 1:
        rows = [f"{row} of #{number}" for number in inputs.rows for row in rows]
    return Shown(
        f"One part moves, all else as at step {params.hold}",
        clips.reshape(-1, *clips.shape[2:]),
        tuple(rows),
        tuple(map(str, range(clips.shape[2]))),
        moves="forward",
    )


def _held(codes: Codes, step: int) -> Codes:
    """The codes with every block at all steps as it is at this one."""
    values = {}
    for block in codes.blocks:
        axis = time_axis(block)
        if axis is None:
            continue
        if step >= block.shape[axis]:
            raise ConfigError(f"hold={step} is beyond the last step {block.shape[axis] - 1} of {block.name}: hold less")
        one = np.take(codes[block.name], [step], axis=axis + 1)
        values[block.name] = np.repeat(one, block.shape[axis], axis=axis + 1)
    return codes.replace(**values)
