"""Distributions of blocks and what the rest of the library asks of any distribution.

`torch.distributions` does the work; this file adds the Concrete distribution in a form that survives low temperatures,
a distribution with all mass on one value, and three questions with one answer for every distribution: its elements'
log-probabilities, its centre, its spread.
"""

from __future__ import annotations

import math
from typing import Annotated

import pydantic
import torch
from torch import Tensor
from torch.distributions import (
    Categorical,
    Distribution,
    Independent,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
    OneHotCategorical,
    constraints,
    kl_divergence,
    register_kl,
)

from unweave.base.errors import ConfigError
from unweave.base.schedule import Schedule, Weight

Shape = torch.Size | list[int] | tuple[int, ...]


def normal(mean: Tensor, std: Tensor | float) -> Independent:
    """Factorised normal; the last axis is the event: mean (..., D), std (..., D) or a number."""
    if not isinstance(std, Tensor):
        std = torch.full_like(mean, std)
    return Independent(FewPassNormal(mean, std, validate_args=False), 1, validate_args=False)


class FewPassNormal(Normal):
    """The normal distribution with a density in five passes over the values, where PyTorch's takes nine.

    loc, scale: tensors; of one shape they are taken as they are, without the checks that many steps would pay for. A
                scale that many values share is not spread out over them before its logarithm is taken
    """

    def __init__(self, loc: Tensor, scale: Tensor, validate_args: bool | None = None):
        self.shared_scale = scale
        if loc.shape != scale.shape:
            loc, scale = torch.broadcast_tensors(loc, scale)
        self.loc, self.scale = loc, scale
        Distribution.__init__(self, loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Distribution | None = None) -> FewPassNormal:
        return FewPassNormal(self.loc.expand(batch_shape), self.shared_scale, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        error = (value - self.loc) / self.shared_scale
        return torch.addcmul(-0.5 * math.log(2 * math.pi) - self.shared_scale.log(), error, error, value=-0.5)


@register_kl(FewPassNormal, FewPassNormal)
def _kl_of_normals(q: FewPassNormal, p: FewPassNormal) -> Tensor:
    """KL(q || p) = (r^2 + e^2 - 1) / 2 - log r with r = s_q / s_p and e = (m_q - m_p) / s_p, element by element."""
    ratio, error = q.scale / p.scale, (q.loc - p.loc) / p.scale
    half = torch.addcmul(-0.5 - ratio.log(), ratio, ratio, value=0.5)
    return torch.addcmul(half, error, error, value=0.5)


def standard_normal(dims: int, like: Tensor | None = None) -> Independent:
    """N(0, I) over `dims` dimensions, without a batch axis; the trace supplies the rows."""
    zeros = torch.zeros(dims) if like is None else torch.zeros(dims, dtype=like.dtype, device=like.device)
    return normal(zeros, 1.0)


def _warm(temperature: float | Schedule) -> float | Schedule:
    ends = (temperature.start, temperature.end) if isinstance(temperature, Schedule) else (temperature,)
    if min(ends) <= 0:
        raise ConfigError("a temperature is above 0: low ones such as 0.1 give draws that are nearly one-hot")
    return temperature


Temperature = Annotated[Weight, pydantic.AfterValidator(_warm)]
"""Type of a setting: the temperature of a Concrete distribution, a number or a schedule, above 0."""


class Concrete(Distribution):
    r"""Concrete (Gumbel-softmax) distribution on the simplex (Maddison et al. 2017, eq. 10).

        log p(y) = log (K-1)! + (K-1) log t + sum_k [log pi_k - (t+1) log y_k] - K log sum_k pi_k y_k^{-t}

    with K categories, probabilities pi (..., K) and temperature t. Samples are softmax((log pi + Gumbel noise) / t).
    At low temperatures coordinates underflow to 0, where the density is infinite; they are read as the smallest
    normal number instead, so that log-probabilities and their gradients stay finite.
    """

    arg_constraints = {"logits": constraints.real_vector}  # noqa: RUF012 - the name torch.distributions asks for
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature: float, logits: Tensor):
        self.temperature = temperature
        self.logits = logits.log_softmax(dim=-1)
        super().__init__(logits.shape[:-1], logits.shape[-1:], validate_args=False)

    def expand(self, batch_shape: Shape, _instance: Distribution | None = None) -> Concrete:
        return Concrete(self.temperature, self.logits.expand(*batch_shape, *self.event_shape))

    @property
    def probs(self) -> Tensor:
        """(..., K) category probabilities pi."""
        return self.logits.exp()

    def rsample(self, sample_shape: Shape = torch.Size()) -> Tensor:  # noqa: B008 - torch's own signature
        shape = self._extended_shape(torch.Size(sample_shape))
        uniform = torch.rand(shape, dtype=self.logits.dtype, device=self.logits.device)
        tiny = torch.finfo(uniform.dtype).tiny
        # Gumbel noise is -log(-log u).
        negative_noise = uniform.clamp_(min=tiny).log_().neg_().clamp_(min=tiny).log_()
        return ((self.logits - negative_noise) / self.temperature).softmax(dim=-1)

    def log_prob(self, value: Tensor) -> Tensor:
        categories = self.event_shape[-1]
        log_value = value.clamp(min=torch.finfo(value.dtype).tiny).log()
        t = self.temperature
        log_scale = math.lgamma(categories) + (categories - 1) * math.log(t)
        # With a_k = log pi_k - t log y_k the sum and the K logarithms are sum_k [log softmax(a)_k - log y_k].
        scaled = torch.sub(self.logits, log_value, alpha=t)
        return log_scale + (scaled.log_softmax(-1) - log_value).sum(-1)


class Delta(Distribution):
    """All mass on one value: what a deterministic encoder or generator samples.

    value:      (*batch, *event)
    event_dims: how many of its last axes are the event
    """

    arg_constraints = {}  # noqa: RUF012 - the name torch.distributions asks for
    has_rsample = True

    def __init__(self, value: Tensor, event_dims: int = 1):
        self.value = value
        split = value.dim() - event_dims
        super().__init__(value.shape[:split], value.shape[split:], validate_args=False)

    def expand(self, batch_shape: Shape, _instance: Distribution | None = None) -> Delta:
        return Delta(self.value.expand(*batch_shape, *self.event_shape), len(self.event_shape))

    @property
    def mean(self) -> Tensor:
        return self.value

    def rsample(self, sample_shape: Shape = torch.Size()) -> Tensor:  # noqa: B008 - torch's own signature
        return self.value.expand(self._extended_shape(torch.Size(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """0 at the value, minus infinity elsewhere."""
        same = (value == self.value).flatten(start_dim=value.dim() - len(self.event_shape)).all(-1)
        return torch.zeros_like(same, dtype=self.value.dtype).masked_fill(~same, -math.inf)


def elementwise_log_prob(distribution: Distribution, value: Tensor) -> Tensor:
    """(..., E) log-probabilities of the E statistically separate elements of a value.

    A factorised distribution has one element per number of its event; a Concrete or categorical variable, or a
    multivariate normal, is one element. The sum over the last axis is `distribution.log_prob(value)`.
    """
    if isinstance(distribution, Independent):
        log_prob = distribution.base_dist.log_prob(value)
        kept = log_prob.dim() - distribution.reinterpreted_batch_ndims
        return log_prob.flatten(start_dim=kept)
    return distribution.log_prob(value).unsqueeze(-1)


def count_elements(distribution: Distribution) -> int:
    """E: how many statistically separate elements `elementwise_log_prob` finds in a value."""
    if isinstance(distribution, Independent):
        return math.prod(distribution.event_shape[: distribution.reinterpreted_batch_ndims])
    return 1


def elementwise_kl(q: Distribution, p: Distribution) -> Tensor | None:
    """(..., E) KL(q || p) of each of the E elements of two factorised distributions of one event.

    None where they are not factorised alike, or have no closed form.
    """
    if not (isinstance(q, Independent) and isinstance(p, Independent)) or q.event_shape != p.event_shape:
        return None
    if q.reinterpreted_batch_ndims != p.reinterpreted_batch_ndims:
        return None
    try:
        divergence = kl_divergence(q.base_dist, p.base_dist)
    except NotImplementedError:
        return None
    return divergence.flatten(start_dim=divergence.dim() - q.reinterpreted_batch_ndims)


def centre(distribution: Distribution) -> Tensor:
    """The value a deterministic encoding takes, of the shape of a draw.

    The mean; category probabilities for a variable on the simplex; the likeliest number for a discrete one.
    """
    base = distribution.base_dist if isinstance(distribution, Independent) else distribution
    if isinstance(base, Categorical):
        return base.logits.argmax(-1)
    if isinstance(base, (Concrete, OneHotCategorical)):
        return base.probs
    return distribution.mean


def spread(distribution: Distribution) -> Tensor | None:
    """Posterior standard deviations where they describe the posterior, None for variables on a simplex."""
    base = distribution.base_dist if isinstance(distribution, Independent) else distribution
    if isinstance(base, (Normal, MultivariateNormal, MixtureSameFamily)):
        return distribution.stddev
    return None
