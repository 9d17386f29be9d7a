"""Convolutional networks for images of any height, width and number of channels.

Each layer has stride s and a 2s x 2s kernel and turns n pixels along an axis into floor(n / s). Its padding is the
smallest symmetric one that lets the windows reach every pixel, so odd sizes need no cropping, and the transposed layer
gets back to exactly n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from unweave.base.errors import ConfigError
from unweave.nets.dense import Activation, Norm, activation_layer, layers, over_rows
from unweave.nets.edges import Down, Up
from unweave.nets.products import Layers


@dataclass(frozen=True)
class Stage:
    """One layer between a large and a small image.

    large, small:   (H, W) on either side
    stride:         s; the kernel has 2s pixels
    padding:        zeros on each side of the large image: ceil((s - r) / 2), r the remainder of n / s
    output_padding: the row or column the transposed layer adds to reach n: 2 padding - (s - r), 0 or 1
    """

    large: tuple[int, int]
    stride: int

    @property
    def small(self) -> tuple[int, int]:
        return self.large[0] // self.stride, self.large[1] // self.stride

    @property
    def padding(self) -> tuple[int, int]:
        height, width = ((self.stride - n % self.stride + 1) // 2 for n in self.large)
        return height, width

    @property
    def output_padding(self) -> tuple[int, int]:
        height, width = (2 * p - (self.stride - n % self.stride) for n, p in zip(self.large, self.padding, strict=True))
        return height, width

    def down(self, inputs: int, outputs: int) -> nn.Conv2d:
        return Down(inputs, outputs, 2 * self.stride, self.stride, self.padding)

    def up(self, inputs: int, outputs: int) -> nn.ConvTranspose2d:
        return Up(inputs, outputs, 2 * self.stride, self.stride, self.padding, self.output_padding)


def smallest_side(count: int, stem: int) -> int:
    """The smallest image side that `count` layers leave at least one pixel of."""
    return stem * 2 ** (count - 1)


def layers_to_below(pixels: int, side: int, stem: int) -> int:
    """How many layers take a side of so many pixels below `pixels`: stride `stem` once, stride 2 after that."""
    count, side = 1, side // stem
    while side >= pixels:
        count, side = count + 1, side // 2
    return count


def stages(size: tuple[int, int], count: int, stem: int) -> tuple[Stage, ...]:
    """The layers from an (H, W) image downwards: stride `stem` once, stride 2 after that."""
    if min(size) < smallest_side(count, stem):
        side = smallest_side(count, stem)
        raise ConfigError(
            f"images of {size[0]} x {size[1]} are too small for {count} convolutional layers with stem {stem}: "
            f"both sides need at least {side} pixels; give fewer entries in nets.channels or set nets.kind=dense"
        )
    found: list[Stage] = []
    for position in range(count):
        found.append(Stage(size, stem if position == 0 else 2))
        size = found[-1].small
    return tuple(found)


def _norm(norm: Norm, channels: int) -> list[nn.Module]:
    """A normalisation of each image over its channels and pixels, or nothing."""
    return [nn.GroupNorm(1, channels)] if norm == "layer" else []


class ConvolutionalEncoder(nn.Module):
    """(..., C, H, W) images to (..., F) features: strided convolutions, then dense layers.

    shape:    (C, H, W)
    channels: output channels of each convolution
    hidden:   sizes of the dense layers after them; without any, the features are the flattened last image
    stem:     stride of the first convolution; the others have stride 2
    scale:    pixels are multiplied by it first
    """

    def __init__(
        self,
        shape: Sequence[int],
        channels: Sequence[int],
        hidden: Sequence[int],
        stem: int = 2,
        activation: Activation = "relu",
        scale: float = 1.0,
        norm: Norm = "none",
    ):
        super().__init__()
        self.scale = scale
        inputs, height, width = shape
        plan = stages((height, width), len(channels), stem)
        steps: list[nn.Module] = []
        for stage, outputs in zip(plan, channels, strict=True):
            steps += [stage.down(inputs, outputs), *_norm(norm, outputs), activation_layer(activation)]
            inputs = outputs
        self.convolutions = Layers(*steps)
        sizes = (channels[-1] * math.prod(plan[-1].small), *hidden)
        self.dense = layers(sizes, activation, last=True, norm=norm)
        self.features = sizes[-1]

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.scale == 1.0 else x * self.scale
        return self.dense(over_rows(self.convolutions, x, 3).flatten(start_dim=-3))


class ConvolutionalDecoder(nn.Module):
    """(..., inputs) codes to (..., C, H, W): the encoder's transpose, without an activation at the end.

    The arguments are the encoder's: channels and hidden sizes are read from the last to the first.
    """

    def __init__(
        self,
        inputs: int,
        channels: Sequence[int],
        hidden: Sequence[int],
        shape: Sequence[int],
        stem: int = 2,
        activation: Activation = "relu",
        norm: Norm = "none",
    ):
        super().__init__()
        self.inputs = inputs
        pixels, height, width = shape
        plan = stages((height, width), len(channels), stem)
        self.smallest = (channels[-1], *plan[-1].small)
        self.dense = layers((inputs, *reversed(hidden), math.prod(self.smallest)), activation, last=True, norm=norm)
        steps: list[nn.Module] = []
        for position in reversed(range(len(plan))):
            steps.append(plan[position].up(channels[position], channels[position - 1] if position else pixels))
            if position:
                steps += [*_norm(norm, channels[position - 1]), activation_layer(activation)]
        self.convolutions = Layers(*steps)

    def forward(self, z: Tensor) -> Tensor:
        return over_rows(self.convolutions, self.dense(z).unflatten(-1, self.smallest), 3)
