"""beta-TCVAE (Chen et al. 2018).

    p(z) = N(0, I)            z: D latent dimensions
    p(x|z) = likelihood(decoder(z))
    q(z|x) = N(mean(x), diag(std(x)^2)),    q(z) = 1/N sum_n q(z|x_n)

Objective (Chen et al. 2018, eq. 4, as a cost; with alpha = gamma = 1, Esmaeili et al. 2019, table 1):

    -E_q[log p(x|z)] + alpha I(x; z) + beta KL(q(z) || prod_d q(z_d)) + gamma sum_d KL(q(z_d) || p(z_d))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from unweave.base.card import Card
from unweave.base.schedule import Weight
from unweave.core.batch import Batch
from unweave.core.terms import Terms
from unweave.models.one_block import OneBlock, OneBlockConfig
from unweave.models.presets import BURGESS, QUICK
from unweave.objectives.decomposition import decompose, tree_of_elements
from unweave.objectives.elbo import reconstruction


class TCVAEConfig(OneBlockConfig):
    """Settings of the beta-TCVAE."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {**QUICK, "beta": 4.0},
        # beta = 4 and batches of 512 as Esmaeili et al. 2019 train it (table 3, section 3.1). They give no number of
        # steps; networks and learning rate are those of Burgess et al. 2018.
        "paper": {**BURGESS, "beta": 4.0, "training.batch_size": 512, "training.steps": 100_000},
    }

    alpha: Weight = 1.0
    """Weight of the information I(x; z)."""
    beta: Weight = 4.0
    """Weight of the total correlation."""
    gamma: Weight = 1.0
    """Weight of the KL of each dimension's marginal."""
    estimator: Literal["stratified", "weighted"] = "stratified"
    """How q(z) is estimated from a batch: partially stratified, or minibatch-weighted as in Chen et al."""


class TCVAE(OneBlock):
    """beta-TCVAE: the KL in three parts, of which the total correlation is weighted up."""

    card = Card(
        summary="VAE with a weight on the total correlation, estimated from the batch",
        paper="Chen, Li, Grosse and Duvenaud, Isolating Sources of Disentanglement in Variational Autoencoders, "
        "NeurIPS 2018",
        bibtex="""@inproceedings{chen2018isolating,
  title = {Isolating Sources of Disentanglement in Variational Autoencoders},
  author = {Chen, Ricky T. Q. and Li, Xuechen and Grosse, Roger B. and Duvenaud, David K.},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2018}
}""",
        needs="observations, in batches of two or more",
    )
    config_class = TCVAEConfig
    config: TCVAEConfig

    def objective(self, player: str, batch: Batch, step: int) -> Terms:
        """reconstruction + alpha information + beta total_correlation + gamma dimension_kl."""
        q = self.posterior(batch)
        p = self.joint(q.as_given(x=batch.observations), batch)
        parts = decompose(q, p, tree_of_elements(q, ["z"]), self.spec.size, self.config.estimator)
        return Terms(
            {
                "reconstruction": reconstruction(p),
                "information": parts.information,
                "total_correlation": parts.between,
                "dimension_kl": parts.leaves,
            },
            {
                "information": self.config.alpha,
                "total_correlation": self.config.beta,
                "dimension_kl": self.config.gamma,
            },
        )
