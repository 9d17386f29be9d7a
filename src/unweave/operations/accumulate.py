"""Accumulated evidence: reconstructions with what more and more members of a group say together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pydantic

from unweave.base.config import Config
from unweave.core.capabilities import Decodes, Encodes
from unweave.knobs import Names, find_columns, render_grid
from unweave.media import Shown
from unweave.operations._evidence import accumulated, group_members, shared_names
from unweave.operations._operation import Inputs, operation


class AccumulateParams(Config):
    """How many members, and what they say together."""

    most: pydantic.PositiveInt = 10
    """Largest number k of members; fewer where a group has fewer inputs."""
    blocks: Names = ()
    """Blocks or dimensions that accumulate. Empty: those that belong to a group, or all when none does."""


@operation(AccumulateParams, needs=(Encodes, Decodes), inputs=2, default_inputs=6, one_group=True)
def accumulate(system: Any, inputs: Inputs, params: AccumulateParams) -> Shown:
    """Reconstructs inputs with the evidence of k members of their group.

    The first column shows the inputs. In column k the chosen blocks are those of k members together, the input itself
    and the k - 1 that follow it in its group, and all else is the input's own; k = 1 is the plain reconstruction.
    Inputs count as one group unless their groups are known.
    """
    codes = inputs.codes
    names = params.blocks or shared_names(codes) or tuple(block.name for block in codes.blocks)
    chosen = find_columns(codes.blocks, names)
    groups = group_members(inputs)
    most = min(params.most, max(map(len, groups)))
    flat, _ = codes.flat()
    cells = np.full((codes.rows, most, flat.shape[1]), np.nan)
    for members in groups:
        for place, row in enumerate(members):
            cells[row, : len(members)] = flat[row]
            for k in range(1, min(most, len(members)) + 1):
                together = np.roll(members, -place)[:k]
                cells[row, k - 1, chosen] = accumulated(codes.take(together))[chosen]
    order = np.concatenate(groups)  # members of a group stand below one another
    rendered = render_grid(system, codes, cells[order])
    originals = np.asarray(inputs.observations, dtype=np.float32)[order][:, None]
    return Shown(
        f"Accumulated evidence: {', '.join(names)} of k inputs, all else of each",
        np.concatenate([originals, rendered], axis=1),
        tuple(f"#{inputs.rows[row]}" for row in order),
        ("input", *(f"k = {k}" for k in range(1, most + 1))),
    )
