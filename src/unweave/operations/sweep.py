"""Sweep: a plane through the code of one input, two dimensions moved together while all else stays."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pydantic

from unweave.base.config import Config
from unweave.base.errors import ConfigError
from unweave.core.capabilities import Decodes, Encodes
from unweave.knobs import Knob, Names, find_knobs, in_order, knobs, render_grid
from unweave.media import Shown
from unweave.operations._operation import Inputs, operation


class SweepParams(Config):
    """Which two dimensions move, and how far."""

    dims: Names = ()
    """Two dimensions such as style[0],style[1], down and across; empty: the two most informative real ones."""
    low: float = -2.0
    """Where both dimensions start, in `unit`."""
    high: float = 2.0
    """Where both dimensions end, in `unit`."""
    unit: Literal["latent", "quantile"] = "latent"
    """Unit of low and high: "latent", the code's own numbers, or "quantile": steps of equal probability under a
    standard normal between them."""
    steps: pydantic.PositiveInt = 9
    """Pictures in each direction."""

    @pydantic.model_validator(mode="after")
    def _range(self) -> SweepParams:
        if not self.low < self.high:
            raise ConfigError(f"the range from low={self.low:g} to high={self.high:g} is empty: low must be below high")
        return self


@operation(SweepParams, needs=(Encodes, Decodes), inputs=1, default_inputs=1)
def sweep(system: Any, inputs: Inputs, params: SweepParams) -> Shown:
    """Moves two dimensions together over a square and keeps all else, a label included.

    Row i, column k shows the mean of p(x | z) for the codes of the input with the first dimension at place i and the
    second at place k. Several inputs give one square below the other.
    """
    first, second = _pair(inputs, params)
    start, _ = inputs.codes.flat()
    places = _places(params)
    cells = np.broadcast_to(
        start[:, None, None].astype(np.float64), (len(start), len(places), len(places), start.shape[1])
    ).copy()
    cells[..., list(first.columns)] = places[:, None, None]  # several columns: one for each step of time
    cells[..., list(second.columns)] = places[:, None]
    images = render_grid(system, inputs.codes, cells.reshape(-1, len(places), start.shape[1]))
    several = inputs.codes.rows > 1
    names = [
        f"{first.name} = {place:.3g}" + (f" of #{row}" if several else "") for row in inputs.rows for place in places
    ]
    unit = "steps of equal probability under a standard normal" if params.unit == "quantile" else "the code's numbers"
    title = f"{first.name} down, {second.name} across, from {params.low:g} to {params.high:g}, in {unit}"
    return Shown(title, images, tuple(names), tuple(f"{place:.3g}" for place in places))


def _pair(inputs: Inputs, params: SweepParams) -> tuple[Knob, Knob]:
    """The two dimensions that move."""
    blocks = inputs.codes.blocks
    if params.dims:
        chosen = find_knobs(blocks, params.dims)
        if len(chosen) != 2 or any(knob.block.kind != "real" for knob in chosen):
            named = ", ".join(knob.name for knob in chosen)
            raise ConfigError(f"dims names {named}: a sweep moves two real dimensions, such as z[0],z[1]")
        return chosen[0], chosen[1]
    real = in_order((knob for knob in knobs(blocks) if knob.block.kind == "real"), inputs.reference)
    if len(real) < 2:
        raise ConfigError(f"the code has {len(real)} real dimensions: a sweep moves two; use traverse instead")
    return real[0], real[1]


def _places(params: SweepParams) -> np.ndarray:
    """(steps,) the values both dimensions take; the middle of the range for a single step."""
    if params.unit == "latent":
        ends = (params.low, params.high)
        return np.linspace(*ends, params.steps) if params.steps > 1 else np.array([sum(ends) / 2])
    from scipy.stats import norm

    ends = (float(norm.cdf(params.low)), float(norm.cdf(params.high)))
    return norm.ppf(np.linspace(*ends, params.steps) if params.steps > 1 else np.array([sum(ends) / 2]))
