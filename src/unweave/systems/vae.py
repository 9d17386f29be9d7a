"""Variational autoencoder (Kingma and Welling 2013; Rezende, Mohamed and Wierstra 2014).

    p(z) = N(0, I)            z: D latent dimensions
    p(x|z) = likelihood(decoder(z))
    q(z|x) = N(mean(x), diag(std(x)^2))

Objective (Esmaeili et al. 2019, eq. 1, as a cost): -E_q[log p(x|z)] + KL(q(z|x) || p(z)).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from torch import nn

from unweave.base.card import Card
from unweave.core.batch import Batch
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes, Samples
from unweave.core.dataspec import DataSpec
from unweave.core.system import System
from unweave.core.terms import Terms
from unweave.core.trace import Trace
from unweave.objectives.elbo import kl, reconstruction
from unweave.systems._networks import QUICK, GaussianNetworks, NetworkConfig


class VAEConfig(NetworkConfig):
    """Settings of the VAE."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"quick": QUICK}

    estimator: Literal["analytic", "sampled"] = "analytic"
    """How the KL is computed: in closed form, or from the sample that is decoded."""


class VAE(System, Encodes, Decodes, Samples):
    """Variational autoencoder: reconstruct through a code close to a standard normal."""

    card = Card(
        summary="variational autoencoder, the baseline",
        paper="Kingma and Welling, Auto-Encoding Variational Bayes, ICLR 2014",
        bibtex="""@inproceedings{kingma2014vae,
  title = {Auto-Encoding Variational {Bayes}},
  author = {Kingma, Diederik P. and Welling, Max},
  booktitle = {International Conference on Learning Representations},
  year = {2014}
}""",
        needs="observations",
    )
    config_class = VAEConfig
    config: VAEConfig

    def __init__(
        self,
        config: VAEConfig,
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

    def objective(self, player: str, batch: Batch, step: int) -> Terms:
        """reconstruction + kl."""
        q = self.posterior(batch)
        p = self.joint(q.as_given(x=batch.observations), batch)
        return Terms({"reconstruction": reconstruction(p), "kl": kl(q, p, "z", estimator=self.config.estimator)})
