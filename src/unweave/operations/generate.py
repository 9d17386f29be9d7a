"""Generation: a part of the code from inputs, the rest from the prior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pydantic

from unweave.base.config import Config
from unweave.core.capabilities import Decodes, Encodes, Samples
from unweave.knobs import Names, find_columns, render_grid
from unweave.media import Shown
from unweave.operations._evidence import accumulated, first_names, group_members, shared_names
from unweave.operations._operation import Inputs, Seed, operation


class GenerateParams(Config):
    """What is kept, and how many pictures are made."""

    keep: Names = ()
    """Blocks or dimensions kept from the inputs. Empty: those that belong to a group; when none does, the first block,
    or the most informative dimension when there is one block only."""
    columns: pydantic.PositiveInt = 8
    """Pictures made for each group of inputs."""
    seed: Seed = 0
    """Seed of the draws: the same seed gives the same pictures."""


@operation(GenerateParams, needs=(Encodes, Decodes, Samples), inputs=1, default_inputs=4, one_group=True)
def generate(system: Any, inputs: Inputs, params: GenerateParams) -> Shown:
    """Keeps a part of the code of inputs and draws the rest from the prior.

    Each row is a group of inputs, shown on the left: what is kept is what they say together (the mean of the product of
    their posteriors). All pictures of a column share their draw of the rest. Inputs count as one group unless their
    groups are known.
    """
    codes = inputs.codes
    names = params.keep or shared_names(codes) or first_names(codes, inputs.reference)
    kept = find_columns(codes.blocks, names)
    groups = group_members(inputs)
    drawn, _ = system.draw(params.columns, params.seed).flat()
    cells = np.repeat(drawn[None].astype(np.float64), len(groups), axis=0)
    for line, members in enumerate(groups):
        cells[line][:, kept] = accumulated(codes.take(members))[kept]
    made = render_grid(system, codes, cells)
    width = max(map(len, groups))
    images = np.full((len(groups), width + params.columns, *made.shape[2:]), np.nan, dtype=np.float32)
    images[:, width:] = made
    for line, members in enumerate(groups):
        images[line, width - len(members) : width] = inputs.observations[members]
    part = ", ".join(names)
    return Shown(
        f"Generated: {part} of the inputs on the left, all else from the prior",
        images,
        tuple(", ".join(f"#{row}" for row in inputs.rows[members]) if len(members) < 4 else "" for members in groups),
        (*("input",) * width, *(f"draw {number}" for number in range(1, params.columns + 1))),
    )
