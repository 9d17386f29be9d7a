"""ML-VAE: multi-level variational autoencoder for grouped observations (Bouchacourt, Tomioka and Nowozin 2018).

    p(c_G) = N(0, I)                   content: one for each group G
    p(s_i) = N(0, I)                   style: one for each observation i of G
    p(x_i|c_G, s_i) = likelihood(decoder(c_G, s_i))
    q(s_i|x_i) = N(mean, diag(std^2))
    q(c_G|X_G) ∝ prod_{i in G} q(c_G|x_i)                                                             (eqs. 6, 7)

Objective (eqs. 3 to 5, as a cost), averaged over the groups of a batch:

    sum_i -E_q[log p(x_i|c_G, s_i)]  +  sum_i KL(q(s_i|x_i) || p(s_i))  +  KL(q(c_G|X_G) || p(c_G))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from unweave.base.card import Card
from unweave.batches.orders import Grouped, grouping_factor
from unweave.core.batch import Batch
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes, Samples
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import normal, standard_normal
from unweave.core.order import Order, Reads, Table
from unweave.core.system import System, SystemConfig
from unweave.core.terms import Terms
from unweave.core.trace import Trace
from unweave.nets.build import (
    GaussianHead,
    Nets,
    own_or_built_decoder,
    own_or_built_encoder,
)
from unweave.objectives.elbo import kl, reconstruction
from unweave.objectives.groups import GroupMixture, Shared, group_sizes, group_weights, product_of_normals
from unweave.objectives.likelihood import Likelihood

# Section 4, MNIST: 500 units with hyperbolic tangent. The encoder is in the supplement only; ours mirrors the decoder.
_MNIST = {"nets.kind": "dense", "nets.hidden": [500], "nets.activation": "tanh", "content": 10, "style": 10}


class MLVAEConfig(SystemConfig):
    """Settings of the ML-VAE."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {**_MNIST, "training.steps": 6000, "training.batch_size": 256},
        "paper": {
            **_MNIST,
            "likelihood.kind": "gaussian",
            "likelihood.variance": "predicted",
            "training.steps": 40_000,
            "training.batch_size": 640,
        },
        # Section 4, faces: three layers of 64, 128 and 256 filters; identities have about ten pictures.
        "faces": {
            "content": 50,
            "style": 50,
            "nets.kind": "convolutional",
            "nets.stem": 2,
            "nets.activation": "relu",
            "nets.channels": [64, 128, 256],
            "nets.hidden": [256],
            "groups_per_batch": 16,
            "members": 10,
            "training.steps": 20_000,
            "training.batch_size": 160,
        },
    }

    content: pydantic.PositiveInt = 10
    """Dimensions of the content, shared by a group."""
    style: pydantic.PositiveInt = 10
    """Dimensions of the style, of each observation by itself."""
    group: str = ""
    """Discrete factor whose values are the groups. Empty: the factor called group, or the only discrete one."""
    accumulate: Literal["product", "mixture"] = "product"
    """How a group's content posterior is made of its members': product of normals (eq. 7), or their mixture."""
    content_draws: Literal["observation", "group"] = "observation"
    """One draw of the group's content for each observation (Algorithm 1), or one for the whole group."""
    groups_per_batch: pydantic.PositiveInt = 10
    """Groups in a batch; all of them when the data have fewer."""
    members: pydantic.PositiveInt | Literal["all"] | None = None
    """Most members of a group in a batch, "all" for whole groups; none: batch_size divided by the groups in a batch."""
    nets: Nets = Nets()
    """Encoder and decoder networks."""
    likelihood: Likelihood = Likelihood()
    """p(x|c, s)."""

    def members_of(self, groups: int) -> int | None:
        """Most members of each of `groups` groups in a batch; None for whole groups."""
        if self.members is None:
            return max(1, self.training.batch_size // groups)
        return None if self.members == "all" else self.members


class MLVAE(System, Encodes, Decodes, Samples):
    """Multi-level VAE: what a group has in common in one block, what sets its members apart in the other."""

    card = Card(
        summary="content shared by a group, style of each observation",
        paper="Bouchacourt, Tomioka and Nowozin, Multi-Level Variational Autoencoder, AAAI 2018",
        bibtex="""@inproceedings{bouchacourt2018multilevel,
  title = {Multi-Level Variational Autoencoder: Learning Disentangled Representations from Grouped Observations},
  author = {Bouchacourt, Diane and Tomioka, Ryota and Nowozin, Sebastian},
  booktitle = {AAAI Conference on Artificial Intelligence},
  year = {2018}
}""",
        needs="observations in groups: a discrete factor",
    )
    config_class = MLVAEConfig
    config: MLVAEConfig

    def __init__(
        self,
        config: MLVAEConfig,
        spec: DataSpec,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
    ):
        super().__init__(config, spec)
        inputs = config.content + config.style
        self.encoder, features = own_or_built_encoder(encoder, config.nets, spec)
        self.content_head = GaussianHead(features, config.content)
        self.style_head = GaussianHead(features, config.style)
        self.likelihood = config.likelihood.build(spec)
        parameters = self.likelihood.parameters_per_value
        self.decoder = own_or_built_decoder(decoder, config.nets, spec, inputs, parameters)

    @property
    def blocks(self) -> tuple[Block, ...]:
        return Block("content", (self.config.content,), scope="group"), Block("style", (self.config.style,))

    @property
    def reads(self) -> Reads:
        return Reads(group=grouping_factor(dict(self.spec.labels), self.config.group))

    def order(self, table: Table, seed: int, stream: int = 0) -> Order:
        """Batches of groups, whole or in part."""
        groups = table.column(str(self.reads.group))
        available = len(np.unique(groups[~np.isnan(groups)]))
        per_batch = max(1, min(self.config.groups_per_batch, available))
        return Grouped(table.rows, groups, per_batch, self.config.members_of(per_batch), seed, stream)

    def infer(self, q: Trace, batch: Batch) -> None:
        features = self.encoder(batch.observations)
        q.sample("content", self._accumulated(self.content_head(features), batch.group))
        q.sample("style", self.style_head(features))

    def _accumulated(self, single: Distribution, group: Tensor | None) -> Distribution:
        """q(c_G|X_G) on every row of its group; without groups each observation is one by itself."""
        if group is None:
            return single
        shared = self.config.content_draws == "group"
        if self.config.accumulate == "mixture":
            return GroupMixture(single, group, shared)
        mean, std = product_of_normals(single.mean, single.stddev, group)
        return Shared(normal(mean, std), group) if shared else normal(mean[..., group, :], std[..., group, :])

    def generate(self, p: Trace, context: Batch) -> None:
        content = p.sample("content", self._content_prior(context.group))
        style = p.sample("style", standard_normal(self.config.style, like=next(self.parameters())))
        p.sample("x", self.likelihood(self.decoder(torch.cat([content, style], dim=-1))))

    def _content_prior(self, group: Tensor | None) -> Distribution:
        prior = standard_normal(self.config.content, like=next(self.parameters()))
        return prior if group is None else Shared(prior.expand((len(group_sizes(group)),)), group)

    def objective(self, player: str, batch: Batch, step: int) -> Terms:
        """reconstruction + style_kl + content_kl: the negative Group ELBO, averaged over the groups of the batch.

        Costs of a group go to its members, weighted such that batch means are means over groups: a cost of single
        observations B/G times, the content KL of group G divided by |G| besides.
        """
        q = self.posterior(batch)
        p = self.joint(q.as_given(x=batch.observations), batch)
        group = torch.arange(batch.rows, device=batch.observations.device) if batch.group is None else batch.group
        once = group_weights(group, q["style"].dtype)  # B / (G |G|)
        size = batch.rows / len(group_sizes(group))  # B / G
        return Terms(
            {
                "reconstruction": size * reconstruction(p),
                "style_kl": size * kl(q, p, "style"),
                "content_kl": once * kl(q, p, "content", estimator="auto"),
            },
            diagnostics={
                "group_size": torch.tensor(size),
                "content_std": once * q.site("content").distribution.stddev.mean(-1),
            },
        )
