"""The inference marginal q(z), estimated from a batch.

    q(z) = 1/N sum_n q(z | x_n)                                     (Esmaeili et al. 2019, below eq. 2)

is a mixture over the whole data set. A batch estimates it, for the code as a whole and for any part of it:

    log q(z^b) ~ log sum_b' w[b, b'] q(z^b | x^b')                  z^b drawn from q(z | x^b)

`InferenceMarginal` computes the log-densities of all pairs (b, b') of a part once and answers for any part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributions import Distribution, Independent, Normal

from unweave.base.errors import ConfigError, ShapeError, UnknownNameError, UnweaveError, unknown_name
from unweave.core.distributions import Concrete, count_elements, elementwise_log_prob
from unweave.core.trace import Site, Trace

Estimator = Literal["stratified", "weighted", "exact"]


class Leaf(NamedTuple):
    """A smallest part of a code: one statistically separate element of a site, or a whole site.

    site:    name of the site
    element: which element (a number of a factorised site); None for the whole site
    """

    site: str
    element: int | None = None


class InferenceMarginal:
    r"""log q(z) of any part of the code, from the log-densities of all pairs of rows of one batch.

    q:         trace of the recognition program; the chosen sites must be independent of each other given x
    names:     sites, all with one value per row
    size:      N, observations in the data set; may be left out for "exact"
    estimator: the weights w[b, b'], B' being the number of rows of the batch (of all processes together)

        "stratified"  1/N for b' = b, (N-1) / (N (B'-1)) otherwise: the example's own component is always in the
                      mixture and the others stand for the rest of the data (Esmaeili et al. 2019, sec. 3.1)
        "weighted"    1 / (N B') for all: minibatch-weighted sampling (Chen et al. 2018, eq. 3). Its weights sum to
                      1/N, so log q(z) of every part is too low by about log N, and a total correlation between D
                      parts too high by (D - 1) log N: a constant, without effect on gradients
        "exact"       1/B' for all: the batch is the data set

    memory:    posteriors q(z | x_m) of M further observations, site by site, without gradient (see
               `unweave.objectives.memory`): they stand beside the batch for parts of several numbers, B' + M in place
               of B'. A single number is well covered by a batch

    By Jensen's inequality the stratified estimate of log q(z) is too low on average: more so for parts of many
    dimensions, so that total correlations come out too low, and less so the larger the batch. Where I(x; z) is well
    above log B', a row's own component is all there is of the mixture: log q(z) is log q(z|x) - log N, and the
    correlation between z and another block c comes out as I(x; c).

    A single number needs a table of (S, B, B', E) log-densities (S only if q has samples), kept for the backward pass:
    512 rows and 20 elements take 21 MB in single precision, and about three times that with intermediate results.
    Whole normal and Concrete blocks, and parts of them, are matrix products (S, B, B') instead.

    When `torch.distributed` is initialised, b' runs over the rows of all processes and b over this process's, so that
    the mean over processes is the value for the joint batch. All processes must then build the marginal, with equal B.
    """

    def __init__(
        self,
        q: Trace,
        names: Sequence[str],
        size: int | None = None,
        estimator: Estimator = "stratified",
        memory: Mapping[str, Distribution] | None = None,
    ):
        if not names:
            raise UnweaveError("an inference marginal needs at least one site: name the blocks of the code")
        self._sites = {name: q.site(name) for name in names}
        self.rows = _common_rows(list(self._sites.values()))
        rank, processes = _rank(), _processes()
        self.columns = self.rows * processes
        self._memory = dict(memory or {})
        if self._memory and (estimator == "exact" or self._memory.keys() != self._sites.keys()):
            raise UnweaveError(
                "a memory of posteriors holds every site of the marginal and belongs to a part of the data: give one "
                f"for {', '.join(self._sites)}, and not with estimator='exact'"
            )
        kept = {name: posterior.batch_shape[0] for name, posterior in self._memory.items()}
        own = torch.arange(self.rows) + rank * self.rows
        like = q.site(names[0]).value
        kind = like.dtype if like.is_floating_point() else torch.get_default_dtype()
        self.log_weights = _log_weights(self.rows, self.columns, own, size, estimator).to(like.device, kind)
        self._joint_weights = self.log_weights
        if kept:
            columns = self.columns + max(kept.values())
            self._joint_weights = _log_weights(self.rows, columns, own, size, estimator).to(like.device, kind)
        if processes > 1:
            _require_equal_rows(self.rows, like.device)
        self._posteriors = {name: _over_processes(site) for name, site in self._sites.items()}
        self._counts = {name: count_elements(site.distribution) for name, site in self._sites.items()}
        self._joints: dict[tuple[str, tuple[int, ...]], Tensor] = {}
        self._conditional: dict[str, Tensor] = {}
        self._elements: dict[str, Tensor] = {}

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """Every element of every site, in the order of `log_prob_elements`."""
        return tuple(Leaf(name, e) for name, count in self._counts.items() for e in range(count))

    def pairwise(self, leaves: Sequence[Leaf]) -> Tensor:
        """(B, B') or (S, B, B'): log q(z^b | x^b') of the given leaves together, the memory left out."""
        return self._total(leaves, lambda name, index: self._part(name, index)[..., : self.columns])

    def log_prob(self, leaves: Sequence[Leaf]) -> Tensor:
        """(B,) or (S, B): log q(z) of the given leaves together; plain (site, element) pairs will do."""
        if len(leaves) == 1:
            name, index = leaves[0][0], self._index(leaves[0])
            if len(index) == 1 and _numbers(self._posteriors[name]):
                return self._of_site(self._elements, name, self._mix_elements)[..., index[0]]
        return (self._total(leaves, self._part) + self._joint_weights).logsumexp(-1)

    def log_prob_elements(self) -> Tensor:
        """(B, E) or (S, B, E): log q(z_e) of each element alone, in the order of `leaves`."""
        columns = [
            self._of_site(self._elements, name, self._mix_elements)
            if _numbers(self._posteriors[name])
            else torch.stack([self.log_prob([Leaf(name, e)]) for e in range(count)], dim=-1)
            for name, count in self._counts.items()
        ]
        leading = torch.broadcast_shapes(*(column.shape[:-1] for column in columns))
        return torch.cat([column.expand(*leading, -1) for column in columns], dim=-1)

    def conditional(self, leaves: Sequence[Leaf]) -> Tensor:
        """(B,) or (S, B): log q(z | x) of the given leaves together, each row under its own posterior."""

        def own(name: str, index: tuple[int, ...]) -> Tensor:
            return _chosen(self._of_site(self._conditional, name, self._own_elements), index)

        return self._total(leaves, own)

    def _total(self, leaves: Sequence[Leaf], part: Callable[[str, tuple[int, ...]], Tensor]) -> Tensor:
        """Sum over sites of what `part` gives for a site and the chosen elements of it."""
        chosen: dict[str, list[int]] = {}
        for leaf in leaves:
            chosen.setdefault(leaf[0], []).extend(self._index(leaf))
        if not chosen:
            raise UnweaveError("no leaf given: name at least one part of the code")
        total: Tensor | None = None
        for name, index in chosen.items():
            if len(set(index)) < len(index):
                raise UnweaveError(f"site {name!r} has an element that is given twice: name each leaf once")
            value = part(name, tuple(index))
            total = value if total is None else total + value
        assert total is not None
        return total

    def _index(self, leaf: Leaf | tuple[str, int | None]) -> list[int]:
        name, element = leaf
        if name not in self._counts:
            raise unknown_name("site", name, self._counts)
        count = self._counts[name]
        if element is None:
            return list(range(count))
        if not 0 <= element < count:
            raise UnknownNameError(f"site {name!r} has no element {element}: it has {count}, counted from 0")
        return [element]

    def _part(self, name: str, index: tuple[int, ...]) -> Tensor:
        """(..., B, B' + M): log q(z^b | x^b') of some elements of a site together; computed once."""
        if (name, index) not in self._joints:
            posteriors = [self._posteriors[name], *([self._memory[name]] if self._memory else [])]
            tables = [pairwise_part(self._sites[name], posterior, index) for posterior in posteriors]
            self._joints[name, index] = tables[0] if len(tables) == 1 else torch.cat(tables, dim=-1)
        return self._joints[name, index]

    def _of_site(self, cache: dict[str, Tensor], name: str, compute: Callable[[str], Tensor]) -> Tensor:
        if name not in cache:
            cache[name] = compute(name)
        return cache[name]

    def _mix_elements(self, name: str) -> Tensor:
        table = pairwise_log_prob(self._sites[name], self._posteriors[name])
        return (table + self.log_weights.unsqueeze(-1)).logsumexp(-2)

    def _own_elements(self, name: str) -> Tensor:
        site = self._sites[name]
        return elementwise_log_prob(site.distribution, site.value)


def anchor_information(marginal: InferenceMarginal, leaves: Sequence[Leaf]) -> Tensor:
    """(B,) or (S, B): log q(z_a | x) - log q(z_a), whose mean is I(x; z_a), for the anchor variables z_a.

    Term (2) restricted to a part of the code: the last term of (1) + (2) + (3) + (4) - lambda (2)^a, which is how
    Esmaeili et al. 2019, Table 1, writes the objective of Gao et al. 2018. As a cost it has the weight -lambda: the
    anchors are spared a part of what the KL charges for their information.
    """
    return marginal.conditional(leaves) - marginal.log_prob(leaves)


# Pairwise log-densities -----------------------------------------------------------------------------------------------


def pairwise_part(site: Site, posterior: Distribution, index: tuple[int, ...]) -> Tensor:
    """(B, B') or (S, B, B'): log q(z^b | x^b') of some elements of a site together, for posteriors of B' rows.

    Normal and Concrete sites need no table of single elements, since their sums over elements are products of matrices:

        sum_e (z_e - m_e)^2 / s_e^2 = sum_e z_e^2 / s_e^2 - 2 sum_e z_e m_e / s_e^2 + sum_e m_e^2 / s_e^2
        sum_k pi_k y_k^-t

    the first in double precision, in which it survives its cancellation at the smallest s that heads allow.
    """
    if site.value.device.type != "mps":  # it has no double precision
        if isinstance(posterior, Independent) and isinstance(posterior.base_dist, Normal):
            value = site.value.flatten(start_dim=site.value.dim() - len(site.distribution.event_shape))
            mean, std = posterior.base_dist.loc.flatten(1), posterior.base_dist.scale.flatten(1)
            if len(index) < mean.shape[1]:
                value, mean, std = _pick(value, index), _pick(mean, index), _pick(std, index)
            return _product_of_normals(value, mean, std)
        if isinstance(posterior, Concrete) and float(posterior.temperature) <= 1:  # y^-t overflows above that
            return _product_of_concrete(site.value, posterior)
    return _chosen(pairwise_log_prob(site, posterior), index)


def _product_of_normals(value: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """(..., B, B') from value (..., B, E), mean and std (B', E)."""
    z, m, s = value.double(), mean.double(), std.double()
    precision = s**-2
    constant = -0.5 * (m**2 * precision).sum(-1) - s.log().sum(-1) - 0.5 * mean.shape[-1] * math.log(2 * math.pi)
    numbers = torch.cat([z**2, z], dim=-1)
    product = torch.addmm(constant, numbers.flatten(0, -2), torch.cat([-0.5 * precision, m * precision], dim=-1).T)
    return product.to(value.dtype).unflatten(0, value.shape[:-1])


def _product_of_concrete(value: Tensor, posterior: Concrete) -> Tensor:
    """(..., B, B') from value (..., B, K) and posteriors of B' rows; `Concrete.log_prob` has the density."""
    t, categories = posterior.temperature, value.shape[-1]
    log_value = value.clamp(min=torch.finfo(value.dtype).tiny).log()
    mixed = (-t * log_value).exp() @ posterior.logits.exp().T  # a sum of positive numbers: nothing cancels
    log_scale = math.lgamma(categories) + (categories - 1) * math.log(float(t))
    of_row = log_scale - (t + 1) * log_value.sum(-1, keepdim=True)
    return torch.add(of_row + posterior.logits.sum(-1), mixed.log(), alpha=-categories)


def pairwise_log_prob(site: Site, posterior: Distribution | None = None) -> Tensor:
    """(B, B', E) or (S, B, B', E): log q(z_e^b | x^b') of each element e; b' over the rows of all processes."""
    event = len(site.distribution.event_shape)
    posterior = _over_processes(site) if posterior is None else posterior
    if isinstance(posterior, Independent) and isinstance(posterior.base_dist, Normal):
        value = site.value.flatten(start_dim=site.value.dim() - event)  # (S, B, E)
        return _pairwise_normal(value, posterior.base_dist.loc.flatten(1), posterior.base_dist.scale.flatten(1))
    return elementwise_log_prob(posterior, site.value.unsqueeze(site.value.dim() - event))


def _over_processes(site: Site) -> Distribution:
    """The posterior of a site, for the rows of all processes."""
    posterior = site.distribution
    if not posterior.batch_shape:
        posterior = posterior.expand(torch.Size((_rows(site),)))
    return map_parameters(posterior, gather_rows) if _processes() > 1 else posterior


def _numbers(posterior: Distribution) -> bool:
    """Whether its elements are single numbers, which have tables."""
    return isinstance(posterior, Independent)


def _chosen(table: Tensor, index: tuple[int, ...]) -> Tensor:
    """The sum of some elements of a table (..., E)."""
    return (table if len(index) == table.shape[-1] else _pick(table, index)).sum(-1)


def _pick(table: Tensor, index: tuple[int, ...]) -> Tensor:
    return table[..., list(index)]


def _pairwise_normal(value: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """As `Normal.log_prob` for value (..., B, E), mean and std (B', E), with one large intermediate instead of four."""
    precision = 1 / std
    standardised = torch.addcmul(-mean * precision, value.unsqueeze(-2), precision)
    return torch.add(-std.log() - 0.5 * math.log(2 * math.pi), standardised.square(), alpha=-0.5)


def _log_weights(rows: int, columns: int, own: Tensor, size: int | None, estimator: Estimator) -> Tensor:
    """(B, B') log w[b, b'], double precision; own (B,) is the column of each row's own observation."""
    if estimator not in ("stratified", "weighted", "exact"):
        raise ConfigError(f"unknown estimator {estimator!r} of q(z): choose 'stratified', 'weighted' or 'exact'")
    if size is None and estimator != "exact":
        raise ConfigError(f"the {estimator} estimator of q(z) needs the size of the data set: give size=N")
    if size is not None and size < columns:
        raise ConfigError(
            f"the data set has {size} observations and the batch {columns}: give the number of training observations "
            "as the size, or a smaller batch"
        )
    weights = torch.empty(rows, columns, dtype=torch.float64)
    if estimator == "exact":
        if size is not None and size != columns:
            raise ConfigError(
                f"the exact q(z) needs the whole data set of {size} observations as its batch, which has {columns}: "
                "use estimator='stratified' for a part of the data"
            )
        return weights.fill_(-math.log(columns))
    assert size is not None
    if columns == 1:
        raise ConfigError("a batch of one observation says nothing about q(z): use at least two")
    if estimator == "weighted":
        return weights.fill_(-math.log(size) - math.log(columns))
    weights.fill_(math.log(size - 1) - math.log(size) - math.log(columns - 1))
    weights[torch.arange(rows), own] = -math.log(size)
    return weights


def _rows(site: Site) -> int:
    return site.value.shape[site.value.dim() - len(site.distribution.event_shape) - 1]


def _common_rows(sites: Sequence[Site]) -> int:
    for site in sites:
        if len(site.distribution.batch_shape) > 1:
            raise UnweaveError(
                f"site {site.name!r} has a distribution of batch shape {tuple(site.distribution.batch_shape)}, so it "
                "depends on another draw and q(z | x') is unknown for other rows: choose sites that depend on x alone"
            )
    rows = {site.name: _rows(site) for site in sites}
    if len(set(rows.values())) > 1:
        raise ShapeError(f"sites have different numbers of rows {rows}: choose sites with one value per observation")
    return rows[sites[0].name]


# Several processes ----------------------------------------------------------------------------------------------------


def _processes() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _rank() -> int:
    return dist.get_rank() if _processes() > 1 else 0


def gather_rows(value: Tensor) -> Tensor:
    """(R B, ...) the rows (B, ...) of all R processes, in the order of their ranks; `value` itself for one process.

    Gradients flow back to the process a row came from, summed over the processes that used it. Averaging gradients over
    processes, as distributed training does, then gives the gradient of the joint batch.
    """
    return value if _processes() == 1 else _GatherRows.apply(value)


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        parts = [torch.empty_like(value, memory_format=torch.contiguous_format) for _ in range(_processes())]
        dist.all_gather(parts, value.contiguous())
        ctx.rows = value.shape[0]
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient)
        return gradient.narrow(0, _rank() * ctx.rows, ctx.rows)


def _require_equal_rows(rows: int, device: torch.device) -> None:
    """Unequal batches would wait for each other for ever, or mix up rows."""
    counts = gather_rows(torch.tensor([rows], device=device)).tolist()
    if len(set(counts)) > 1:
        raise ShapeError(
            f"processes have batches of {counts} rows: q(z) needs equal ones; drop the last, smaller batch"
        )


def map_parameters(distribution: Distribution, change: Callable[[Tensor], Tensor]) -> Distribution:
    """The same kind of distribution with its parameters (B, ...) changed, such as gathered from all processes."""
    if isinstance(distribution, Independent):
        base = map_parameters(distribution.base_dist, change)
        return Independent(base, distribution.reinterpreted_batch_ndims, validate_args=False)
    if isinstance(distribution, Concrete):
        return Concrete(distribution.temperature, change(distribution.logits))
    # Some families take one of several equivalent parameters and derive the others on demand: pass on the first.
    present = [name for name in distribution.arg_constraints if name in vars(distribution)]
    for alternatives in (("logits", "probs"), ("scale_tril", "covariance_matrix", "precision_matrix")):
        known = [name for name in alternatives if name in present]
        present = [name for name in present if name not in known[1:]]
    parameters = {name: change(getattr(distribution, name)) for name in present}
    family: Callable[..., Distribution] = type(distribution)
    return family(**parameters, validate_args=False)
