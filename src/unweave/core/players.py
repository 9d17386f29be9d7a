"""Players: who is optimised against whom. One by default; adversarial systems have two or more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pydantic
import torch
from torch import nn

from unweave.base.config import Config
from unweave.base.errors import ConfigError
from unweave.base.schedule import Schedule, Weight, at_step


class Optimiser(Config):
    """How a player's parameters are updated."""

    kind: Literal["adam", "adamw", "sgd", "rmsprop"] = "adam"
    """Update rule."""
    lr: Weight = 1e-3
    """Learning rate, above 0; a schedule such as cosine(0.001, 0, 6000) changes it with the step."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of Adam's moment estimates."""
    weight_decay: pydantic.NonNegativeFloat = 0.0
    """L2 penalty (decoupled for adamw)."""
    clip: pydantic.PositiveFloat | None = None
    """Largest gradient norm; none for no clipping."""

    @pydantic.field_validator("lr")
    @classmethod
    def _above_zero(cls, lr: float | Schedule) -> float | Schedule:
        ends = (lr.start, lr.end) if isinstance(lr, Schedule) else (lr, lr)
        if max(ends) <= 0 or min(ends) < 0:
            raise ConfigError(f"the learning rate {lr} is not above 0: give a number such as 0.001")
        return lr

    def build(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        """The PyTorch optimiser of these settings."""
        lr, decay = at_step(self.lr, 0), self.weight_decay
        # fused: one pass over parameters and moments, where the plain loop takes one for each operation.
        if self.kind == "adam":
            return torch.optim.Adam(parameters, lr=lr, betas=self.betas, weight_decay=decay, fused=True)
        if self.kind == "adamw":
            return torch.optim.AdamW(parameters, lr=lr, betas=self.betas, weight_decay=decay, fused=True)
        if self.kind == "rmsprop":
            return torch.optim.RMSprop(parameters, lr=lr, weight_decay=decay)
        return torch.optim.SGD(parameters, lr=lr, momentum=self.betas[0], weight_decay=decay, fused=True)

    def set_rate(self, optimiser: torch.optim.Optimizer, step: int) -> None:
        """Give an optimiser the learning rate of a step."""
        if isinstance(self.lr, Schedule):
            for group in optimiser.param_groups:
                group["lr"] = self.lr(step)


@dataclass(frozen=True)
class Player:
    """One side of the optimisation.

    name:      how `objective` and the log call it
    modules:   whose parameters it moves; no other parameter receives a gradient from its objective
    optimiser: how it moves them
    every:     it plays at steps 0, every, 2 every, ... (a critic plays each step, its generator each fifth)
    """

    name: str
    modules: tuple[nn.Module, ...]
    optimiser: Optimiser
    every: int = 1

    def parameters(self) -> Iterator[nn.Parameter]:
        """Its parameters, each once."""
        seen: set[int] = set()
        for module in self.modules:
            for parameter in module.parameters():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield parameter
