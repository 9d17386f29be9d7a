"""Semi-supervised model of a label and a style (Siddharth et al. 2017, section 3.1; Kingma et al. 2014, M2).

    p(y) = 1/K                y: one of K classes, labelled on some rows, one-hot
    p(z) = N(0, I)            z: D dimensions of style
    p(x|y,z) = likelihood(decoder(y, z))
    q(y|x) = softmax(classifier(x))
    q(z|x,y) = N(mean(x, y), diag(std(x, y)^2))

The objective is that of every `Graph`: eq. 1 on rows without a label, eq. 8 or 9 on rows with one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar

import pydantic
import torch
from torch import Tensor, nn

from unweave.base.card import Card
from unweave.base.errors import ConfigError, DataError, unknown_name
from unweave.core.batch import Batch
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes, Samples
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import standard_normal
from unweave.core.trace import Trace
from unweave.models.graph import Graph, GraphConfig, joined
from unweave.nets.build import (
    GaussianHead,
    Nets,
    own_or_built_decoder,
    own_or_built_encoder,
)
from unweave.nets.dense import activation_layer
from unweave.objectives.likelihood import Likelihood

# Two minutes on one core. Half of each batch is labelled; the classifier sees images moved by up to two pixels.
_QUICK = {
    "labels": 100,
    "rho": 0.5,
    "alpha": 50.0,
    "nets.kind": "dense",
    "nets.hidden": [400],
    "nets.activation": "relu",
    "classifier.stem": 2,
    "classifier.channels": [32, 64],
    "classifier.hidden": [128],
    "classifier.activation": "relu",
    "classifier.norm": "layer",
    "dropout": 0.5,
    "training.batch_size": 128,
    "training.steps": 3000,
    "training.optimiser.lr": "cosine(0.001, 0, 3000)",
}


class StructuredConfig(GraphConfig):
    """Settings of the model of a label and a style."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": _QUICK,
        "mnist": {**_QUICK, "classifier.kind": "convolutional", "shift": 2},
        # Section 3.1: style of 10 dimensions, dense networks, Adam at its default rates, batches of 100 or more,
        # alpha = 0.1 / rho, gamma = 1. Sizes of the networks and number of steps are not in the text.
        "paper": {
            "labels": 100,
            "nets.kind": "dense",
            "nets.hidden": [500, 500],
            "nets.activation": "relu",
            "classifier.kind": "dense",
            "classifier.hidden": [500, 500],
            "classifier.activation": "relu",
            "training.batch_size": 100,
            "training.steps": 100_000,
        },
    }

    label: str = ""
    """The discrete factor that is the label y; empty: the only discrete one."""
    latent: pydantic.PositiveInt = 10
    """Number of style dimensions D."""
    nets: Nets = Nets()
    """Networks of the style encoder q(z|x,y) and of the decoder p(x|y,z)."""
    classifier: Nets = Nets()
    """Network of q(y|x)."""
    dropout: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.0
    """Share of the classifier's features that are set to 0 at each training step."""
    noise: pydantic.NonNegativeFloat = 0.0
    """Standard deviation of the normal noise on what the classifier sees in training."""
    shift: pydantic.NonNegativeInt = 0
    """Images are moved by up to this many pixels before the classifier sees them in training."""
    likelihood: Likelihood = Likelihood()
    """p(x|y,z)."""


class Structured(Graph, Encodes, Decodes, Samples):
    """A class and a style, learned from few labels and many observations."""

    card = Card(
        summary="a label and a style from few labels and many observations",
        paper="Siddharth et al., Learning Disentangled Representations with Semi-Supervised Deep Generative Models, "
        "NeurIPS 2017",
        bibtex="""@inproceedings{siddharth2017learning,
  title = {Learning Disentangled Representations with Semi-Supervised Deep Generative Models},
  author = {Siddharth, N. and Paige, Brooks and van de Meent, Jan-Willem and Desmaison, Alban and Goodman, Noah D. and
            Kohli, Pushmeet and Wood, Frank and Torr, Philip H. S.},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2017}
}""",
        needs="observations with a discrete factor, known for some of them",
    )
    config_class = StructuredConfig
    config: StructuredConfig

    def __init__(
        self,
        config: StructuredConfig,
        spec: DataSpec,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
        classifier: nn.Module | None = None,
    ):
        super().__init__(config, spec)
        self.label, self.classes = _label(config.label, spec)
        if config.shift and not spec.is_image:
            raise ConfigError(f"setting 'shift' moves images and observations have shape {spec.shape}: set shift=0")
        self.perturb = Perturb(config.noise, config.shift)
        self.classifier, features = own_or_built_encoder(classifier, config.classifier, spec)
        self.class_head = nn.Sequential(nn.Dropout(config.dropout), nn.Linear(features, self.classes))
        self.encoder, features = own_or_built_encoder(encoder, config.nets, spec)
        self.style_head = StyleHead(features, self.classes, config.latent, self.config.nets)
        self.likelihood = config.likelihood.build(spec)
        inputs, parameters = self.classes + config.latent, self.likelihood.parameters_per_value
        self.decoder = own_or_built_decoder(decoder, config.nets, spec, inputs, parameters)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:  # type: ignore[override]  # read several times at each step
        return (Block(self.label, (self.classes,), kind="simplex"), Block("style", (self.config.latent,)))

    def infer(self, q: Trace, batch: Batch) -> None:
        x = batch.observations
        seen = self.perturb(x) if self.training else x
        y = q.sample(self.label, self.category(self.class_head(self.classifier(seen))))
        q.sample("style", self.style_head(self.encoder(x), y))

    def generate(self, p: Trace, context: Batch) -> None:
        y = p.sample(self.label, self.uniform_category(self.classes))
        z = p.sample("style", standard_normal(self.config.latent, like=self.labelled_share))
        p.sample("x", self.likelihood(self.decoder(joined(y, z))))


class StyleHead(nn.Module):
    """Features (B, F) and a class (..., B, K) to the normal q(z|x,y) over (..., B, D).

    One hidden layer f(U h + V y), then mean and log-variance. U h is the same for every class and is computed once.
    """

    def __init__(self, features: int, classes: int, dims: int, nets: Nets):
        super().__init__()
        width = nets.dense[-1] if nets.dense else features
        self.of_features = nn.Linear(features, width)
        self.of_class = nn.Linear(classes, width, bias=False)
        self.activation = activation_layer(nets.activation)
        self.head = GaussianHead(width, dims)

    def forward(self, h: Tensor, y: Tensor) -> torch.distributions.Independent:
        return self.head(self.activation(self.of_features(h) + self.of_class(y)))


class Perturb(nn.Module):
    """What the classifier sees in training: the observation moved by a few pixels, with noise.

    noise: standard deviation of normal noise on every value
    shift: each image of (B, C, H, W) moves by -shift .. shift pixels in both directions, zeros follow
    """

    def __init__(self, noise: float, shift: int):
        super().__init__()
        self.noise, self.shift = noise, shift

    def forward(self, x: Tensor) -> Tensor:
        if self.shift:
            height, width = x.shape[-2:]
            padded = nn.functional.pad(x, [self.shift] * 4)
            down, right = torch.randint(0, 2 * self.shift + 1, (2, len(x)), device=x.device)
            rows = (down[:, None] + torch.arange(height, device=x.device))[:, None, :, None]
            columns = (right[:, None] + torch.arange(width, device=x.device))[:, None, None, :]
            images = torch.arange(len(x), device=x.device)[:, None, None, None]
            channels = torch.arange(x.shape[1], device=x.device)[None, :, None, None]
            x = padded[images, channels, rows, columns]
        return x + self.noise * torch.randn_like(x) if self.noise else x


def _label(wanted: str, spec: DataSpec) -> tuple[str, int]:
    """The factor that is the label, and its number of classes K."""
    discrete = {name: count for name, count in spec.labels.items() if count}
    if wanted and wanted not in spec.labels:
        raise unknown_name("factor", wanted, spec.labels)
    if wanted and wanted not in discrete:
        raise DataError(f"factor {wanted!r} is continuous and no class label: choose a discrete one with label=NAME")
    if not wanted and not discrete:
        raise DataError("the data have no discrete factor to take labels from: give a table of factors with the data")
    if not wanted and len(discrete) > 1:
        raise DataError(f"several factors could be the label, {', '.join(discrete)}: choose one with label=NAME")
    name = wanted or next(iter(discrete))
    if name in ("style", "x") or not name.isidentifier():
        raise DataError(f"a factor called {name!r} cannot name the label's block: rename it in the data")
    if discrete[name] < 2:
        raise DataError(f"factor {name!r} has one value only: a label needs two or more")
    return name, discrete[name]
