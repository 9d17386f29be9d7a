"""The graph with one Gaussian block, which the VAE and those that followed it share.

    p(z) = N(0, I)            z: D latent dimensions
    p(x|z) = likelihood(decoder(z))
    q(z|x) = N(mean(x), diag(std(x)^2))

A paper's class derives from `OneBlock` and adds its settings, its card and its `objective`.
"""

from __future__ import annotations

import pydantic
from torch import Tensor, nn
from torch.distributions import Distribution

from unweave.core.batch import Batch
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes, Samples
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import standard_normal
from unweave.core.system import System, SystemConfig
from unweave.core.trace import Trace
from unweave.nets.build import GaussianHead, Nets, own_or_built_decoder, own_or_built_encoder
from unweave.objectives.likelihood import Likelihood


class OneBlockConfig(SystemConfig):
    """Settings of a system with one Gaussian block and an encoder and decoder."""

    latent: pydantic.PositiveInt = 10
    """Number of latent dimensions D."""
    nets: Nets = Nets()
    """Encoder and decoder networks."""
    likelihood: Likelihood = Likelihood()
    """p(x|z)."""


class GaussianNetworks(nn.Module):
    """q(z|x), p(z) and p(x|z) for one block z of D dimensions.

    encoder, decoder: networks of the user's own in place of those the settings describe
    """

    def __init__(self, config: OneBlockConfig, spec: DataSpec, encoder: nn.Module | None, decoder: nn.Module | None):
        super().__init__()
        self.encoder, features = own_or_built_encoder(encoder, config.nets, spec)
        self.head = GaussianHead(features, config.latent)
        self.likelihood = config.likelihood.build(spec)
        parameters = self.likelihood.parameters_per_value
        self.decoder = own_or_built_decoder(decoder, config.nets, spec, config.latent, parameters)
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


class OneBlock(System, Encodes, Decodes, Samples):
    """One Gaussian block z, an encoder and a decoder; the objective is the paper's.

    encoder, decoder: networks of the user's own in place of those the settings describe
    """

    config: OneBlockConfig

    def __init__(
        self,
        config: OneBlockConfig,
        spec: DataSpec,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
    ):
        super().__init__(config, spec)
        self.networks = GaussianNetworks(config, spec, encoder, decoder)

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.networks.block,)

    def infer(self, q: Trace, batch: Batch) -> None:
        q.sample("z", self.networks.posterior(batch.observations))

    def generate(self, p: Trace, context: Batch) -> None:
        z = p.sample("z", self.networks.prior())
        p.sample("x", self.networks.observation(z))
