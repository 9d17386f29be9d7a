"""VAE with controlled capacity increase (Burgess et al. 2018).

    p(z) = N(0, I)            z: D latent dimensions
    p(x|z) = likelihood(decoder(z))
    q(z|x) = N(mean(x), diag(std(x)^2))

Objective (eq. 8, as a cost): -E_q[log p(x|z)] + gamma |KL(q(z|x) || p(z)) - C|, where C grows with the training step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch

from unweave.base.card import Card
from unweave.base.schedule import Weight, at_step, parse_schedule
from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.core.terms import Terms
from unweave.models.one_block import OneBlock, OneBlockConfig
from unweave.models.presets import BURGESS, QUICK, share_of_picture
from unweave.objectives.capacity import capacity_gap
from unweave.objectives.elbo import kl, reconstruction


class CapacityConfig(OneBlockConfig):
    """Settings of the VAE with controlled capacity."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {**QUICK, "capacity": "linear(0, 25, 5000)"},
        # Appendix A.2, dSprites. The paper gives neither the batch size nor the steps after C has reached 25.
        "paper": {
            **BURGESS,
            "gamma": 1000.0,
            "capacity": "linear(0, 25, 100000)",
            "training.batch_size": 64,
            "training.steps": 100_000,
        },
    }

    gamma: Weight | Literal["auto"] = "auto"
    """Weight of the distance between KL and C: enough that the KL follows, not so much that noise fills the code. Auto:
    10, less in proportion for observations of fewer values than 64 x 64, and at least 2."""
    capacity: Weight = parse_schedule("linear(0, 25, 2500)")
    """C: the nats of KL to aim for, at least 0."""
    estimator: Literal["analytic", "sampled"] = "analytic"
    """How the KL is computed: in closed form, or from the sample that is decoded."""

    def fitted(self, spec: DataSpec) -> CapacityConfig:
        gamma = max(2.0, 10.0 * share_of_picture(spec)) if self.gamma == "auto" else self.gamma
        return super().fitted(spec).model_copy(update={"gamma": gamma})


class CapacityVAE(OneBlock):
    """A VAE whose KL is held at a target that grows during training."""

    card = Card(
        summary="VAE whose KL follows a growing target",
        paper="Burgess et al., Understanding disentangling in beta-VAE, 2018",
        bibtex="""@misc{burgess2018understanding,
  title = {Understanding disentangling in {$\\beta$-VAE}},
  author = {Burgess, Christopher P. and Higgins, Irina and Pal, Arka and Matthey, Loic and Watters, Nick and
            Desjardins, Guillaume and Lerchner, Alexander},
  year = {2018},
  eprint = {1804.03599},
  archivePrefix = {arXiv}
}""",
        needs="observations",
    )
    config_class = CapacityConfig
    config: CapacityConfig

    def objective(self, player: str, batch: Batch, step: int) -> Terms:
        """reconstruction + gamma capacity_gap; the gap is of the batch's mean KL."""
        q = self.posterior(batch)
        p = self.joint(q.as_given(x=batch.observations), batch)
        divergence = kl(q, p, "z", estimator=self.config.estimator)
        capacity = at_step(self.config.capacity, step)
        assert not isinstance(self.config.gamma, str)  # `auto` was chosen for the data
        return Terms(
            {"reconstruction": reconstruction(p), "capacity_gap": capacity_gap(divergence, capacity)},
            {"capacity_gap": self.config.gamma},
            {"kl": divergence, "capacity": torch.tensor(capacity)},
        )
