"""Fully connected networks, and the two things every network here shares: activations and leading axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Literal

from torch import Tensor, nn

from unweave.nets.products import Layers, Linear

Activation = Literal["relu", "leaky_relu", "elu", "tanh", "gelu"]
Norm = Literal["none", "layer"]

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": lambda: nn.ReLU(inplace=True),  # no layer before it needs its own output again: one image less to keep
    "leaky_relu": lambda: nn.LeakyReLU(0.2),
    "elu": nn.ELU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
}


def activation_layer(name: Activation) -> nn.Module:
    """A fresh activation module; the leaky ReLU has slope 0.2 below zero."""
    return _ACTIVATIONS[name]()


def over_rows(run: Callable[[Tensor], Tensor], x: Tensor, event_dims: int) -> Tensor:
    """Run a function of (rows, *event) on (..., *event): leading axes such as (S, B) become rows and come back after.

    event_dims: how many axes, at the end of `x`, one observation has
    """
    leading = x.shape[: x.dim() - event_dims]
    if len(leading) == 1:
        return run(x)
    y = run(x.reshape(-1, *x.shape[x.dim() - event_dims :]))
    return y.reshape(*leading, *y.shape[1:])


def layers(sizes: Sequence[int], activation: Activation, *, last: bool, norm: Norm = "none") -> Layers:
    """Linear layers sizes[0] -> sizes[1] -> ..., each followed by the activation; the last one only if `last`.

    norm: "layer" puts a layer normalisation before each activation
    """
    steps: list[nn.Module] = []
    for position, (inputs, outputs) in enumerate(itertools.pairwise(sizes), start=1):
        steps.append(Linear(inputs, outputs))
        if last or position < len(sizes) - 1:
            if norm == "layer":
                steps.append(nn.LayerNorm(outputs))
            steps.append(activation_layer(activation))
    return Layers(*steps)


class DenseEncoder(nn.Module):
    """(..., *shape) observations to (..., F) features, F the last hidden size.

    shape:  event shape of an observation; it is flattened
    hidden: sizes of the layers; without any, the features are the flattened observation itself
    scale:  observations are multiplied by it first
    """

    def __init__(
        self,
        shape: Sequence[int],
        hidden: Sequence[int],
        activation: Activation = "relu",
        scale: float = 1.0,
        norm: Norm = "none",
    ):
        super().__init__()
        self.event_dims, self.scale = len(shape), scale
        sizes = (math.prod(shape), *hidden)
        self.dense = layers(sizes, activation, last=True, norm=norm)
        self.features = sizes[-1]

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.scale == 1.0 else x * self.scale
        return self.dense(x.flatten(start_dim=x.dim() - self.event_dims))


class DenseDecoder(nn.Module):
    """(..., inputs) codes to (..., *shape) values: the hidden layers in reverse order, then one linear layer."""

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        shape: Sequence[int],
        activation: Activation = "relu",
        norm: Norm = "none",
    ):
        super().__init__()
        self.inputs, self.shape = inputs, tuple(shape)
        self.dense = layers((inputs, *reversed(hidden), math.prod(shape)), activation, last=False, norm=norm)

    def forward(self, z: Tensor) -> Tensor:
        return self.dense(z).unflatten(-1, self.shape)
