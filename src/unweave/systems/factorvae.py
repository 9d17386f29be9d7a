"""FactorVAE (Kim and Mnih 2018).

    p(z) = N(0, I)            z: D latent dimensions
    p(x|z) = likelihood(decoder(z))
    q(z|x) = N(mean(x), diag(std(x)^2)),    q(z) = 1/N sum_n q(z|x_n)

Two players (eq. 4 and 5, as costs). A discriminator f with two outputs tells codes of q(z) from codes of prod_d q(z_d):

    vae            -E_q[log p(x|z)] + KL(q(z|x) || p(z)) + gamma E_q(z)[log D(z) - log(1 - D(z))]
    discriminator  -1/2 (E_q(z)[log D(z)] + E_prod[log(1 - D(z))]),    D(z) = softmax(f(z))_0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pydantic
import torch
from torch import Tensor, nn

from unweave.base.card import Card
from unweave.base.config import Config
from unweave.base.errors import DataError
from unweave.base.schedule import Weight
from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.core.players import Optimiser, Player
from unweave.core.terms import Terms
from unweave.models.one_block import OneBlock, OneBlockConfig
from unweave.models.presets import BURGESS, QUICK
from unweave.nets.critics import Discriminator
from unweave.objectives.density_ratio import density_ratio_tc, discriminator_cost, permute_dims
from unweave.objectives.elbo import kl, reconstruction


class DiscriminatorConfig(Config):
    """The discriminator and how it learns."""

    layers: pydantic.PositiveInt = 4
    """Hidden layers; the paper has 6."""
    width: pydantic.PositiveInt = 256
    """Units of each hidden layer; the paper has 1000, which take most of the time of a step on a CPU."""
    updates: pydantic.PositiveInt = 1
    """Its updates for each update of the VAE: with n, the VAE moves at every n-th step only."""
    optimiser: Optimiser = Optimiser(lr=1e-4, betas=(0.5, 0.9))
    """Update rule of the discriminator."""


# The version at ICML 2018, which gives what the workshop's leaves open: learning rates, batch size, steps.
_PAPER = {
    **BURGESS,
    "gamma": 35.0,
    "discriminator.layers": 6,
    "discriminator.width": 1000,
    "training.batch_size": 64,
    "training.steps": 300_000,
    "training.optimiser.lr": 1e-4,
}


class FactorVAEConfig(OneBlockConfig):
    """Settings of the FactorVAE."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {**QUICK, "gamma": 20.0},
        "paper": _PAPER,
        # Section 6 of the workshop version: five updates of the discriminator for each of the VAE.
        "workshop": {**_PAPER, "discriminator.updates": 5},
    }

    gamma: Weight = 20.0
    """Weight of the total correlation."""
    discriminator: DiscriminatorConfig = DiscriminatorConfig()
    """The second player."""
    estimator: Literal["analytic", "sampled"] = "analytic"
    """How the KL is computed: in closed form, or from the sample that is decoded."""


class FactorVAE(OneBlock):
    """FactorVAE: a VAE against a discriminator that looks for dependence between the dimensions of its codes."""

    card = Card(
        summary="VAE with a weight on the total correlation, estimated by a discriminator",
        paper="Kim and Mnih, Disentangling by Factorising, ICML 2018",
        bibtex="""@inproceedings{kim2018factorvae,
  title = {Disentangling by Factorising},
  author = {Kim, Hyunjik and Mnih, Andriy},
  booktitle = {International Conference on Machine Learning},
  year = {2018}
}""",
        needs="observations, two independent batches per step",
    )
    config_class = FactorVAEConfig
    config: FactorVAEConfig
    extra_batches = ("second",)

    def __init__(
        self,
        config: FactorVAEConfig,
        spec: DataSpec,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
    ):
        super().__init__(config, spec, encoder, decoder)
        self.discriminator = Discriminator(config.latent, config.discriminator.layers, config.discriminator.width)
        self._drawn: tuple[Batch, Tensor, Tensor] | None = None  # a step's codes, from the VAE's turn

    def players(self) -> tuple[Player, ...]:
        settings = self.config.discriminator
        return (
            Player("vae", (self.networks,), self.config.training.optimiser, every=settings.updates),
            Player("discriminator", (self.discriminator,), settings.optimiser),
        )

    def objective(self, player: str, batch: Batch, step: int) -> Terms:
        """vae: reconstruction + kl + gamma total_correlation; discriminator: discrimination."""
        return self._vae(batch) if player == "vae" else self._discriminator(batch)

    def _vae(self, batch: Batch) -> Terms:
        q = self.posterior(batch)
        p = self.joint(q.as_given(x=batch.observations), batch)
        if "second" in batch.extra:
            self._drawn = (batch, q["z"].detach(), self._codes(self._second(batch)))
        return Terms(
            {
                "reconstruction": reconstruction(p),
                "kl": kl(q, p, "z", estimator=self.config.estimator),
                "total_correlation": density_ratio_tc(self.discriminator(q["z"])),
            },
            {"total_correlation": self.config.gamma},
        )

    def _discriminator(self, batch: Batch) -> Terms:
        codes, second = self._codes_of_step(batch)
        # One call for both halves: its large matrices are read once, and its gradients need not be added up.
        joint, permuted = self.discriminator(torch.cat([codes, permute_dims(second)])).tensor_split([len(codes)])
        right = torch.cat([joint[:, 0] > joint[:, 1], permuted[:, 1] > permuted[:, 0]])
        return Terms({"discrimination": discriminator_cost(joint, permuted)}, diagnostics={"accuracy": right})

    def _codes_of_step(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(B, D) codes of the batch and of the second one; those of the VAE's turn, or new ones when it rests.

        Both are of the same encoder. If one were of the encoder before its step and the other of that after it, the
        discriminator would learn to tell the two encoders apart, and the VAE to run from its own past: its codes grow.
        """
        drawn, self._drawn = self._drawn, None
        if drawn is not None and drawn[0] is batch:
            return drawn[1], drawn[2]
        return self._codes(batch), self._codes(self._second(batch))

    @torch.no_grad()
    def _codes(self, batch: Batch) -> Tensor:
        """(B, D) draws from q(z|x), constants to the discriminator."""
        return self.posterior(batch)["z"]

    @staticmethod
    def _second(batch: Batch) -> Batch:
        if "second" not in batch.extra:
            raise DataError(
                "factorvae needs a second, independent batch in batch.extra['second']: training supplies it"
            )
        return batch.extra["second"]
