"""Traversal: each dimension moved over a range while all else stays."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pydantic

from unweave.base.config import Config
from unweave.base.errors import ConfigError
from unweave.core.capabilities import Decodes, Encodes
from unweave.core.codes import Codes
from unweave.knobs import Knob, Names, find_knobs, in_order, knobs, render_grid
from unweave.media import Shown
from unweave.operations._operation import Inputs, operation


class TraverseParams(Config):
    """What moves, and how far."""

    dims: Names = ()
    """Dimensions such as z[3], or whole blocks, in the order to show them; empty: the most informative first."""
    most: pydantic.PositiveInt = 10
    """How many dimensions to show when none are named."""
    low: float = -2.0
    """Where each dimension starts, in `unit`."""
    high: float = 2.0
    """Where each dimension ends, in `unit`."""
    unit: Literal["data", "latent"] = "data"
    """Unit of low and high: "data", deviations from the mean over the data, or "latent", the code's own numbers."""
    steps: pydantic.PositiveInt = 9
    """Pictures from low to high; a category or a whole number shows each of its values instead."""

    @pydantic.model_validator(mode="after")
    def _range(self) -> TraverseParams:
        if not self.low < self.high:
            raise ConfigError(f"the range from low={self.low:g} to high={self.high:g} is empty: low must be below high")
        return self


@operation(TraverseParams, needs=(Encodes, Decodes), inputs=1, default_inputs=1)
def traverse(system: Any, inputs: Inputs, params: TraverseParams) -> Shown:
    """Moves one dimension at a time and shows what changes.

    Rows are dimensions (for several inputs, one row per input under each dimension), columns the places on the way.
    Row (d, i), column k shows the mean of p(x | z) for the codes of input i with dimension d set to place k.
    """
    chosen = find_knobs(inputs.codes.blocks, params.dims)
    if not params.dims:
        chosen = in_order(knobs(inputs.codes.blocks), inputs.reference)[: params.most]
    start, _ = inputs.codes.flat()
    places = [_places(knob, inputs.reference, params) for knob in chosen]
    width = max(len(place) for place in places)
    cells = np.full((len(chosen), inputs.codes.rows, width, start.shape[1]), np.nan)
    for row, (knob, place) in enumerate(zip(chosen, places, strict=True)):
        cells[row, :, : len(place)] = start[:, None]
        cells[row, :, : len(place), list(knob.columns)] = place.T[:, None]
    images = render_grid(system, inputs.codes, cells.reshape(-1, width, start.shape[1]))
    names = [
        knob.name if inputs.codes.rows == 1 else f"{knob.name} of #{row}" for knob in chosen for row in inputs.rows
    ]
    return Shown(_title(chosen, params), images, tuple(names), _columns(chosen, places, params), moves=True)


def _places(knob: Knob, reference: Codes, params: TraverseParams) -> np.ndarray:
    """(K, columns of the knob) the values it takes, one after the other; each step of time has its own range."""
    if knob.block.kind == "simplex":
        return np.tile(np.eye(knob.by_step.shape[1]), knob.steps)
    columns = list(knob.columns)
    values = reference.flat()[0][:, columns].astype(np.float64)  # (N, columns)
    if knob.block.kind == "discrete":
        return np.repeat(np.unique(values)[:, None], len(columns), axis=1)
    steps = np.linspace(params.low, params.high, params.steps) if params.steps > 1 else np.zeros(1)
    if params.unit == "latent":
        return np.repeat(steps[:, None], len(columns), axis=1)
    # The deviation of q(z_d), the mixture of all posteriors: an unused dimension moves as far as its prior.
    spreads = reference.flat_spread()[:, columns].astype(np.float64)
    deviation = np.sqrt(values.var(axis=0) + np.mean(np.nan_to_num(spreads) ** 2, axis=0))
    return values.mean(axis=0) + steps[:, None] * deviation


def _columns(chosen: tuple[Knob, ...], places: list[np.ndarray], params: TraverseParams) -> tuple[str, ...]:
    """Names of the places: those of the range when any dimension has one, the categories' numbers otherwise."""
    width = max(len(place) for place in places)
    for knob, place in zip(chosen, places, strict=True):
        if knob.block.kind == "real":
            steps = np.linspace(params.low, params.high, params.steps) if params.steps > 1 else np.zeros(1)
            return (*(f"{step:.3g}" for step in steps), *[""] * (width - len(place)))
    return tuple(str(number) for number in range(width))


def _title(chosen: tuple[Knob, ...], params: TraverseParams) -> str:
    kinds = {knob.block.kind for knob in chosen}
    if kinds <= {"simplex", "discrete"}:
        return "Traversal: one value per column"
    unit = "standard deviations of each dimension over the data" if params.unit == "data" else "the code's own numbers"
    extra = "; a category shows one value per column" if len(kinds) > 1 else ""
    return f"Traversal from {params.low:g} to {params.high:g}, in {unit}{extra}"
