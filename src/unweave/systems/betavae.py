"""beta-VAE (Higgins et al. 2017).

    p(z) = N(0, I)            z: D latent dimensions
    p(x|z) = likelihood(decoder(z))
    q(z|x) = N(mean(x), diag(std(x)^2))

Objective (Burgess et al. 2018, eq. 5, as a cost): -E_q[log p(x|z)] + beta KL(q(z|x) || p(z)).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from unweave.base.card import Card
from unweave.base.schedule import Weight
from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.core.terms import Terms
from unweave.models.one_block import OneBlock, OneBlockConfig
from unweave.models.presets import BURGESS, QUICK, share_of_picture
from unweave.objectives.elbo import kl, reconstruction


class BetaVAEConfig(OneBlockConfig):
    """Settings of the beta-VAE."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": QUICK,
        # beta = 4 is the value of Esmaeili et al. 2019, table 3. They and Burgess et al. give no number of steps.
        "paper": {**BURGESS, "beta": 4.0, "training.batch_size": 64, "training.steps": 300_000},
    }

    beta: Weight | Literal["auto"] = "auto"
    """Weight of the KL; 1 is the VAE, more than 1 narrows the code. Auto: 4, less in proportion for observations of
    fewer values than 64 x 64, and at least 2."""
    estimator: Literal["analytic", "sampled"] = "analytic"
    """How the KL is computed: in closed form, or from the sample that is decoded."""

    def fitted(self, spec: DataSpec) -> BetaVAEConfig:
        beta = max(2.0, 4.0 * share_of_picture(spec)) if self.beta == "auto" else self.beta
        return super().fitted(spec).model_copy(update={"beta": beta})


class BetaVAE(OneBlock):
    """beta-VAE: a VAE that pays more for every nat of its code."""

    card = Card(
        summary="VAE with a weight on the KL",
        paper="Higgins et al., beta-VAE: Learning Basic Visual Concepts with a Constrained Variational Framework, "
        "ICLR 2017",
        bibtex="""@inproceedings{higgins2017betavae,
  title = {beta-{VAE}: Learning Basic Visual Concepts with a Constrained Variational Framework},
  author = {Higgins, Irina and Matthey, Loic and Pal, Arka and Burgess, Christopher and Glorot, Xavier and
            Botvinick, Matthew and Mohamed, Shakir and Lerchner, Alexander},
  booktitle = {International Conference on Learning Representations},
  year = {2017}
}""",
        needs="observations",
    )
    config_class = BetaVAEConfig
    config: BetaVAEConfig

    def objective(self, player: str, batch: Batch, step: int) -> Terms:
        """reconstruction + beta kl."""
        q = self.posterior(batch)
        p = self.joint(q.as_given(x=batch.observations), batch)
        assert not isinstance(self.config.beta, str)  # `auto` was chosen for the data
        return Terms(
            {"reconstruction": reconstruction(p), "kl": kl(q, p, "z", estimator=self.config.estimator)},
            {"kl": self.config.beta},
        )
