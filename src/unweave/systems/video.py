"""Disentangling video with independent prediction (Whitney and Fergus 2019).

    Z_t = (z_t^1, ..., z_t^K)                  K factors of d dimensions at each of T steps
    p(z_1^i) = N(0, I)
    p(z_t^i | z_{t-1}^i) = N(mean_i, diag(std_i^2))(z_{t-1}^i)       each factor has its own transition network
    p(x_t | Z_t) = likelihood(decoder(z_t^1, ..., z_t^K))
    q(Z_t | Z_{t-1}, x_t) = N(mean, diag(std^2))(encoder(x_t), mean and log-variance of p(Z_t | Z_{t-1}))

Objective (the bound of section 2 and appendix B, as a cost):

    - E_q[log p(X|Z)] + KL(q(Z_1|x_1) || p(Z_1)) + sum_t>1 E_q KL(q(Z_t|Z_{t-1}, x_t) || p(Z_t|Z_{t-1}))
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic
import torch
from torch import Tensor, nn
from torch.distributions import Independent
from torch.nn.functional import leaky_relu, selu

from unweave.base.card import Card
from unweave.base.errors import ConfigError, ShapeError
from unweave.base.schedule import Weight
from unweave.core.batch import Batch
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes, Predicts, Samples
from unweave.core.codes import Codes
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import normal
from unweave.core.system import System, SystemConfig, Training
from unweave.core.terms import Terms
from unweave.core.trace import Trace
from unweave.nets.build import (
    Nets,
    Sizes,
    limit_log_variance,
    own_or_built_decoder,
    own_or_built_encoder,
)
from unweave.objectives.elbo import kl, reconstruction
from unweave.objectives.likelihood import Likelihood


class VideoConfig(SystemConfig):
    """Settings of the video model."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # For frames of 32 x 32: a digit has a quarter of the paper's pixels, and a quarter of its variance keeps the
        # nats that a digit is worth. Dense networks find both digits in a few hundred steps, convolutions took longer.
        # A large weight of the KL terms at first: with 1 from the start both factors hold a part of each place, and
        # do not come apart again.
        "quick": {
            "dims": 8,
            "beta": "linear(8, 1, 1000)",
            "nets.kind": "dense",
            "nets.hidden": [256],
            "nets.activation": "gelu",
            "likelihood.kind": "gaussian",
            "likelihood.std": 0.25,
            "training.steps": 2500,
            "training.batch_size": 32,
            "training.optimiser.lr": "cosine(0.003, 0.0003, 2500)",
            "training.optimiser.clip": 1000.0,
        },
        # Appendix A, for clips of 64 x 64 pixels. The text gives neither d, T, the batch size nor the number of steps.
        "paper": {
            "dims": 8,
            "transition_hidden": [128, 128, 128, 128],
            "inference_hidden": 16,
            "nets.kind": "convolutional",
            "nets.stem": 2,
            "nets.channels": [64, 128, 256, 512],
            "nets.hidden": [32],
            "nets.activation": "leaky_relu",
            "likelihood.kind": "gaussian",
            "likelihood.std": 0.5,
            "training.steps": 100_000,
            "training.batch_size": 64,
            "training.optimiser.lr": 3e-4,
        },
    }

    factors: pydantic.PositiveInt = 2
    """Number of factors K."""
    dims: pydantic.PositiveInt = 8
    """Dimensions d of each factor."""
    transitions: Literal["factored", "entangled"] = "factored"
    """One transition network for each factor, or a single one over the numbers of all factors (the baseline)."""
    transition_hidden: Sizes = (128, 128)
    """Hidden layers of each transition network."""
    inference_hidden: pydantic.PositiveInt = 128
    """Units of the layers that join a frame's features with the prediction; the paper takes K d."""
    residual: bool = False
    """Means are changes: of the step before in the transitions, of the prediction in inference."""
    beta: Weight = 1.0
    """Weight of both KL terms; the paper's is 1."""
    nets: Nets = Nets()
    """Encoder and decoder of single frames."""
    likelihood: Likelihood = Likelihood()
    """p(x_t|Z_t) of a frame."""
    training: Training = Training(steps=2000, batch_size=16)
    """How long and on what batches it trains; each clip is as many pictures as it has frames."""

    def fitted(self, spec: DataSpec) -> VideoConfig:
        """Networks see single frames."""
        return super().fitted(frame_of(spec))


def frame_of(spec: DataSpec) -> DataSpec:
    """The data's frames: (C, H, W) of clips (T, C, H, W)."""
    if not spec.is_clip:
        raise ShapeError(f"observations of shape {spec.shape} are not clips (T, C, H, W): give a data set of clips")
    return replace(spec, shape=spec.shape[1:])


class Transitions(nn.Module):
    """p(Z_t | Z_{t-1}): G networks side by side, each over its own n numbers, as one batched product per layer.

    groups: G, the number of factors; 1 for the entangled model
    size:   n, the numbers of one group; G n = K d
    hidden: sizes of the hidden layers, with SELU after each
    residual: the mean is z plus what the network gives
    """

    def __init__(self, groups: int, size: int, hidden: Sequence[int], residual: bool = False):
        super().__init__()
        self.groups, self.size, self.residual = groups, size, residual
        sizes = (size, *hidden, 2 * size)
        pairs = list(itertools.pairwise(sizes))
        # Variance 1 / inputs, which SELU needs to keep its activations normalised.
        self.weights = nn.ParameterList([torch.randn(groups, a, b) / math.sqrt(a) for a, b in pairs])
        self.biases = nn.ParameterList([torch.zeros(groups, b) for _, b in pairs])
        if residual:  # begin with a random walk: changes that add up over time would run away before they are trained
            nn.init.zeros_(self.weights[-1])

    def forward(self, z: Tensor, *, frozen: bool = False) -> tuple[Tensor, Tensor]:
        """Mean and log-variance (..., G n) of the next step from z (..., G n).

        frozen: treat the weights as constants: gradients pass through to z and none reaches the transitions
        """
        h = z.reshape(-1, self.groups, self.size).transpose(0, 1)  # (G, rows, n)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if frozen:
                weight, bias = weight.detach(), bias.detach()
            h = torch.baddbmm(bias[:, None], selu(h) if layer else h, weight)
        change, log_variance = h.transpose(0, 1).reshape(*z.shape[:-1], self.groups, -1).chunk(2, dim=-1)
        mean = change.flatten(-2) + z if self.residual else change.flatten(-2)
        return mean, limit_log_variance(log_variance.flatten(-2))


class Inference(nn.Module):
    """q(Z_t | Z_{t-1}, x_t) from a frame's features and the predicted prior (appendix A).

    features: F numbers of a frame
    size:     K d numbers of the code
    width:    H, units of each layer between
    residual: the mean is the prediction's plus what the network gives
    """

    def __init__(self, features: int, size: int, width: int, residual: bool = False):
        super().__init__()
        self.residual = residual
        self.frame = nn.Linear(features, width)
        self.mean = nn.Linear(size, width)
        self.log_variance = nn.Linear(size, width)
        self.join = nn.Linear(3 * width, width)
        self.head = nn.Linear(width, 2 * size)

    def forward(self, seen: Tensor, mean: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance (..., K d) from `frame(features)`, (..., H), and the prediction's (..., K d).

        `frame` is not called here: it waits for no step before, so that all frames go through it at once.
        """
        parts = (seen, self.mean(mean), self.log_variance(log_variance))
        h = leaky_relu(torch.cat(torch.broadcast_tensors(*parts), dim=-1), 0.2)
        change, new_log_variance = self.head(leaky_relu(self.join(h), 0.2)).chunk(2, dim=-1)
        return change + mean if self.residual else change, limit_log_variance(new_log_variance)


class Video(System, Encodes, Decodes, Samples, Predicts):
    """Factors whose future is predicted from their own past alone: objects of a scene that do not interact."""

    card = Card(
        summary="clips as factors that are each predicted from their own past",
        paper="Whitney and Fergus, Disentangling Video with Independent Prediction, 2019",
        bibtex="""@misc{whitney2019disentangling,
  author        = {Whitney, William F. and Fergus, Rob},
  title         = {Disentangling Video with Independent Prediction},
  year          = {2019},
  eprint        = {1901.05590},
  archivePrefix = {arXiv},
}""",
        needs="clips (T, C, H, W) of one length",
    )
    config_class = VideoConfig
    config: VideoConfig

    def __init__(
        self,
        config: VideoConfig,
        spec: DataSpec,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
    ):
        super().__init__(config, spec)
        frame = frame_of(spec)
        self.size = config.factors * config.dims
        self.encoder, features = own_or_built_encoder(encoder, config.nets, frame)
        self.inference = Inference(features, self.size, config.inference_hidden, config.residual)
        groups = config.factors if config.transitions == "factored" else 1
        self.transitions = Transitions(groups, self.size // groups, config.transition_hidden, config.residual)
        self.likelihood = config.likelihood.build(frame)
        parameters = self.likelihood.parameters_per_value
        self.decoder = own_or_built_decoder(decoder, config.nets, frame, self.size, parameters)

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self._blocks(self.spec.shape[0])

    def _blocks(self, steps: int) -> tuple[Block, ...]:
        """The factors of clips of any length."""
        shape = (steps, self.config.dims)
        return tuple(Block(f"factor_{i}", shape, axes=("time", "dim")) for i in range(self.config.factors))

    # The two programs: a loop over time, all factors at once ---------------------------------------------------------

    def infer(self, q: Trace, batch: Batch) -> None:
        x = self._clips(batch)
        seen = self.inference.frame(self.encoder(x))  # (B, T, H), all frames at once
        mean = log_variance = seen.new_zeros(self.size)  # before the first frame: those of N(0, I)
        for t in range(x.shape[1]):
            z = self._sample(q, t, *self.inference(seen[:, t], mean, log_variance))
            if t + 1 < x.shape[1]:
                # As in the paper, inference reads the prediction and does not train the network that makes it.
                mean, log_variance = self.transitions(z, frozen=True)

    def generate(self, p: Trace, context: Batch) -> None:
        steps = self._steps(context)
        mean = log_variance = next(self.parameters()).new_zeros(self.size)
        codes = [self._sample(p, 0, mean, log_variance)]
        at_once = self._predictions(p, steps)
        for t in range(1, steps):
            mean, log_variance = at_once[t - 1] if at_once else self.transitions(codes[-1])
            codes.append(self._sample(p, t, mean, log_variance))
        frames = self.likelihood(self.decoder(torch.stack(codes, dim=-2)))  # (..., B, T) frames of event (C, H, W)
        p.sample("x", Independent(frames.base_dist, 4, validate_args=False))

    def _sample(self, trace: Trace, t: int, mean: Tensor, log_variance: Tensor) -> Tensor:
        """(..., K d) values of all factors at step t; each factor is a site of its own."""
        std = torch.exp(log_variance / 2)
        factors = (each.unflatten(-1, (-1, self.config.dims)).unbind(dim=-2) for each in (mean, std))
        values = [
            trace.sample(f"factor_{i}[{t}]", normal(*parameters))
            for i, parameters in enumerate(zip(*factors, strict=True))
        ]
        return torch.cat(values, dim=-1)

    def _predictions(self, p: Trace, steps: int) -> list[tuple[Tensor, Tensor]]:
        """Mean and log-variance (..., K d) of each step after the first, in one pass; none if a step is to be drawn."""
        values = [[p.known(f"factor_{i}[{t}]") for i in range(self.config.factors)] for t in range(steps - 1)]
        shapes = {None if value is None else value.shape for step in values for value in step}
        if len(shapes) != 1 or None in shapes:
            return []
        known = torch.stack([torch.cat(step, dim=-1) for step in values], dim=-2)  # type: ignore[arg-type]
        if known.shape[-1] != self.size:
            return []  # `sample` says what is wrong with it
        mean, log_variance = self.transitions(known)
        return list(zip(mean.unbind(dim=-2), log_variance.unbind(dim=-2), strict=True))

    def _clips(self, batch: Batch) -> Tensor:
        """(B, T, C, H, W) observations; T is free, the frames are those the system was built for."""
        x = batch.observations
        if x.dim() != 5 or tuple(x.shape[2:]) != self.spec.shape[1:]:
            frame = " x ".join(map(str, self.spec.shape[1:]))
            raise ShapeError(
                f"observations of shape {tuple(x.shape)} are not clips (B, T, C, H, W) with frames of {frame}: give "
                "clips like those of the training data"
            )
        self._steps(batch, x.shape[1])
        return x

    def _steps(self, context: Batch, steps: int | None = None) -> int:
        """How many frames the clips of a batch have: `lengths` where it is given, else as many as the data's clips."""
        if context.lengths is None:
            return self.spec.shape[0] if steps is None else steps
        shortest, longest = int(context.lengths.min()), int(context.lengths.max())
        if shortest != longest or steps not in (None, longest):
            raise ShapeError(
                f"clips of a batch have {shortest} to {steps or longest} frames: cut them to one length, {shortest}"
            )
        return longest

    def objective(self, player: str, batch: Batch, step: int) -> Terms:
        """reconstruction + beta (kl_first + kl_transition)."""
        x = self._clips(batch)
        q = self.posterior(batch)
        steps = torch.full((batch.rows,), x.shape[1], device=x.device)
        p = self.joint(q.as_given(x=x), replace(batch, lengths=steps))
        names = [block.name for block in self.blocks]
        first = kl(q, p, *(f"{name}[0]" for name in names))
        later = [f"{name}[{t}]" for t in range(1, x.shape[1]) for name in names]
        return Terms(
            {
                "reconstruction": reconstruction(p),
                "kl_first": first,
                "kl_transition": kl(q, p, *later) if later else torch.zeros_like(first),
            },
            {"kl_first": self.config.beta, "kl_transition": self.config.beta},
        )

    # Beyond the clip -------------------------------------------------------------------------------------------------

    def predict(self, batch: Batch, steps: int, seed: int | None = None) -> np.ndarray:
        """(B, T + steps, C, H, W) mean frames: the clip's reconstruction, then `steps` frames it was not shown.

        seed: as for `predict_codes`
        """
        codes = self.predict_codes(batch, steps, seed)
        frames = len(codes[codes.blocks[0].name][0])
        return self.render(codes, Batch(rows=codes.rows, lengths=torch.full((codes.rows,), frames)))

    @torch.no_grad()
    def predict_codes(self, batch: Batch, steps: int, seed: int | None = None) -> Codes:
        """Codes of T + steps frames: the posterior's centres for the clip, then what the transitions make of the last.

        seed: draw each further step from p(Z_t | Z_{t-1}); without one, its mean is taken
        """
        if steps < 0:
            raise ConfigError(f"cannot predict {steps} frames: give 0 or more")
        steps_done = list(self._read(batch).unbind(dim=1))
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        for _ in range(steps):
            mean, log_variance = self.transitions(steps_done[-1])
            if generator is not None:
                noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype).to(self.device)
                mean = mean + torch.exp(log_variance / 2) * noise
            steps_done.append(mean)
        return self._codes(torch.stack(steps_done, dim=1))

    @torch.no_grad()
    def draw_posterior(self, batch: Batch, seed: int) -> Codes:
        """Codes drawn from q(Z|X), step after step; `encode` gives centres. Information between steps needs draws."""
        return self._codes(self._read(batch, seed))

    def _read(self, batch: Batch, seed: int | None = None) -> Tensor:
        """(B, T, K d) codes of clips of any length T: a draw from q(Z|X), without a seed its centres."""
        was_training = self.training
        self.eval()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed or 0)
            q = self.posterior(batch.to(self.device), centred=seed is None)
        self.train(was_training)
        values = [torch.stack([site.value for site in q.steps(block.name)], dim=1) for block in self.blocks]
        return torch.cat(values, dim=-1)

    def _codes(self, z: Tensor) -> Codes:
        """Codes of (B, T, K d) numbers, for any T."""
        blocks = self._blocks(z.shape[1])
        parts = z.cpu().split(self.config.dims, dim=-1)
        return Codes(blocks, {block.name: part.numpy() for block, part in zip(blocks, parts, strict=True)})
