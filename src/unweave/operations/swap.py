"""Swap: a part of the code from one input, all else from another."""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.base.config import Config
from unweave.core.capabilities import Decodes, Encodes
from unweave.core.codes import Codes
from unweave.knobs import Names, find_columns, in_order, knobs, render_grid
from unweave.media import Shown
from unweave.operations._operation import Inputs, operation


class SwapParams(Config):
    """What is exchanged."""

    blocks: Names = ()
    """Blocks or dimensions taken from the row's input. Empty: the first block, or the most informative dimension when
    there is one block only."""


@operation(SwapParams, needs=(Encodes, Decodes), inputs=2, default_inputs=5)
def swap(system: Any, inputs: Inputs, params: SwapParams) -> Shown:
    """Gives each input the chosen part of every other.

    The first column and the first row show the inputs. Cell (i, j) shows the mean of p(x | z) with the chosen blocks
    from input i (left) and everything else from input j (above); on the diagonal this is the reconstruction.
    """
    names = params.blocks or _first(inputs.codes, inputs.reference)
    taken = find_columns(inputs.codes.blocks, names)
    codes, _ = inputs.codes.flat()
    count = len(codes)
    cells = np.repeat(codes[None].astype(np.float64), count, axis=0)  # (i, j) has all of j ...
    cells[:, :, taken] = codes[:, None, taken]  # ... but the chosen part of i
    mixed = render_grid(system, inputs.codes, cells)
    images = np.full((count + 1, count + 1, *mixed.shape[2:]), np.nan, dtype=np.float32)
    images[1:, 1:] = mixed
    images[0, 1:] = images[1:, 0] = inputs.observations
    part = ", ".join(names)
    return Shown(
        f"Swap: {part} from the left, all else from above",
        images,
        ("", *(f"{part} of #{row}" for row in inputs.rows)),
        ("", *(f"rest of #{row}" for row in inputs.rows)),
    )


def _first(codes: Codes, reference: Codes) -> tuple[str, ...]:
    if len(codes.blocks) > 1:
        return (codes.blocks[0].name,)
    return (in_order(knobs(codes.blocks), reference)[0].name,)
