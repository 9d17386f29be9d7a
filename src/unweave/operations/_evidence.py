"""What several inputs say together about a part of the code, column by column of `Codes.flat()`."""

from __future__ import annotations

import numpy as np

from unweave.base.normals import product_of_normals
from unweave.core.codes import Codes
from unweave.knobs import in_order, knobs
from unweave.operations._operation import Inputs


def accumulated(codes: Codes) -> np.ndarray:
    """(D,) one code for all rows together.

    The mean of the product of the rows' normal posteriors; the plain average where a block has no spreads, as on a
    simplex; the first row's value for whole numbers, which have no average.
    """
    values, _ = codes.flat()
    mean, _ = product_of_normals(values, codes.flat_spread())
    whole = [column for knob in knobs(codes.blocks) if knob.block.kind == "discrete" for column in knob.columns]
    mean[whole] = values[0, whole]
    return mean


def group_members(inputs: Inputs) -> list[np.ndarray]:
    """Places of the inputs of each group, groups in order of first appearance; all in one when no groups are known."""
    if inputs.groups is None:
        return [np.arange(inputs.codes.rows)]
    values, first = np.unique(inputs.groups, return_index=True)
    return [np.flatnonzero(inputs.groups == values[number]) for number in np.argsort(first)]


def shared_names(codes: Codes) -> tuple[str, ...]:
    """Blocks that belong to a group as a whole."""
    return tuple(block.name for block in codes.blocks if block.scope == "group")


def first_names(codes: Codes, reference: Codes) -> tuple[str, ...]:
    """The first block; of a system with one block, its most informative dimension."""
    if len(codes.blocks) > 1:
        return (codes.blocks[0].name,)
    return (in_order(knobs(codes.blocks), reference)[0].name,)
