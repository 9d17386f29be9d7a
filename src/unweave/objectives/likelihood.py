"""Likelihoods p(x | z): what a decoder's numbers say about an observation.

A decoder returns `parameters_per_value` raw numbers for each value of an observation. A likelihood head turns them into
a distribution whose event is the whole observation, so that `log_prob` is in nats per example. Its `mean` is in the
units of the data, ready to be shown.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import pydantic
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.distributions import Bernoulli, Categorical, Distribution, Independent, constraints
from torch.nn.functional import logsigmoid, softplus

from unweave.base.config import Config
from unweave.base.errors import ConfigError, DataError, ShapeError
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import FewPassNormal

Kind = Literal["bernoulli", "gaussian", "categorical", "discretised"]

Shape = torch.Size | list[int] | tuple[int, ...]

STD_FLOOR = 1e-3
"""Learned and predicted standard deviations stay above this, or a single value could be fitted without bound."""
UNIT_LEVELS = 256
"""Bins of the discretised likelihood on [0, 1] data: 8-bit images."""

_AUTO: Mapping[str, Kind] = {
    "binary": "bernoulli",
    "unit": "bernoulli",
    "real": "gaussian",
    "levels": "categorical",
    "tokens": "categorical",
}
_ACCEPTS: Mapping[Kind, tuple[str, ...]] = {
    "bernoulli": ("binary", "unit"),
    "gaussian": ("binary", "unit", "levels", "real", "counts"),
    "categorical": ("binary", "levels", "tokens"),
    "discretised": ("binary", "unit", "levels"),
}


class Likelihood(Config):
    """How observations are distributed around what the decoder says."""

    kind: Literal["auto", "bernoulli", "gaussian", "categorical", "discretised"] = "auto"
    """Family; auto takes bernoulli for data in [0, 1], gaussian for real numbers, categorical for levels and tokens."""
    variance: Literal["fixed", "learned", "predicted"] = "fixed"
    """Gaussian only: a fixed standard deviation, one learned for all values, or one predicted for each value."""
    std: pydantic.PositiveFloat = 1.0
    """Gaussian only: the fixed standard deviation, or the one learning starts from."""

    @pydantic.model_validator(mode="after")
    def _above_floor(self) -> Likelihood:
        if self.variance != "fixed" and self.std <= STD_FLOOR:
            raise ValueError(
                f"setting 'std' is {self.std}: a {self.variance} standard deviation starts above {STD_FLOOR}; "
                "give a larger std, or variance=fixed"
            )
        return self

    def resolved(self, spec: DataSpec) -> Kind:
        """The family these settings mean for these data; an error says when the data lie outside its support."""
        fits = [kind for kind, values in _ACCEPTS.items() if spec.values in values]
        if self.kind == "auto" and spec.values not in _AUTO:
            raise ConfigError(
                f"no likelihood is chosen by itself for {describe(spec)}: set likelihood.kind={' or '.join(fits)}"
            )
        kind: Kind = _AUTO[spec.values] if self.kind == "auto" else self.kind
        if kind not in fits:
            raise ConfigError(
                f"the {kind} likelihood does not cover {describe(spec)}: set likelihood.kind={' or '.join(fits)}"
            )
        if kind != "gaussian" and (self.variance != "fixed" or self.std != 1.0):
            raise ConfigError(
                f"likelihood.variance and likelihood.std belong to the gaussian likelihood, and this one is {kind}: "
                "leave them out or set likelihood.kind=gaussian"
            )
        if spec.values in ("levels", "tokens") and kind != "gaussian" and (spec.levels is None or spec.levels < 2):
            raise ConfigError(
                f"the {kind} likelihood needs to know how many {spec.values} there are and got levels={spec.levels}: "
                "give the data's specification levels of at least 2"
            )
        return kind

    def build(self, spec: DataSpec) -> LikelihoodHead:
        """The head for these data."""
        kind = self.resolved(spec)
        if kind == "bernoulli":
            return BernoulliLikelihood(spec)
        if kind == "gaussian":
            return GaussianLikelihood(spec, self.variance, self.std)
        if kind == "categorical":
            return CategoricalLikelihood(spec)
        return DiscretisedLikelihood(spec)


def describe(spec: DataSpec) -> str:
    """The range of the data in words, for messages."""
    top = "L - 1" if spec.levels is None else spec.levels - 1
    words = {
        "binary": "values 0 and 1",
        "unit": "values in [0, 1]",
        "levels": f"whole numbers 0 .. {top}",
        "real": "any real numbers",
        "counts": "counts (whole numbers without a largest one)",
        "tokens": f"word numbers 0 .. {top}",
    }
    return f"data of kind {spec.values!r}, {words[spec.values]}"


class LikelihoodHead(nn.Module, ABC):
    """Raw decoder outputs to a distribution over observations.

    parameters_per_value: P, how many raw numbers each value of an observation needs
    shape:                event shape of an observation
    low, high, whole:     the support: bounds (None for none), and whether only whole numbers belong to it
    """

    kind: Kind

    def __init__(
        self,
        shape: tuple[int, ...],
        parameters_per_value: int,
        low: float | None = None,
        high: float | None = None,
        whole: bool = False,
    ):
        super().__init__()
        self.shape, self.parameters_per_value = shape, parameters_per_value
        self.low, self.high, self.whole = low, high, whole

    def forward(self, raw: Tensor) -> Independent:
        """p(x | z) over (..., *shape) from raw (..., P * shape[0], *shape[1:]), parameters of one kind together."""
        expected = (self.parameters_per_value * self.shape[0], *self.shape[1:])
        if tuple(raw.shape[-len(expected) :]) != expected:
            raise ShapeError(
                f"the {self.kind} likelihood got decoder output of shape {tuple(raw.shape)}: expected "
                f"(..., {', '.join(map(str, expected))}), {self.parameters_per_value} parameter(s) per value; "
                "change the decoder"
            )
        # (..., P * C, H, W) -> (..., P, C, H, W)
        parameters = raw.unflatten(-len(expected), (self.parameters_per_value, self.shape[0]))
        values = self.distribution(parameters, axis=-len(expected) - 1)
        return Independent(values, len(self.shape), validate_args=False)

    @abstractmethod
    def distribution(self, parameters: Tensor, axis: int) -> Distribution:
        """Distribution of each value by itself, from parameters (..., P, *shape) with P at `axis`."""


def check_values(x: Tensor, head: LikelihoodHead) -> None:
    """Raise DataError when an observation lies outside the support of the likelihood."""
    wrong = ~torch.isfinite(x)
    if bool(wrong.any()):
        raise DataError(f"observations contain {x[wrong][0].item()}: remove or replace missing and infinite values")
    if head.low is not None:
        wrong |= x < head.low
    if head.high is not None:
        wrong |= x > head.high
    if head.whole:
        wrong |= x != x.round()
    if bool(wrong.any()):
        support = f"{'the whole numbers' if head.whole else 'the numbers'} from {head.low:g} to {head.high:g}"
        remedy = "quantise the data" if head.whole else "rescale the data"
        raise DataError(
            f"observations contain {x[wrong][0].item():.6g}, outside the support of the {head.kind} likelihood, "
            f"{support}: {remedy} or set likelihood.kind=gaussian"
        )


class BernoulliLikelihood(LikelihoodHead):
    """log p(x | z) = sum_i x_i log r_i + (1 - x_i) log(1 - r_i), r = sigmoid(raw).

    Grey values in [0, 1] are accepted as the papers do. The cost is then the cross-entropy between pixel and r: it is
    not the log-density of a grey value, is smallest at r = x and does not reach 0 there.
    """

    kind = "bernoulli"

    def __init__(self, spec: DataSpec):
        super().__init__(spec.shape, 1, low=0.0, high=1.0)

    def distribution(self, parameters: Tensor, axis: int) -> Distribution:
        return _Bernoulli(logits=parameters.squeeze(axis), validate_args=False)


class _Bernoulli(Bernoulli):
    """The density in two passes over the values, its gradient in three: images are many values."""

    def log_prob(self, value: Tensor) -> Tensor:
        log_prob: Tensor = _BernoulliLogProb.apply(value, self.logits)
        return log_prob


class _BernoulliLogProb(torch.autograd.Function):
    """log p(x; l) = x l - log(1 + e^l), with d/dl = x - sigmoid(l) and d/dx = l."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, logits: Tensor) -> Tensor:
        ctx.save_for_backward(value, logits)
        # Above the threshold softplus is its argument: e^-40 is far below what either precision resolves there.
        return torch.addcmul(softplus(logits, threshold=40).neg_(), value, logits)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        value, logits = ctx.saved_tensors
        of_value = of_logits = None
        if ctx.needs_input_grad[0]:
            of_value = (gradient * logits).sum_to_size(value.shape)
        if ctx.needs_input_grad[1]:
            of_logits = ((value - logits.sigmoid()) * gradient).sum_to_size(logits.shape)
        return of_value, of_logits


class GaussianLikelihood(LikelihoodHead):
    """log p(x | z) = sum_i log N(x_i; m_i, s_i), m from the decoder.

    s is `std` (fixed), floor + softplus(a) with one learned number a (learned), or the same of a raw number for each
    value (predicted); both start from `std`. With s = 1 the cost is half the squared error plus a constant.
    """

    kind = "gaussian"

    def __init__(self, spec: DataSpec, variance: str = "fixed", std: float = 1.0):
        super().__init__(spec.shape, 2 if variance == "predicted" else 1)
        self.variance, self.std = variance, std
        # softplus(start) = std - floor
        start = 0.0 if variance == "fixed" else std - STD_FLOOR + math.log(-math.expm1(STD_FLOOR - std))
        self.start = start
        if variance == "learned":
            self.raw_std = nn.Parameter(torch.tensor(start))

    def distribution(self, parameters: Tensor, axis: int) -> Distribution:
        mean = parameters.select(axis, 0)
        if self.variance == "fixed":
            std = torch.as_tensor(self.std, dtype=mean.dtype, device=mean.device)
        elif self.variance == "learned":
            std = STD_FLOOR + softplus(self.raw_std)
        else:
            std = STD_FLOOR + softplus(parameters.select(axis, 1) + self.start)
        return FewPassNormal(mean, std, validate_args=False)


class CategoricalLikelihood(LikelihoodHead):
    """log p(x | z) = sum_i log softmax(raw_i)[x_i]: each value is one of L levels or tokens, a whole number."""

    kind = "categorical"

    def __init__(self, spec: DataSpec):
        levels = spec.levels or 2
        super().__init__(spec.shape, levels, low=0.0, high=levels - 1.0, whole=True)
        self.ordered = spec.values != "tokens"

    def distribution(self, parameters: Tensor, axis: int) -> Distribution:
        return Levels(parameters, axis, self.ordered)


class DiscretisedLikelihood(LikelihoodHead):
    """A logistic distribution cut into L bins, after Salimans et al. 2017 (PixelCNN++, eq. 2), with one component.

    Two raw numbers per value, location and scale, on a grid from -1 to 1. Data are whole numbers 0 .. L - 1, or values
    in [0, 1], which belong to the nearest of 256 bins.
    """

    kind = "discretised"

    def __init__(self, spec: DataSpec):
        levels = UNIT_LEVELS if spec.values == "unit" else spec.levels or 2
        high = 1.0 if spec.values == "unit" else levels - 1.0
        super().__init__(spec.shape, 2, low=0.0, high=high, whole=spec.values != "unit")
        self.levels, self.last = levels, high

    def distribution(self, parameters: Tensor, axis: int) -> Distribution:
        scale = STD_FLOOR + softplus(parameters.select(axis, 1))
        return DiscretisedLogistic(parameters.select(axis, 0), scale, self.levels, self.last)


class Levels(Distribution):
    """One of L levels, written as a floating-point whole number.

    logits:  batch shape with L inserted at `axis` (negative), where the decoder put it: moving it would copy the image
    ordered: True when levels are amounts and have a mean; tokens have none, and `mean` is then the likeliest token
    """

    arg_constraints = {"logits": constraints.real}  # noqa: RUF012 - the name torch.distributions asks for

    def __init__(self, logits: Tensor, axis: int, ordered: bool = True):
        self.logits, self.axis, self.ordered = logits, axis, ordered
        super().__init__(logits.select(axis, 0).shape, validate_args=False)

    def expand(self, batch_shape: Shape, _instance: Distribution | None = None) -> Levels:
        shape = list(batch_shape)
        shape.insert(len(shape) + self.axis + 1, self.logits.shape[self.axis])
        return Levels(self.logits.expand(shape), self.axis, self.ordered)

    @property
    def mean(self) -> Tensor:
        """The expected level, sum_k k p(k)."""
        if not self.ordered:
            return self.logits.argmax(self.axis).to(self.logits.dtype)
        levels = torch.arange(self.logits.shape[self.axis], dtype=self.logits.dtype, device=self.logits.device)
        return torch.tensordot(self.logits.softmax(self.axis).movedim(self.axis, -1), levels, dims=1)

    def log_prob(self, value: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(value.shape, self.batch_shape)
        log_probs = self.expand(shape).logits.log_softmax(self.axis)
        return log_probs.gather(self.axis, value.long().expand(shape).unsqueeze(self.axis)).squeeze(self.axis)

    def sample(self, sample_shape: Shape = torch.Size()) -> Tensor:  # noqa: B008 - torch's own signature
        categories = Categorical(logits=self.logits.movedim(self.axis, -1), validate_args=False)
        return categories.sample(sample_shape).to(self.logits.dtype)


class DiscretisedLogistic(Distribution):
    r"""A logistic distribution cut into L bins centred at -1 + 2k / (L - 1), with half-width h = 1 / (L - 1).

        P(k) = sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - exp(b - a))
        a = (centre_k + h - location) / scale      b = (centre_k - h - location) / scale

    The product form has no cancellation, so bins far in the tail keep their log-probability and gradient. The first bin
    reaches down to minus infinity (b does not count), the last up to plus infinity (a does not count).

    location, scale: batch shape, on the grid from -1 to 1
    high:            the data value of the last bin; the first bin's is 0
    """

    arg_constraints = {"location": constraints.real, "scale": constraints.positive}  # noqa: RUF012 - as above

    def __init__(self, location: Tensor, scale: Tensor, levels: int, high: float):
        self.location, self.scale, self.levels, self.high = location, scale, levels, high
        super().__init__(torch.broadcast_shapes(location.shape, scale.shape), validate_args=False)

    def expand(self, batch_shape: Shape, _instance: Distribution | None = None) -> DiscretisedLogistic:
        location, scale = self.location.expand(batch_shape), self.scale.expand(batch_shape)
        return DiscretisedLogistic(location, scale, self.levels, self.high)

    def log_prob(self, value: Tensor) -> Tensor:
        top = self.levels - 1
        level = (value * (top / self.high)).round()
        distance, half = (2 / top) * level - 1 - self.location, 1 / top
        below_upper = logsigmoid((distance + half) / self.scale)
        above_lower = logsigmoid((half - distance) / self.scale)
        within = torch.log(-torch.expm1(-2 * half / self.scale))
        middle = below_upper + above_lower + within
        return torch.where(level <= 0, below_upper, torch.where(level >= top, above_lower, middle))

    @property
    def mean(self) -> Tensor:
        """The expected value in data units: sum_k P(level >= k), one bin edge after the other to spare memory."""
        top = self.levels - 1
        total = torch.zeros_like(self.location + self.scale)
        for k in range(1, self.levels):
            total += torch.sigmoid((self.location - ((2 * k - 1) / top - 1)) / self.scale)
        return total * (self.high / top)

    def sample(self, sample_shape: Shape = torch.Size()) -> Tensor:  # noqa: B008 - torch's own signature
        shape, top = self._extended_shape(sample_shape), self.levels - 1
        with torch.no_grad():
            uniform = torch.rand(shape, dtype=self.location.dtype, device=self.location.device)
            point = self.location + self.scale * torch.logit(uniform, eps=torch.finfo(uniform.dtype).eps)
            return ((point + 1) * (top / 2)).round().clamp(0, top) * (self.high / top)
