"""From settings and data to networks: encoders, decoders, and the heads that turn features into distributions."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic
import torch
from torch import Tensor, nn
from torch.distributions import Independent

from unweave.base.errors import ConfigError, ShapeError
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import Concrete, normal
from unweave.core.fitted import Fitted
from unweave.nets.convolution import ConvolutionalDecoder, ConvolutionalEncoder, layers_to_below, smallest_side
from unweave.nets.dense import Activation, DenseDecoder, DenseEncoder, Norm, over_rows
from unweave.nets.products import Linear

Sizes = tuple[pydantic.PositiveInt, ...]


class Nets(Fitted):
    """Sizes of an encoder and of the decoder that mirrors it; those that are `auto` are chosen for the picture's size.

    The networks of Burgess et al. 2018 are `BURGESS`; presets that follow a paper name theirs.
    """

    kind: Literal["auto", "convolutional", "dense"] = "auto"
    """Which network; auto takes the convolutional one for images with at least 16 pixels on both sides."""
    channels: Annotated[Sizes, pydantic.Field(min_length=1)] | Literal["auto"] = "auto"
    """Output channels of each convolution; each but the first halves the image. Auto: 32, down to 4 to 7 pixels."""
    hidden: Sizes | Literal["auto"] = "auto"
    """Sizes of the dense layers. Auto: 256 after convolutions; of a dense network, which has no others, 256 and 256."""
    stem: Annotated[int, pydantic.Field(ge=2)] | Literal["auto"] = "auto"
    """Stride of the first convolution; auto: 4 (patches of 8 x 8 pixels) from 48 pixels on, below that 2."""
    activation: Activation = "leaky_relu"
    """Nonlinearity after every layer but the decoder's last. Units of a plain relu that are off for all data stay off,
    and a large cost in the first steps can put out all of them."""
    norm: Norm = "none"
    """Normalisation before every nonlinearity: none, or layer, over all numbers of one observation."""

    def fitted(self, spec: DataSpec) -> Nets:
        """The networks these settings mean for these data: n pixels on the smaller side decide.

        kind      convolutional for images with n >= 16, otherwise dense
        stem      4 when n >= 48: most of the time of a step goes into the large images of the first layers. In smaller
                  pictures patches of 8 x 8 pixels cannot be put together to the edges of things: squares stay discs
        channels  32 for each layer; after the first, layers of stride 2 until fewer than 8 pixels are left
        hidden    one layer of 256; a second one makes the first few hundred steps slower. Two where there are no others

        Where the channels were given and do not fit behind a stem of 4, it is 2.
        """
        side = min(spec.shape[1:]) if spec.is_image else 0
        kind = self.kind if self.kind != "auto" else "convolutional" if side >= 16 else "dense"
        hidden = self.hidden if self.hidden != "auto" else (256,) if kind == "convolutional" else (256, 256)
        if kind == "dense" or not spec.is_image:
            return self.model_copy(update={"kind": kind, "hidden": hidden})
        stem = self.stem
        if stem == "auto":
            given = 1 if self.channels == "auto" else len(self.channels)
            stem = 4 if side >= max(48, smallest_side(given, 4)) else 2
        channels = self.channels
        if channels == "auto":
            channels = (32,) * layers_to_below(8, side, stem)
        return self.model_copy(update={"kind": kind, "stem": stem, "channels": channels, "hidden": hidden})

    @property
    def dense(self) -> Sizes:
        """The dense layers of networks that were fitted to data."""
        assert not isinstance(self.hidden, str)
        return self.hidden


BURGESS = Nets(kind="convolutional", channels=(32, 32, 32, 32), hidden=(256, 256), stem=2, activation="relu")
"""Burgess et al. 2018, appendix A.1: four 4 x 4 convolutions of 32 channels and stride 2, two dense layers of 256."""


def build_encoder(nets: Nets, spec: DataSpec) -> nn.Module:
    """A module from (..., *shape) observations to (..., F) features, with F in its attribute `features`.

    Whole-number levels 0 .. L - 1 are divided by L - 1 on the way in; other values enter as they are.
    """
    if spec.values == "tokens":
        raise ConfigError(
            "observations are tokens: convolutional and dense networks need numbers; give your own encoder"
        )
    scale = 1.0 / max((spec.levels or 2) - 1, 1) if spec.values == "levels" else 1.0
    nets = nets.fitted(spec)
    if nets.kind == "dense":
        return DenseEncoder(spec.shape, nets.dense, nets.activation, scale, nets.norm)
    channels, stem = _convolutions(nets, spec)
    return ConvolutionalEncoder(spec.shape, channels, nets.dense, stem, nets.activation, scale, nets.norm)


def build_decoder(nets: Nets, spec: DataSpec, inputs: int, parameters: int = 1) -> nn.Module:
    """A module from (..., inputs) codes to the parameters of each value: (..., parameters * C, H, W) for images.

    Vectors give (..., parameters * D). Parameters of one kind (all means, then all variances) follow one another.
    """
    shape = decoded_shape(spec, parameters)
    nets = nets.fitted(spec)
    if nets.kind == "dense":
        return DenseDecoder(inputs, nets.dense, shape, nets.activation, nets.norm)
    channels, stem = _convolutions(nets, spec)
    return ConvolutionalDecoder(inputs, channels, nets.dense, shape, stem, nets.activation, nets.norm)


def _convolutions(nets: Nets, spec: DataSpec) -> tuple[Sizes, int]:
    """Channels and stem of convolutional networks that were fitted to images."""
    if isinstance(nets.channels, str) or isinstance(nets.stem, str) or not spec.is_image:
        raise ConfigError(
            f"observations of shape {spec.shape} are not images: nets.kind=convolutional needs (C, H, W); "
            "set nets.kind=dense"
        )
    return nets.channels, nets.stem


def decoded_shape(spec: DataSpec, parameters: int) -> tuple[int, ...]:
    """What a decoder returns for one observation: the first axis holds `parameters` copies, one after the other."""
    return (parameters * spec.shape[0], *spec.shape[1:])


def check_encoder(module: nn.Module, spec: DataSpec) -> int:
    """The number of features F of a custom encoder, found by running it on zeros; an error says what is amiss."""
    got = _dry_run(module, "encoder", (2, *spec.shape))
    if len(got) != 2 or got[0] != 2 or got[1] < 1:
        raise ShapeError(
            f"encoder {type(module).__name__} returned shape {got} for 2 observations of shape {spec.shape}: "
            "expected (2, features); flatten its output after the batch axis"
        )
    return got[1]


def check_decoder(module: nn.Module, spec: DataSpec, inputs: int, parameters: int = 1) -> None:
    """Raise unless a custom decoder turns (B, inputs) codes into what `build_decoder` would return."""
    got, expected = _dry_run(module, "decoder", (2, inputs)), (2, *decoded_shape(spec, parameters))
    if got != expected:
        raise ShapeError(
            f"decoder {type(module).__name__} returned shape {got} for 2 codes of {inputs} dimensions: expected "
            f"{expected}, {parameters} parameter(s) for each value of an observation of shape {spec.shape}"
        )


def _dry_run(module: nn.Module, role: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of what a module returns for zeros, in evaluation mode: running statistics and gradients stay untouched."""
    like = next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(()))
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            output = module(torch.zeros(shape, dtype=like.dtype, device=like.device))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ShapeError(
            f"{role} {type(module).__name__} cannot take an input of shape {shape}, batch first: {reason}; "
            "change its first layer"
        ) from error
    finally:
        for part, training in modes.items():
            part.training = training
    if not isinstance(output, Tensor):
        raise ShapeError(
            f"{role} {type(module).__name__} returned a {type(output).__name__}: expected one tensor; "
            "heads for means and variances are added after it"
        )
    return tuple(output.shape)


def own_or_built_encoder(own: nn.Module | None, nets: Nets, spec: DataSpec) -> tuple[nn.Module, int]:
    """The user's own encoder, or the one that the settings describe, and its number of features F."""
    encoder = build_encoder(nets, spec) if own is None else OverRows(own, len(spec.shape))
    return encoder, check_encoder(encoder, spec)


def own_or_built_decoder(
    own: nn.Module | None, nets: Nets, spec: DataSpec, inputs: int, parameters: int = 1
) -> nn.Module:
    """The user's own decoder, or the one that the settings describe."""
    decoder = build_decoder(nets, spec, inputs, parameters) if own is None else OverRows(own, 1)
    check_decoder(decoder, spec, inputs, parameters)
    return decoder


class OverRows(nn.Module):
    """A custom module that knows one batch axis, run on any leading axes such as (S, B).

    event_dims: how many axes one input of the module has: 3 for an encoder of images, 1 for a decoder of codes
    """

    def __init__(self, module: nn.Module, event_dims: int):
        super().__init__()
        self.module, self.event_dims = module, event_dims

    def forward(self, x: Tensor) -> Tensor:
        return over_rows(self.module, x, self.event_dims)


LOG_VARIANCE = (-16.0, 8.0)
"""Log-variances in this range pass unchanged: standard deviations from 0.0003 to 55. Below it, rounding of z near 4 to
single precision would move (z - mean) / std by more than a thousandth."""
_MARGIN = 4.0


def limit_log_variance(log_variance: Tensor) -> Tensor:
    """Log-variances kept between -20 and 12, unchanged between -16 and 8.

    Beyond the range an excess e counts as e / (1 + e / 4), at most 4. Its slope (1 + e / 4)^-2 starts at 1 and never
    reaches 0, so that a value that ran away can come back.
    """
    if log_variance.device.type == "cpu":  # elsewhere the question would wait for the answer
        lowest, highest = torch.aminmax(log_variance.detach())
        if LOG_VARIANCE[0] <= lowest.item() and highest.item() <= LOG_VARIANCE[1]:  # as nearly always; NaN is not
            return log_variance
    inside = log_variance.clamp(*LOG_VARIANCE)
    excess = log_variance - inside
    return inside + excess / (1 + excess.abs() / _MARGIN)


class GaussianHead(nn.Module):
    """(..., F) features to a factorised normal over D dimensions, from one linear layer of 2 D units.

    The first D units are the mean m, the others the log-variance v; the standard deviation is exp(v / 2), with v
    limited as `limit_log_variance` says.
    """

    def __init__(self, features: int, dims: int):
        super().__init__()
        self.linear = Linear(features, 2 * dims)

    def forward(self, h: Tensor) -> Independent:
        mean, log_variance = self.linear(h).chunk(2, dim=-1)
        return normal(mean, torch.exp(limit_log_variance(log_variance) / 2))


class ConcreteHead(nn.Module):
    """(..., F) features to a Concrete distribution over K categories, from one linear layer of K logits."""

    def __init__(self, features: int, categories: int):
        super().__init__()
        self.linear = Linear(features, categories)

    def forward(self, h: Tensor, temperature: float) -> Concrete:
        return Concrete(temperature, self.linear(h))
