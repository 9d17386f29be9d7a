"""Variational autoencoder (Kingma and Welling 2013; Rezende, Mohamed and Wierstra 2014).

    p(z) = N(0, I)            z: D latent dimensions
    p(x|z) = likelihood(decoder(z))
    q(z|x) = N(mean(x), diag(std(x)^2))

Objective (Esmaeili et al. 2019, eq. 1, as a cost): -E_q[log p(x|z)] + KL(q(z|x) || p(z)).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from unweave.base.card import Card
from unweave.core.batch import Batch
from unweave.core.terms import Terms
from unweave.models.one_block import OneBlock, OneBlockConfig
from unweave.models.presets import QUICK
from unweave.objectives.elbo import kl, reconstruction


class VAEConfig(OneBlockConfig):
    """Settings of the VAE."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"quick": QUICK}

    estimator: Literal["analytic", "sampled"] = "analytic"
    """How the KL is computed: in closed form, or from the sample that is decoded."""


class VAE(OneBlock):
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

    def objective(self, player: str, batch: Batch, step: int) -> Terms:
        """reconstruction + kl."""
        q = self.posterior(batch)
        p = self.joint(q.as_given(x=batch.observations), batch)
        return Terms({"reconstruction": reconstruction(p), "kl": kl(q, p, "z", estimator=self.config.estimator)})
