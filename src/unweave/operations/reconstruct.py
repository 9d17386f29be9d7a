"""Reconstruction: originals over what the system makes of their codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pydantic

from unweave.base.config import Config
from unweave.core.capabilities import Decodes, Encodes
from unweave.knobs import render_grid
from unweave.media import Shown
from unweave.operations._operation import Inputs, operation


class ReconstructParams(Config):
    """How the pairs are laid out."""

    columns: pydantic.PositiveInt = 8
    """Inputs side by side; more than that continue below."""


@operation(ReconstructParams, needs=(Encodes, Decodes), inputs=1, default_inputs=8)
def reconstruct(system: Any, inputs: Inputs, params: ReconstructParams) -> Shown:
    """Shows originals over their reconstructions.

    A reconstruction is the mean of p(x | z) at the centre of q(z | x).
    """
    originals = np.asarray(inputs.observations, dtype=np.float32)
    codes, _ = inputs.codes.flat()
    rendered = render_grid(system, inputs.codes, codes[None])[0]
    count, width = len(originals), min(params.columns, len(originals))
    lines = -(-count // width)
    images = np.full((2 * lines, width, *originals.shape[1:]), np.nan, dtype=np.float32)
    for number in range(count):
        line, column = divmod(number, width)
        images[2 * line, column], images[2 * line + 1, column] = originals[number], rendered[number]
    columns = tuple(f"#{row}" for row in inputs.rows) if lines == 1 else ("",) * width
    return Shown("Originals over reconstructions", images, ("original", "reconstruction") * lines, columns)
