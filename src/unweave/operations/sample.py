"""Samples: codes from the prior, rendered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pydantic

from unweave.base.config import Config
from unweave.core.capabilities import Decodes, Samples
from unweave.knobs import Names, find_knobs, render_grid
from unweave.media import Shown
from unweave.operations._operation import Inputs, Seed, operation


class SampleParams(Config):
    """How many, from which seed, and what stays the same along a row."""

    lines: pydantic.PositiveInt = 6
    """Rows of the grid."""
    columns: pydantic.PositiveInt = 8
    """Columns of the grid."""
    seed: Seed = 0
    """Seed of the draws: the same seed gives the same pictures."""
    fix: Names = ()
    """Blocks or dimensions with one value per row; a category takes its values in turn. Empty: every picture is a
    draw of its own."""


@operation(SampleParams, needs=(Decodes, Samples), inputs=0, default_inputs=0)
def sample(system: Any, inputs: Inputs, params: SampleParams) -> Shown:
    """Draws codes from the prior and renders them.

    Each picture is the mean of p(x | z) for a z of p(z). With `fix`, all pictures of a row share those parts of z.
    """
    drawn = system.draw(params.lines * params.columns, params.seed)
    codes, _ = drawn.flat()
    cells = codes.reshape(params.lines, params.columns, -1).astype(np.float64)
    fixed = find_knobs(drawn.blocks, params.fix)
    names = [""] * params.lines
    for knob in fixed:
        columns = list(knob.columns)
        if knob.block.kind == "simplex":
            count = knob.by_step.shape[1]
            categories = np.arange(params.lines) % count
            cells[:, :, columns] = np.tile(np.eye(count)[categories], knob.steps)[:, None]
            words = [f"{knob.name} {category}" for category in categories]
        else:
            cells[:, :, columns] = cells[:, :1, columns]
            words = [f"{knob.name} {value:.2g}" for value in cells[:, 0, columns[0]]]
        names = [f"{name}, {word}" if name else word for name, word in zip(names, words, strict=True)]
    if len(fixed) > 2:
        names = [""] * params.lines  # more would not fit beside a picture; the title says what is fixed
    title = "Samples from the prior" + (f": {', '.join(params.fix)} fixed along each row" if fixed else "")
    return Shown(title, render_grid(system, drawn, cells), tuple(names), ("",) * params.columns)
