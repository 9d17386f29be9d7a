"""How a run looks at its end: which dimensions carry anything, and whether pictures come back better than their mean.

A code can collapse: its posterior is the prior, whatever the observation, and every picture comes back as the mean
picture. The loss looks well all the same. So the end of training looks at some of its own rows and says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import torch
from torch import Tensor

from unweave.base.config import Config
from unweave.base.errors import RunError, UnweaveError
from unweave.base.files import write_json
from unweave.base.schedule import Schedule
from unweave.batches.assemble import Batches
from unweave.core.batch import Batch
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes
from unweave.core.codes import Codes
from unweave.core.distributions import elementwise_kl
from unweave.core.system import System, SystemConfig
from unweave.core.trace import Trace
from unweave.knobs import information

FILE = "checkup.json"
USED = 0.1
"""Nats of KL, for a category of information, above which a dimension is in use."""
LEAST = 2
"""A code of fewer dimensions in use counts as collapsed; where there are fewer at all, one that does not use all."""
ROWS, VALUES = 512, 4_000_000
"""Rows that are looked at, fewer where they are large: together about so many values."""


class Checkup(Config):
    """What was found."""

    model_config = pydantic.ConfigDict(allow_inf_nan=True)  # what overflowed is told as it is

    step: int
    """Training steps behind the weights."""
    rows: int
    """Training rows that were looked at."""
    nats: dict[str, float]
    """Column of the code -> nats it carries: its KL, averaged over rows; of a category, its information."""
    mse: float | None
    """Mean squared error of a value of the reconstruction; none where observations are no amounts."""
    mean_mse: float | None
    """The same error of the mean of these rows, which is what a code that says nothing gives."""
    advice: str = ""
    """What to try, if it collapsed."""

    @property
    def used(self) -> int:
        """How many dimensions are in use."""
        return sum(nats > USED for nats in self.nats.values())

    @property
    def empty(self) -> bool:
        """Whether the code carries next to nothing."""
        return self.used < min(LEAST, len(self.nats))

    @property
    def blind(self) -> bool:
        """Whether reconstructions are no better than the mean."""
        return self.mse is not None and self.mean_mse is not None and not self.mse < self.mean_mse

    @property
    def collapsed(self) -> bool:
        return self.empty or self.blind

    @property
    def told(self) -> str:
        """One line of numbers."""
        parts = [f"{self.used} of {len(self.nats)} dimensions carry more than {USED:g} nats"]
        if self.mse is not None and self.mean_mse is not None:
            parts.append(f"squared error {self.mse:.3g}, that of the mean image {self.mean_mse:.3g}")
        return "; ".join(parts)

    @property
    def warning(self) -> str:
        """Two lines, numbers and what to try; empty where nothing is wrong."""
        return f"this run collapsed: {self.told}\n{self.advice}" if self.collapsed else ""


def examine(system: System, batches: Iterable[Batch], mean: Tensor | None = None) -> Checkup | None:
    """Look at a system through some batches; None for one that cannot encode and decode.

    mean: the mean observation to compare with; that of the batches when not given

    Draws nothing from the generators that training draws from, and leaves the system as it was.
    """
    if not (isinstance(system, Encodes) and isinstance(system, Decodes)):
        return None
    was_training = system.training
    try:
        system.eval()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            return _examine(system, [batch.to(system.device) for batch in batches], mean)
    finally:
        system.train(was_training)


def examine_run(folder: Path, system: System, batches: Batches) -> Checkup | None:
    """Look at a system that was just trained, through the first batches of its training, and keep what was found."""
    rows = min(ROWS, max(VALUES // math.prod(system.spec.shape), 16))
    order = batches.orders[0]
    count = math.ceil(rows / max(1, len(order.rows(0))))
    found = examine(system, replace(batches, orders=[order], extra=(), start=0, stop=count))
    if found is not None:
        write_json(folder / FILE, found.to_dict())
    return found


def read_checkup(folder: Path) -> Checkup | None:
    """What was found when a run ended; None where nothing was kept."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        return Checkup(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, UnweaveError) as error:
        raise RunError(f"{path} is damaged ({error}): remove it, nothing else needs it") from None


def _examine(system: System, batches: list[Batch], mean: Tensor | None) -> Checkup:
    rows = sum(batch.rows for batch in batches)
    amounts = system.spec.values != "tokens"
    if mean is None and amounts:
        mean = sum(batch.observations.sum(0) for batch in batches) / rows  # type: ignore[assignment]
    nats: dict[str, float] = {}
    unknown: set[str] = set()  # blocks without a closed form
    squares = of_mean = 0.0
    for batch in batches:
        x = batch.observations
        q = system.posterior(batch, centred=True)
        p = system.joint(q.as_given(x=x), batch, centred=True)
        for block in system.blocks:
            found = _divergence(q, p, block)
            if found is None:
                unknown.add(block.name)
                continue
            for name, value in found.items():
                nats[name] = nats.get(name, 0.0) + value / rows
        if amounts and mean is not None:
            squares += float(((p.site("x").distribution.mean - x) ** 2).flatten(1).mean(1).sum())
            of_mean += float(((mean.to(x.device) - x) ** 2).flatten(1).mean(1).sum())
    if unknown:
        codes = Codes.concatenate([system.encode(Batch.of(batch.observations)) for batch in batches])
        known = information(codes)
        nats |= {name: value for name, value in known.items() if name.partition("[")[0] in unknown}
    return Checkup(
        step=system.step,
        rows=rows,
        nats={name: round(value, 6) for name, value in nats.items()},
        mse=squares / rows if amounts else None,
        mean_mse=of_mean / rows if amounts else None,
        advice=advice(system.config, system.step),
    )


def _divergence(q: Trace, p: Trace, block: Block) -> dict[str, float] | None:
    """Column -> KL(q || p) summed over rows and steps of time; None where it has no closed form for each number."""
    if block.kind != "real":
        return None
    parts = []
    for mine, prior in zip(q.steps(block.name), p.steps(block.name), strict=True):
        found = elementwise_kl(mine.distribution, prior.distribution)
        if found is None:
            return None
        parts.append(found.sum(0).double().cpu().numpy())
    total = np.sum(parts, axis=0)
    shape, axes = block.shape, block.axes
    if "time" in axes:  # a dimension is one dimension, however many steps it has
        time = axes.index("time")
        shape = tuple(length for axis, length in enumerate(block.shape) if axis != time)
        if len(parts) == 1:
            total = total.reshape(block.shape).sum(axis=time).ravel()
    names = Block(block.name, shape, ("dim",) * len(shape)).columns
    return dict(zip(names, total.tolist(), strict=True))


def advice(config: SystemConfig, step: int) -> str:
    """What to try with a run that collapsed, in the names and numbers of its own settings."""
    tries = []
    beta = getattr(config, "beta", None)
    end = beta.end if isinstance(beta, Schedule) else beta
    if end is not None and end > 1:
        tries.append(f"beta={end / 4:g} (it is {beta})")
    tries.append(f"training.steps={3 * config.training.steps} (it is {config.training.steps})")
    likelihood: Any = getattr(config, "likelihood", None)
    kind, std = getattr(likelihood, "kind", ""), getattr(likelihood, "std", 1.0)
    if kind == "gaussian":
        tries.append(f"likelihood.std={std / 4:g} (it is {std:g}), so that each pixel counts for more")
    elif kind in ("auto", "bernoulli"):
        tries.append("likelihood.kind=gaussian with likelihood.std=0.1, so that each pixel counts for more")
    return f"try {', or '.join(tries)}"
