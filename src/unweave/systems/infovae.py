"""InfoVAE (Zhao, Song and Ermon 2017).

    p(z) = N(0, I)            z: D latent dimensions
    p(x|z) = likelihood(decoder(z))
    q(z|x) = N(mean(x), diag(std(x)^2)),    q(z) = 1/N sum_n q(z|x_n)

Objective (the paper's L_InfoVAE, as a cost):

    -E_q[log p(x|z)] + (1 - alpha) KL(q(z|x) || p(z)) + (alpha + lambda - 1) D(q(z) || p(z))

D is the maximum mean discrepancy, or the KL divergence itself. With the latter and alpha = 1 it is
(1) + (3) + lambda (4) of Esmaeili et al. 2019, table 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pydantic
from torch import Tensor

from unweave.base.card import Card
from unweave.base.schedule import Weight, at_step
from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.core.terms import Terms
from unweave.core.trace import Trace
from unweave.models.one_block import OneBlock, OneBlockConfig
from unweave.models.presets import BURGESS, QUICK, share_of_picture
from unweave.objectives.elbo import kl, reconstruction
from unweave.objectives.marginals import InferenceMarginal
from unweave.objectives.mmd import mmd


class InfoVAEConfig(OneBlockConfig):
    """Settings of the InfoVAE."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {**QUICK, "alpha": 1.0},
        # alpha = 1 as in table 1 of Esmaeili et al. 2019. lambda, batch size and steps are ours; networks and learning
        # rate are those of Burgess et al. 2018.
        "paper": {
            **BURGESS,
            "alpha": 1.0,
            "lambda_": 1000.0,
            "training.batch_size": 64,
            "training.steps": 100_000,
        },
    }

    alpha: Weight = 1.0
    """How much of the KL's charge for information is lifted: 0 is the VAE's, 1 lifts all."""
    lambda_: Weight | Literal["auto"] = "auto"
    """Scale of the divergence between q(z) and p(z); MMD is below 2, so it needs a large one. Auto: 1000, less in
    proportion for observations of fewer values than 64 x 64."""
    divergence: Literal["mmd", "kl"] = "mmd"
    """D: maximum mean discrepancy from samples, or KL by the inference marginal of the batch."""
    kernel: Literal["rbf", "imq"] = "rbf"
    """Kernel of the MMD."""
    bandwidth: pydantic.PositiveFloat | None = None
    """Squared width of the kernel; none for twice the number of dimensions."""
    estimator: Literal["analytic", "sampled"] = "analytic"
    """How KL(q(z|x) || p(z)) is computed: in closed form, or from the sample that is decoded."""
    marginal: Literal["stratified", "weighted"] = "stratified"
    """How q(z) is estimated from a batch when the divergence is `kl`."""

    def fitted(self, spec: DataSpec) -> InfoVAEConfig:
        scale = 1000.0 * share_of_picture(spec) if self.lambda_ == "auto" else self.lambda_
        return super().fitted(spec).model_copy(update={"lambda_": scale})


class InfoVAE(OneBlock):
    """InfoVAE: match the codes to the prior over the data and leave each code its information."""

    card = Card(
        summary="VAE that matches codes to the prior over the data, not example by example",
        paper="Zhao, Song and Ermon, InfoVAE: Information Maximizing Variational Autoencoders, 2017",
        bibtex="""@misc{zhao2017infovae,
  title = {{InfoVAE}: Information Maximizing Variational Autoencoders},
  author = {Zhao, Shengjia and Song, Jiaming and Ermon, Stefano},
  year = {2017},
  eprint = {1706.02262},
  archivePrefix = {arXiv}
}""",
        needs="observations, in batches of two or more",
    )
    config_class = InfoVAEConfig
    config: InfoVAEConfig

    def objective(self, player: str, batch: Batch, step: int) -> Terms:
        """reconstruction + (1 - alpha) kl + (alpha + lambda - 1) divergence."""
        q = self.posterior(batch)
        p = self.joint(q.as_given(x=batch.observations), batch)
        assert not isinstance(self.config.lambda_, str)  # `auto` was chosen for the data
        alpha, scale = at_step(self.config.alpha, step), at_step(self.config.lambda_, step)
        return Terms(
            {
                "reconstruction": reconstruction(p),
                "kl": kl(q, p, "z", estimator=self.config.estimator),
                "divergence": self._divergence(q, p),
            },
            {"kl": 1 - alpha, "divergence": alpha + scale - 1},
        )

    def _divergence(self, q: Trace, p: Trace) -> Tensor:
        """D(q(z) || p(z)): a scalar for the MMD, (B,) log q(z) - log p(z) for the KL."""
        if self.config.divergence == "mmd":
            prior_samples = self.networks.prior().sample(q["z"].shape[:1])
            return mmd(q["z"], prior_samples, self.config.kernel, self.config.bandwidth)
        marginal = InferenceMarginal(q, ["z"], self.spec.size, self.config.marginal)
        return marginal.log_prob(marginal.leaves) - p.site("z").log_prob
