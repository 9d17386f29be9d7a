"""What the one-block Gaussian systems have in common: settings and networks, no objective.

Not a base class: a system calls it, and its own file shows where. q(z|x) is a factorised normal, p(z) = N(0, I), p(x|z)
one of the likelihoods.
"""

from __future__ import annotations

import pydantic
from torch import Tensor, nn
from torch.distributions import Distribution

from unweave.core.block import Block
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import standard_normal
from unweave.core.system import SystemConfig
from unweave.nets.build import (
    GaussianHead,
    Nets,
    OverRows,
    build_decoder,
    build_encoder,
    check_decoder,
    check_encoder,
)
from unweave.objectives.likelihood import Likelihood


class NetworkConfig(SystemConfig):
    """Settings of a system with one Gaussian block and an encoder and decoder."""

    latent: pydantic.PositiveInt = 10
    """Number of latent dimensions D."""
    nets: Nets = Nets()
    """Encoder and decoder networks."""
    likelihood: Likelihood = Likelihood()
    """p(x|z)."""


# Settings that train in minutes on two cores: 8 x 8 patches at stride 4 instead of the costly one-channel edge layers.
QUICK = {
    "nets.stem": 4,
    "nets.channels": [32, 32, 32],
    "nets.hidden": [128],
    "training.steps": 6000,
    "training.batch_size": 64,
    "training.optimiser.lr": 1e-3,
}


class GaussianNetworks(nn.Module):
    """q(z|x), p(z) and p(x|z) for one block z of D dimensions.

    encoder, decoder: networks of the user's own in place of those the settings describe
    """

    def __init__(self, config: NetworkConfig, spec: DataSpec, encoder: nn.Module | None, decoder: nn.Module | None):
        super().__init__()
        self.encoder = build_encoder(config.nets, spec) if encoder is None else OverRows(encoder, len(spec.shape))
        self.head = GaussianHead(check_encoder(self.encoder, spec), config.latent)
        self.likelihood = config.likelihood.build(spec)
        parameters = self.likelihood.parameters_per_value
        if decoder is None:
            self.decoder = build_decoder(config.nets, spec, config.latent, parameters)
        else:
            self.decoder = OverRows(decoder, 1)
        check_decoder(self.decoder, spec, config.latent, parameters)
        self.block = Block("z", (config.latent,))

    def posterior(self, x: Tensor) -> Distribution:
        """q(z|x): x (B, *shape) -> normal over (B, D)."""
        return self.head(self.encoder(x))

    def prior(self) -> Distribution:
        """p(z) = N(0, I) over D dimensions."""
        return standard_normal(self.block.size, like=self.head.linear.weight)

    def observation(self, z: Tensor) -> Distribution:
        """p(x|z): z (..., D) -> distribution over (..., *shape)."""
        return self.likelihood(self.decoder(z))
