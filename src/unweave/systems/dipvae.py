"""DIP-VAE I and II (Kumar, Sattigeri and Balakrishnan 2017).

    p(z) = N(0, I)            z: D latent dimensions
    p(x|z) = likelihood(decoder(z))
    q(z|x) = N(mean(x), diag(std(x)^2))

Objective (eq. 5, as a cost):

    -E_q[log p(x|z)] + KL(q(z|x) || p(z)) + lambda_od sum_{i != j} C_ij^2 + lambda_d sum_i (C_ii - 1)^2

    I   C = Cov_x[mean(x)]                                       eq. 5
    II  C = Cov_x[mean(x)] + E_x[diag std(x)^2] = Cov_q(z)[z]    eq. 4
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import pydantic
from torch import nn

from unweave.base.card import Card
from unweave.base.schedule import Weight
from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.core.terms import Terms
from unweave.models.one_block import OneBlock, OneBlockConfig
from unweave.models.presets import BURGESS, QUICK
from unweave.objectives.elbo import kl, reconstruction
from unweave.objectives.moments import RunningCovariance, dip_penalty


class DIPVAEConfig(OneBlockConfig):
    """Settings of the DIP-VAE."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {**QUICK, "lambda_od": 10.0, "lambda_d": 100.0},
        # lambda_d = 10 lambda_od as in the experiments of the paper. Its text gives neither lambda_od, momentum, batch
        # size nor steps; networks and learning rate are those of Burgess et al. 2018.
        "paper": {
            **BURGESS,
            "variant": "I",
            "lambda_od": 10.0,
            "lambda_d": 100.0,
            "training.batch_size": 64,
            "training.steps": 300_000,
        },
    }

    variant: Literal["I", "II"] = "I"
    """Which covariance is matched: that of the posterior means (I), or that of z itself (II)."""
    lambda_od: Weight = 10.0
    """Weight of the off-diagonal part."""
    lambda_d: Weight = 100.0
    """Weight of the diagonal part; the paper takes ten times lambda_od."""
    momentum: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.9
    """Share of the past in the running covariance; 0 takes the batch alone."""
    estimator: Literal["analytic", "sampled"] = "analytic"
    """How the KL is computed: in closed form, or from the sample that is decoded."""


class DIPVAE(OneBlock):
    """DIP-VAE: a VAE whose codes are decorrelated over the data."""

    card = Card(
        summary="VAE with the covariance of its codes pulled to the identity",
        paper="Kumar, Sattigeri and Balakrishnan, Variational Inference of Disentangled Latent Concepts from Unlabeled "
        "Observations, ICLR 2018",
        bibtex="""@inproceedings{kumar2018dipvae,
  title = {Variational Inference of Disentangled Latent Concepts from Unlabeled Observations},
  author = {Kumar, Abhishek and Sattigeri, Prasanna and Balakrishnan, Avinash},
  booktitle = {International Conference on Learning Representations},
  year = {2018}
}""",
        needs="observations",
    )
    config_class = DIPVAEConfig
    config: DIPVAEConfig

    def __init__(
        self,
        config: DIPVAEConfig,
        spec: DataSpec,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
    ):
        super().__init__(config, spec, encoder, decoder)
        self.covariance = RunningCovariance(config.latent, config.momentum)

    def objective(self, player: str, batch: Batch, step: int) -> Terms:
        """reconstruction + kl + lambda_od off_diagonal + lambda_d diagonal; in training it moves the covariance on."""
        q = self.posterior(batch)
        p = self.joint(q.as_given(x=batch.observations), batch)
        posterior = q.site("z").distribution
        stds = posterior.stddev if self.config.variant == "II" else None
        off_diagonal, diagonal = dip_penalty(self.covariance(posterior.mean, stds))
        return Terms(
            {
                "reconstruction": reconstruction(p),
                "kl": kl(q, p, "z", estimator=self.config.estimator),
                "off_diagonal": off_diagonal,
                "diagonal": diagonal,
            },
            {"off_diagonal": self.config.lambda_od, "diagonal": self.config.lambda_d},
        )
