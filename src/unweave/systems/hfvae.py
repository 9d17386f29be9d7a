"""HFVAE: hierarchically factorised VAE (Esmaeili et al. 2019).

    z = (z_1, ..., z_M)       blocks: normal with D_d dimensions, or Concrete with K_d categories at temperature t
    p(z_d) = N(0, I)          or Concrete(1/K, ..., 1/K; t); two normal blocks may be correlated
    p(x|z) = likelihood(decoder(z_1, ..., z_M))
    q(z|x) = prod_d q(z_d|x)  one encoder, one head per block;    q(z) = 1/N sum_n q(z|x_n)

Objective (eq. 4, as a cost; the terms of figures 1 and 3):

    -(1)-(3)  -E_q[log p(x|z)]
    -(2)      alpha I(x; z)
    -(A)      beta  (E_q log q(z) / prod_d q(z_d) - E_q log p(z) / prod_d p(z_d))       d: blocks
    -(i)      gamma the same within each block, e: its dimensions (or groups of dimensions)
    -(ii)     sum_d,e KL(q(z_de) || p(z_de))
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import pydantic
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from unweave.base.card import Card
from unweave.base.errors import ConfigError, nearest
from unweave.base.schedule import Weight, at_step
from unweave.core.batch import Batch
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes, Samples
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import Concrete, Temperature, normal, standard_normal
from unweave.core.system import System, SystemConfig
from unweave.core.terms import Terms
from unweave.core.trace import Trace
from unweave.models.presets import BURGESS, QUICK
from unweave.nets.build import (
    ConcreteHead,
    GaussianHead,
    Nets,
    own_or_built_decoder,
    own_or_built_encoder,
)
from unweave.objectives.decomposition import FactorisedPrior, GaussianPrior, Node, Prior, decompose
from unweave.objectives.elbo import reconstruction
from unweave.objectives.likelihood import Likelihood
from unweave.objectives.marginals import Leaf, anchor_information
from unweave.objectives.memory import PosteriorMemory


@dataclass(frozen=True)
class BlockPlan:
    """One block as the setting `blocks` describes it.

    kind:  "normal" or "concrete"
    sizes: dimensions of each group of a normal block, one group unless it is divided; (K,) for a Concrete block
    """

    name: str
    kind: str
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def block(self) -> Block:
        return Block(self.name, (self.size,), kind="simplex" if self.kind == "concrete" else "real")

    def part(self) -> Node | Leaf:
        """The block's part of the tree: a leaf, a node of dimensions, or a node of groups of dimensions."""
        if self.kind == "concrete" or self.size == 1:
            return Leaf(self.name)
        leaves = [Leaf(self.name, e) for e in range(self.size)]
        if len(self.sizes) == 1:
            return Node(self.name, tuple(leaves))
        groups: list[Node | Leaf] = []
        for number, size in enumerate(self.sizes):
            members, leaves = leaves[:size], leaves[size:]
            groups.append(members[0] if size == 1 else Node(f"{self.name}.{number}", tuple(members)))
        return Node(self.name, tuple(groups))


_ENTRY = re.compile(r"(\w+)\s*=\s*(\w+)\s*\(\s*(\d+(?:\s*\+\s*\d+)*)\s*\)")


def parse_blocks(text: str) -> tuple[BlockPlan, ...]:
    """`"shape=concrete(3), style=normal(5 + 5)"` as plans, in order."""
    plans: list[BlockPlan] = []
    for entry in text.split(","):
        match = _ENTRY.fullmatch(entry.strip())
        if match is None:
            raise ConfigError(
                f"cannot read the block {entry.strip()!r}: write name=normal(dimensions) or name=concrete(categories), "
                "for example shape=concrete(3), style=normal(10)"
            )
        name, kind, sizes = match.group(1), match.group(2), tuple(int(n) for n in match.group(3).split("+"))
        if kind not in ("normal", "concrete"):
            close = nearest(kind, ("normal", "concrete"))
            hint = f"did you mean {close[0]!r}?" if close else "blocks are normal or concrete"
            raise ConfigError(f"unknown kind {kind!r} of block {name!r}: {hint}")
        if name == "x" or not name.isidentifier():
            why = "x is the observation" if name == "x" else "names begin with a letter"
            raise ConfigError(f"a block cannot be called {name!r}, {why}: choose another name")
        if name in (plan.name for plan in plans):
            raise ConfigError(f"two blocks are called {name!r}: give each its own name")
        if min(sizes) < 1:
            raise ConfigError(f"block {name!r} has a part without dimensions: give every part at least one")
        if kind == "concrete" and (len(sizes) > 1 or sizes[0] < 2):
            raise ConfigError(f"block {name!r} is one category out of K: write concrete(K) with K of 2 or more")
        plans.append(BlockPlan(name, kind, sizes))
    return tuple(plans)


_DSPRITES = {"blocks": "shape=concrete(3), style=normal(10)", "beta": 4.0, "gamma": 3.0}
_MNIST = {"blocks": "digit=concrete(10), style=normal(10)", "beta": 4.0, "gamma": 3.0}


class HFVAEConfig(SystemConfig):
    """Settings of the HFVAE."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {**QUICK, **_DSPRITES, "training.batch_size": 256},
        "dsprites": {**QUICK, **_DSPRITES, "training.batch_size": 512, "training.steps": 20_000},
        "mnist": {**QUICK, **_MNIST, "training.batch_size": 512, "training.steps": 20_000},
        # Tables 2 and 3 (dSprites) and section 3.1 (batches of 512 to 1024). The text gives neither temperature,
        # learning rate nor steps; networks and learning rate are those of Burgess et al. 2018.
        "paper": {**BURGESS, **_DSPRITES, "training.batch_size": 1024, "training.steps": 100_000},
    }

    blocks: str = "shape=concrete(3), style=normal(10)"
    """Blocks as name=kind(size), kind normal or concrete; normal(5 + 5) has two groups of five dimensions."""
    nets: Nets = Nets()
    """Encoder and decoder networks."""
    likelihood: Likelihood = Likelihood()
    """p(x|z)."""
    alpha: Weight = 1.0
    """Weight of the information I(x; z), term (2)."""
    beta: Weight = 4.0
    """Weight of the correlation between blocks, term (A)."""
    gamma: Weight = 3.0
    """Weight of the correlation within blocks, term (i): between their dimensions, or their groups of dimensions."""
    delta: Weight = 1.0
    """Weight of the correlation within groups of dimensions, a third level; used when a block has groups."""
    temperature: Temperature = 0.66
    """Temperature t of the Concrete blocks, posterior and prior alike; above 0."""
    estimator: Literal["stratified", "weighted"] = "stratified"
    """How q(z) is estimated from a batch."""
    memory: pydantic.NonNegativeInt = 0
    """Posteriors of this many earlier rows that stand beside the batch in q(z); the paper has none."""
    anchors: tuple[str, ...] = ()
    """Anchor variables, blocks or columns such as "style[0]", whose information is charged less."""
    anchor: Weight = 0.0
    """lambda: what is taken off the charge for the anchors' information."""
    prior_correlation: Annotated[float, pydantic.Field(gt=-1, lt=1)] = 0.0
    """Prior correlation of dimension i of the first normal block with dimension i of the second."""

    @pydantic.field_validator("blocks")
    @classmethod
    def _readable(cls, text: str) -> str:
        parse_blocks(text)
        return text

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> HFVAEConfig:
        normals = [plan for plan in self.plans if plan.kind == "normal"]
        if self.prior_correlation and (len(normals) != 2 or normals[0].size != normals[1].size):
            raise ConfigError(
                "setting 'prior_correlation' of HFVAEConfig pairs the dimensions of two normal blocks of one size: "
                f"'blocks' has {', '.join(f'{n.name}=normal({n.size})' for n in normals) or 'no normal block'}"
            )
        anchored = [leaf for name in self.anchors for leaf in self.leaves(name)]
        if len(set(anchored)) < len(anchored):
            raise ConfigError("setting 'anchors' of HFVAEConfig names a column twice: name each block or column once")
        if self.anchor and not self.anchors:
            raise ConfigError("setting 'anchor' of HFVAEConfig has no anchors to weigh: name some in 'anchors'")
        return self

    @property
    def plans(self) -> tuple[BlockPlan, ...]:
        return parse_blocks(self.blocks)

    def leaves(self, name: str) -> list[Leaf]:
        """The leaves of a block or column called by its name."""
        known: dict[str, list[Leaf]] = {}
        for plan in self.plans:
            elements = (
                [Leaf(plan.name, 0)] if plan.kind == "concrete" else [Leaf(plan.name, e) for e in range(plan.size)]
            )
            known[plan.name] = elements
            if plan.kind == "normal":
                known.update({f"{leaf.site}[{leaf.element}]": [leaf] for leaf in elements})
        if name not in known:
            close = nearest(name, known) or tuple(known)
            raise ConfigError(
                f"setting 'anchors' of HFVAEConfig: there is no column {name!r}; did you mean {close[0]!r}?"
            )
        return known[name]


class HFVAE(System, Encodes, Decodes, Samples):
    """HFVAE: blocks of continuous and discrete variables, independent of each other more than within."""

    card = Card(
        summary="VAE of mixed blocks with weights on correlation between and within blocks",
        paper="Esmaeili et al., Structured Disentangled Representations, AISTATS 2019",
        bibtex="""@inproceedings{esmaeili2019structured,
  title = {Structured Disentangled Representations},
  author = {Esmaeili, Babak and Wu, Hao and Jain, Sarthak and Bozkurt, Alican and Siddharth, N. and Paige, Brooks and
            Brooks, Dana H. and Dy, Jennifer and van de Meent, Jan-Willem},
  booktitle = {International Conference on Artificial Intelligence and Statistics},
  year = {2019}
}""",
        needs="observations, in batches of two or more, better 512",
    )
    config_class = HFVAEConfig
    config: HFVAEConfig

    def __init__(
        self,
        config: HFVAEConfig,
        spec: DataSpec,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
    ):
        super().__init__(config, spec)
        self.plans = config.plans
        inputs = sum(plan.size for plan in self.plans)
        self.encoder, features = own_or_built_encoder(encoder, config.nets, spec)
        heads = {"normal": GaussianHead, "concrete": ConcreteHead}
        self.heads = nn.ModuleDict({plan.name: heads[plan.kind](features, plan.size) for plan in self.plans})
        self.likelihood = config.likelihood.build(spec)
        parameters = self.likelihood.parameters_per_value
        self.decoder = own_or_built_decoder(decoder, config.nets, spec, inputs, parameters)
        self.tree = Node("root", tuple(plan.part() for plan in self.plans))
        self.memory: PosteriorMemory | None = None
        if config.memory:
            if config.memory + config.training.batch_size > spec.size:
                raise ConfigError(
                    f"memory={config.memory} and a batch of {config.training.batch_size} are more than the "
                    f"{spec.size} training rows: set a smaller memory"
                )
            self.memory = PosteriorMemory(config.memory, {plan.name: (plan.kind, plan.size) for plan in self.plans})

    @property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(plan.block() for plan in self.plans)

    @property
    def temperature(self) -> float:
        """The temperature at the system's current step; a trained system keeps its last one."""
        return at_step(self.config.temperature, self.step)

    def infer(self, q: Trace, batch: Batch) -> None:
        features = self.encoder(batch.observations)
        for plan in self.plans:
            head = self.heads[plan.name]
            q.sample(plan.name, head(features, self.temperature) if plan.kind == "concrete" else head(features))

    def generate(self, p: Trace, context: Batch) -> None:
        values: list[Tensor] = []
        first: Tensor | None = None  # of the two normal blocks that the prior may pair
        for plan in self.plans:
            values.append(p.sample(plan.name, self._prior(plan, first)))
            if plan.kind == "normal" and self.config.prior_correlation and first is None:
                first = values[-1]
        p.sample("x", self.likelihood(self.decoder(torch.cat(values, dim=-1))))

    def _prior(self, plan: BlockPlan, first: Tensor | None) -> Distribution:
        """p(z_d), or p(z_d | z_first) = N(rho z_first, 1 - rho^2) for the second of two correlated normal blocks."""
        like = next(self.parameters())
        if plan.kind == "concrete":
            return Concrete(self.temperature, torch.zeros(plan.size, dtype=like.dtype, device=like.device))
        if first is None:
            return standard_normal(plan.size, like=like)
        rho = self.config.prior_correlation
        return normal(rho * first, math.sqrt(1 - rho**2))

    def _joint_prior(self, p: Trace) -> Prior:
        """p(z) with the marginals of its parts: correlated normal blocks are jointly normal, with unit variances."""
        if not self.config.prior_correlation:
            return FactorisedPrior(p)
        first, second = (plan for plan in self.plans if plan.kind == "normal")
        like = next(self.parameters())
        identity = torch.eye(first.size, dtype=like.dtype, device=like.device)
        cross = self.config.prior_correlation * identity
        covariance = torch.cat([torch.cat([identity, cross], 1), torch.cat([cross, identity], 1)])
        leaves = [Leaf(plan.name, e) for plan in (first, second) for e in range(plan.size)]
        return GaussianPrior(covariance.new_zeros(len(leaves)), covariance, leaves, rest=FactorisedPrior(p))

    def objective(self, player: str, batch: Batch, step: int) -> Terms:
        """reconstruction + alpha information + beta between_blocks + gamma within_blocks + dimension_kl.

        With groups + delta within_groups, with anchors - anchor anchor_information.
        """
        config = self.config
        q = self.posterior(batch)
        p = self.joint(q.as_given(x=batch.observations), batch)
        earlier = self.memory.posteriors(self.temperature) if self.memory else None
        parts = decompose(q, None, self.tree, self.spec.size, config.estimator, self._joint_prior(p), earlier)
        if self.memory and self.training:
            self.memory.keep(q)
        names = {plan.name for plan in self.plans}
        within = {name: value for name, value in parts.within_by_node.items() if name in names}
        groups = {name: value for name, value in parts.within_by_node.items() if name not in names}
        costs = {
            "reconstruction": reconstruction(p),
            "information": parts.information,
            "between_blocks": parts.between,
            "within_blocks": _sum(within.values(), parts.leaves),
            "dimension_kl": parts.leaves,
        }
        weights: dict[str, Any] = {
            "information": config.alpha,
            "between_blocks": config.beta,
            "within_blocks": config.gamma,
        }
        if groups:
            costs["within_groups"] = _sum(groups.values(), parts.leaves)
            weights["within_groups"] = config.delta
        if config.anchors:
            leaves = [leaf for name in config.anchors for leaf in config.leaves(name)]
            costs["anchor_information"] = anchor_information(parts.marginal, leaves)
            weights["anchor_information"] = -at_step(config.anchor, step)
        return Terms(costs, weights, {"temperature": torch.tensor(self.temperature)})


def _sum(values: Iterable[Tensor], like: Tensor) -> Tensor:
    """(B,) the sum; zeros when there is nothing to add, as for a code of single variables."""
    return sum(values, torch.zeros_like(like))
