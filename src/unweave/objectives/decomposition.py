r"""The KL divergence taken apart along a tree of variables (Esmaeili et al. 2019, figures 1 and 3), to any depth.

A code z is a tree: the root is the whole code, its children are blocks, theirs are sub-blocks or single dimensions, the
leaves. With the inference marginal q(.) and the prior marginal p(.) of each part,

    log q(z|x) - log p(z) = information + between + within + leaves

    information  (2)   log q(z|x) - log q(z)                                              its mean is I(x; z)
    between      (A)   [log q(z) - sum_d log q(z_d)] - [log p(z) - sum_d log p(z_d)]      d: children of the root
    within       (i)   the same for every inner node below the root, summed
    leaves       (ii)  sum over leaves of log q(z_leaf) - log p(z_leaf)

Each equality holds exactly, example by example, for any estimate of q(.): what one line adds another takes away. The
objective of eq. 4 is reconstruction + leaves + alpha information + beta between + gamma within, as costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, MultivariateNormal

from unweave.base.errors import ConfigError, ShapeError, UnweaveError
from unweave.core.distributions import count_elements, elementwise_log_prob
from unweave.core.trace import Trace
from unweave.objectives.marginals import Estimator, InferenceMarginal, Leaf


@dataclass(frozen=True)
class Node:
    """An inner node of the tree: a variable that consists of its children.

    name:     how `within_by_node` calls it; each node has its own
    children: nodes or leaves, at least one
    """

    name: str
    children: tuple[Node | Leaf, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", tuple(self.children))
        if not self.children:
            raise ConfigError(f"node {self.name!r} has no children: give it leaves or nodes")

    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves below, from left to right."""
        return tuple(leaf for child in self.children for leaf in _leaves(child))

    def nodes(self) -> Iterator[Node]:
        """This node, then all inner nodes below it."""
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.nodes()


def tree_of_blocks(q: Trace, names: Sequence[str] | None = None) -> Node:
    """The two-level tree of the paper: root, one node per site, its elements.

    A site with one element (Concrete, one number, multivariate normal) is a leaf. All sites of q when none is named.
    """
    children: list[Node | Leaf] = []
    for name in q.names if names is None else names:
        count = count_elements(q.site(name).distribution)
        children.append(Leaf(name) if count == 1 else Node(name, tuple(Leaf(name, e) for e in range(count))))
    return Node("root", tuple(children))


def tree_of_elements(q: Trace, names: Sequence[str] | None = None) -> Node:
    """The one-level tree: root and all elements of all sites; `between` is then the total correlation of beta-TCVAE."""
    leaves = [
        Leaf(n, e) for n in (q.names if names is None else names) for e in range(count_elements(q.site(n).distribution))
    ]
    return Node("root", tuple(leaves))


class Prior(Protocol):
    """A prior whose marginal on any set of leaves can be evaluated."""

    def log_prob(self, values: Trace, leaves: Sequence[Leaf]) -> Tensor:
        """(B,) or (S, B): log p of the given leaves together, at the values of a trace.

        Every leaf names one element: `element` is never None.
        """
        ...


class FactorisedPrior:
    """The prior of a generative program whose blocks are independent: p(z) = prod_d p(z_d).

    Within a block the elements may be independent, or jointly normal (`MultivariateNormal`), of which any marginal is
    known. A block whose prior depends on another block is not covered: write a class with `log_prob` for it.

    p: trace of the generative program; only the distributions of its sites are used
    """

    def __init__(self, p: Trace):
        self.p = p
        self._tables: dict[str, tuple[Tensor, Tensor]] = {}  # site -> value, log-probabilities (B, E) at this value

    def log_prob(self, values: Trace, leaves: Sequence[Leaf]) -> Tensor:
        chosen: dict[str, list[int]] = {}
        for leaf in leaves:
            chosen.setdefault(leaf.site, []).extend(_index(values, leaf))
        parts = [self._site(values, name, index) for name, index in chosen.items()]
        return torch.stack(torch.broadcast_tensors(*parts)).sum(0)

    def _site(self, values: Trace, name: str, index: list[int]) -> Tensor:
        prior, value = self.p.site(name).distribution, values[name]
        if len(prior.batch_shape) > 1:
            raise UnweaveError(
                f"site {name!r} has a prior of batch shape {tuple(prior.batch_shape)}, so it depends on another draw "
                "and blocks are not independent: give `prior`, an object that knows the marginals"
            )
        count = count_elements(values.site(name).distribution)
        if len(index) == count:
            return prior.log_prob(value)
        if isinstance(prior, MultivariateNormal):
            return _normal_marginal(prior.loc, prior.covariance_matrix, index).log_prob(value[..., index])
        if count_elements(prior) != count:
            raise UnweaveError(
                f"site {name!r} has {count} elements in q and {count_elements(prior)} in p, so p of a part of it is "
                "unknown: make the site one leaf of the tree, or give a prior of independent elements"
            )
        if name not in self._tables or self._tables[name][0] is not value:
            self._tables[name] = (value, elementwise_log_prob(prior, value))
        return self._tables[name][1][..., index].sum(-1)


class GaussianPrior:
    """A joint normal over single numbers of several blocks: a prior that does not factorise across blocks.

    mean:       (D,)
    covariance: (D, D), positive definite
    leaves:     the D numbers, in the order of `mean`
    rest:       the prior of all other leaves, independent of these; None when there are none
    """

    def __init__(self, mean: Tensor, covariance: Tensor, leaves: Sequence[Leaf], rest: Prior | None = None):
        count = len(leaves)
        if mean.shape != (count,) or covariance.shape != (count, count):
            raise ShapeError(
                f"a normal prior over {count} leaves has mean {tuple(mean.shape)} and covariance "
                f"{tuple(covariance.shape)}: expected ({count},) and ({count}, {count})"
            )
        self.mean, self.covariance, self.rest = mean, covariance, rest
        self.position = {Leaf(*leaf): i for i, leaf in enumerate(leaves)}
        if len(self.position) < count or any(leaf.element is None for leaf in self.position):
            raise ConfigError("the leaves of a normal prior are single numbers, each named once: Leaf('style', 0), ...")

    def log_prob(self, values: Trace, leaves: Sequence[Leaf]) -> Tensor:
        mine = [leaf for leaf in leaves if leaf in self.position]
        others = [leaf for leaf in leaves if leaf not in self.position]
        if others and self.rest is None:
            raise UnweaveError(f"the normal prior does not cover {others[0]}: add it to its leaves or give `rest`")
        parts = []
        if mine:
            marginal = _normal_marginal(self.mean, self.covariance, [self.position[leaf] for leaf in mine])
            parts.append(marginal.log_prob(torch.stack([_number(values, leaf) for leaf in mine], dim=-1)))
        if others and self.rest is not None:
            parts.append(self.rest.log_prob(values, others))
        return torch.stack(torch.broadcast_tensors(*parts)).sum(0)


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The parts of log q(z|x) - log p(z), each (B,) or (S, B) nats; see the module's docstring.

    information, between, within, leaves: (2), (A), (i), (ii)
    within_by_node:    node name -> its share of `within`, for weights of their own
    leaves_by_name:    leaf such as "style[3]" -> its share of `leaves`
    total_correlation: log q(z) - sum_d log q(z_d) between the root's children, whose mean is their TC
    prior_correlation: log p(z) - sum_d log p(z_d), zero for a prior that factorises; between is their difference
    marginal:          the inference marginal, to ask for more
    """

    information: Tensor
    between: Tensor
    within: Tensor
    leaves: Tensor
    within_by_node: Mapping[str, Tensor]
    leaves_by_name: Mapping[str, Tensor]
    total_correlation: Tensor
    prior_correlation: Tensor
    marginal: InferenceMarginal

    @property
    def kl(self) -> Tensor:
        """log q(z|x) - log p(z), the sum of the four parts."""
        return self.information + self.between + self.within + self.leaves


def decompose(
    q: Trace,
    p: Trace | None,
    tree: Node,
    size: int | None,
    estimator: Estimator = "stratified",
    prior: Prior | None = None,
    memory: Mapping[str, Distribution] | None = None,
) -> Decomposition:
    """The hierarchical decomposition of KL(q(z|x) || p(z)) along a tree.

    q:         trace of the recognition program
    p:         trace of the generative program, taken as a prior with independent blocks; not read if `prior` is given
    tree:      which variables consist of which; `tree_of_blocks(q)` for the paper's two levels
    size:      N, the number of observations in the data set
    estimator: of the inference marginal, see `InferenceMarginal`
    prior:     a prior that does not factorise, such as `GaussianPrior`
    memory:    posteriors of further observations, see `InferenceMarginal`
    """
    _check_tree(q, tree)
    if prior is None:
        if p is None:
            raise UnweaveError("a decomposition needs a prior: give the trace of the generative program, or `prior`")
        prior = FactorisedPrior(p)
    everything = _elements(q, tree)
    marginal = InferenceMarginal(q, list(dict.fromkeys(leaf.site for leaf in everything)), size, estimator, memory)
    # Each part's log-densities, computed once: every one of them is added in one term and subtracted in another.
    parts: list[Node | Leaf] = [*tree.nodes(), *tree.leaves()]
    log_q = {_key(part): marginal.log_prob(_elements(q, part)) for part in parts}
    log_p = {_key(part): prior.log_prob(q, _elements(q, part)) for part in parts}
    correlation_q = {node.name: _correlation(node, log_q) for node in tree.nodes()}
    correlation_p = {node.name: _correlation(node, log_p) for node in tree.nodes()}
    within = {name: correlation_q[name] - correlation_p[name] for name in correlation_q if name != tree.name}
    leaves = {_name(q, leaf): log_q[leaf] - log_p[leaf] for leaf in tree.leaves()}
    zero = torch.zeros_like(log_q[tree.name])
    return Decomposition(
        information=marginal.conditional(everything) - log_q[tree.name],
        between=correlation_q[tree.name] - correlation_p[tree.name],
        within=sum(within.values(), zero),
        leaves=sum(leaves.values(), zero),
        within_by_node=within,
        leaves_by_name=leaves,
        total_correlation=correlation_q[tree.name],
        prior_correlation=correlation_p[tree.name],
        marginal=marginal,
    )


def _correlation(node: Node, log_prob: Mapping[str | Leaf, Tensor]) -> Tensor:
    """log f(z) - sum_d log f(z_d) over the children d of a node."""
    return log_prob[node.name] - sum(log_prob[_key(child)] for child in node.children)


def _key(part: Node | Leaf) -> str | Leaf:
    return part.name if isinstance(part, Node) else part


def _leaves(part: Node | Leaf) -> tuple[Leaf, ...]:
    return part.leaves() if isinstance(part, Node) else (part,)


def _index(values: Trace, leaf: Leaf) -> list[int]:
    """The elements of its site that a leaf stands for."""
    return list(range(count_elements(values.site(leaf.site).distribution))) if leaf.element is None else [leaf.element]


def _elements(values: Trace, part: Node | Leaf) -> list[Leaf]:
    """A part of the tree as single elements."""
    return [Leaf(leaf.site, element) for leaf in _leaves(part) for element in _index(values, leaf)]


def _check_tree(q: Trace, tree: Node) -> None:
    names = [node.name for node in tree.nodes()]
    elements = _elements(q, tree)
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"the tree has two nodes called {name!r}: give each node its own name")
    for leaf in elements:
        count = count_elements(q.site(leaf.site).distribution)
        if leaf.element is not None and not 0 <= leaf.element < count:
            raise ConfigError(f"the tree has a leaf {leaf.site}[{leaf.element}]: the site has {count} elements, from 0")
        if elements.count(leaf) > 1:
            raise ConfigError(f"the tree has {leaf.site}[{leaf.element}] twice: each element belongs to one leaf")


def _name(q: Trace, leaf: Leaf) -> str:
    """`style[3]`, `entity[1,3]`, or the site's own name for a whole site: as `Block.columns` has it."""
    if leaf.element is None:
        return leaf.site
    distribution = q.site(leaf.site).distribution
    if not isinstance(distribution, Independent):
        return leaf.site
    position = np.unravel_index(leaf.element, distribution.event_shape[: distribution.reinterpreted_batch_ndims])
    return f"{leaf.site}[{','.join(str(int(i)) for i in position)}]"


def _number(values: Trace, leaf: Leaf) -> Tensor:
    """(B,) or (S, B): the value of an element that is a single number."""
    site = values.site(leaf.site)
    flat = site.value.flatten(start_dim=site.value.dim() - len(site.distribution.event_shape))
    if leaf.element is None or flat.shape[-1] != count_elements(site.distribution):
        raise UnweaveError(f"site {leaf.site!r} is not made of single numbers: leave it to the rest of the prior")
    return flat[..., leaf.element]


def _normal_marginal(mean: Tensor, covariance: Tensor, index: list[int]) -> MultivariateNormal:
    return MultivariateNormal(mean[..., index], covariance[..., index, :][..., index], validate_args=False)
