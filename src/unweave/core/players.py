"""Players: who is optimised against whom. One by default; adversarial systems have two or more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pydantic
import torch
from torch import nn

from unweave.core.config import Config


class Optimiser(Config):
    """How a player's parameters are updated."""

    kind: Literal["adam", "adamw", "sgd", "rmsprop"] = "adam"
    """Update rule."""
    lr: pydantic.PositiveFloat = 1e-3
    """Learning rate."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of Adam's moment estimates."""
    weight_decay: pydantic.NonNegativeFloat = 0.0
    """L2 penalty (decoupled for adamw)."""
    clip: pydantic.PositiveFloat | None = None
    """Largest gradient norm; none for no clipping."""

    def build(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        """The PyTorch optimiser of these settings."""
        if self.kind == "adam":
            return torch.optim.Adam(parameters, lr=self.lr, betas=self.betas, weight_decay=self.weight_decay)
        if self.kind == "adamw":
            return torch.optim.AdamW(parameters, lr=self.lr, betas=self.betas, weight_decay=self.weight_decay)
        if self.kind == "rmsprop":
            return torch.optim.RMSprop(parameters, lr=self.lr, weight_decay=self.weight_decay)
        return torch.optim.SGD(parameters, lr=self.lr, momentum=self.betas[0], weight_decay=self.weight_decay)


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
