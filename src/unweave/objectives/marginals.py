"""The inference marginal q(z), estimated from a batch.

    q(z) = 1/N sum_n q(z | x_n)                                     (Esmaeili et al. 2019, below eq. 2)

is a mixture over the whole data set. A batch estimates it, for the code as a whole and for any part of it:

    log q(z^b) ~ log sum_b' w[b, b'] q(z^b | x^b')                  z^b drawn from q(z | x^b)

`InferenceMarginal` computes the log-densities of all pairs (b, b') once and answers for any part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributions import Distribution, Independent, Normal

from unweave.core.distributions import Concrete, elementwise_log_prob
from unweave.core.errors import ConfigError, ShapeError, UnknownNameError, UnweaveError, unknown_name
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
    r"""log q(z) of any part of the code, from the pairwise log-densities of one batch.

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

    By Jensen's inequality the stratified estimate of log q(z) is too low on average: more so for parts of many
    dimensions, so that total correlations come out too low, and less so the larger the batch.

    The tables have shape (S, B, B', E) per site (S only if q has samples) and are kept for the backward pass: 512 rows
    and 20 elements take 21 MB in single precision, and about three times that with intermediate results.

    When `torch.distributed` is initialised, b' runs over the rows of all processes and b over this process's, so that
    the mean over processes is the value for the joint batch. All processes must then build the marginal, with equal B.
    """

    def __init__(self, q: Trace, names: Sequence[str], size: int | None = None, estimator: Estimator = "stratified"):
        if not names:
            raise UnweaveError("an inference marginal needs at least one site: name the blocks of the code")
        self._sites = {name: q.site(name) for name in names}
        self.rows = _common_rows(list(self._sites.values()))
        rank, processes = _rank(), _processes()
        self.columns = self.rows * processes
        own = torch.arange(self.rows) + rank * self.rows
        like = q.site(names[0]).value
        weights = _log_weights(self.rows, self.columns, own, size, estimator)
        self.log_weights = weights.to(
            like.device, like.dtype if like.is_floating_point() else torch.get_default_dtype()
        )
        if processes > 1:
            _require_equal_rows(self.rows, like.device)
        self._pairwise = {name: pairwise_log_prob(site) for name, site in self._sites.items()}
        self._conditional: dict[str, Tensor] = {}
        self._elements: dict[str, Tensor] = {}

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """Every element of every site, in the order of `log_prob_elements`."""
        return tuple(Leaf(name, e) for name, table in self._pairwise.items() for e in range(table.shape[-1]))

    def pairwise(self, leaves: Sequence[Leaf]) -> Tensor:
        """(B, B') or (S, B, B'): log q(z^b | x^b') of the given leaves together."""
        return self._total(leaves, self._pairwise)

    def log_prob(self, leaves: Sequence[Leaf]) -> Tensor:
        """(B,) or (S, B): log q(z) of the given leaves together; plain (site, element) pairs will do."""
        only = leaves[0] if len(leaves) == 1 else None
        if only is not None and (only[1] is not None or self._table(only[0]).shape[-1] == 1):
            return self._of_site(self._elements, only[0], self._mix_elements)[..., self._index(only)].squeeze(-1)
        return (self.pairwise(leaves) + self.log_weights).logsumexp(-1)

    def log_prob_elements(self) -> Tensor:
        """(B, E) or (S, B, E): log q(z_e) of each element alone, in the order of `leaves`."""
        columns = [self._of_site(self._elements, name, self._mix_elements) for name in self._sites]
        return torch.cat([column.expand(*self._batch_shape, -1) for column in columns], dim=-1)

    def conditional(self, leaves: Sequence[Leaf]) -> Tensor:
        """(B,) or (S, B): log q(z | x) of the given leaves together, each row under its own posterior."""
        tables = {name: self._of_site(self._conditional, name, self._own_elements) for name in self._sites}
        return self._total(leaves, tables)

    def _total(self, leaves: Sequence[Leaf], tables: dict[str, Tensor]) -> Tensor:
        """Sum over the given leaves of tables (..., E), site by site."""
        chosen: dict[str, list[int]] = {}
        for leaf in leaves:
            chosen.setdefault(leaf[0], []).extend(self._index(leaf))
        if not chosen:
            raise UnweaveError("no leaf given: name at least one part of the code")
        total: Tensor | None = None
        for name, index in chosen.items():
            if len(set(index)) < len(index):
                raise UnweaveError(f"site {name!r} has an element that is given twice: name each leaf once")
            table = tables[name]
            part = (table if len(index) == table.shape[-1] else table[..., index]).sum(-1)
            total = part if total is None else total + part
        assert total is not None
        return total

    def _index(self, leaf: Leaf | tuple[str, int | None]) -> list[int]:
        name, element = leaf
        count = self._table(name).shape[-1]
        if element is None:
            return list(range(count))
        if not 0 <= element < count:
            raise UnknownNameError(f"site {name!r} has no element {element}: it has {count}, counted from 0")
        return [element]

    def _table(self, name: str) -> Tensor:
        if name not in self._pairwise:
            raise unknown_name("site", name, self._pairwise)
        return self._pairwise[name]

    def _of_site(self, cache: dict[str, Tensor], name: str, compute: Callable[[str], Tensor]) -> Tensor:
        if name not in cache:
            cache[name] = compute(name)
        return cache[name]

    def _mix_elements(self, name: str) -> Tensor:
        return (self._pairwise[name] + self.log_weights.unsqueeze(-1)).logsumexp(-2)

    def _own_elements(self, name: str) -> Tensor:
        site = self._sites[name]
        return elementwise_log_prob(site.distribution, site.value)

    @property
    def _batch_shape(self) -> torch.Size:
        return torch.broadcast_shapes(*(table.shape[:-2] for table in self._pairwise.values()))


def anchor_information(marginal: InferenceMarginal, leaves: Sequence[Leaf]) -> Tensor:
    """(B,) or (S, B): log q(z_a | x) - log q(z_a), whose mean is I(x; z_a), for the anchor variables z_a.

    Term (2) restricted to a part of the code: the last term of (1) + (2) + (3) + (4) - lambda (2)^a, which is how
    Esmaeili et al. 2019, Table 1, writes the objective of Gao et al. 2018. As a cost it has the weight -lambda: the
    anchors are spared a part of what the KL charges for their information.
    """
    return marginal.conditional(leaves) - marginal.log_prob(leaves)


# Pairwise log-densities -----------------------------------------------------------------------------------------------


def pairwise_log_prob(site: Site) -> Tensor:
    """(B, B', E) or (S, B, B', E): log q(z_e^b | x^b') of each element e; b' over the rows of all processes."""
    event = len(site.distribution.event_shape)
    posterior = site.distribution
    if not posterior.batch_shape:
        posterior = posterior.expand(torch.Size((_rows(site),)))
    if _processes() > 1:
        posterior = map_parameters(posterior, gather_rows)
    if isinstance(posterior, Independent) and isinstance(posterior.base_dist, Normal):
        value = site.value.flatten(start_dim=site.value.dim() - event)  # (S, B, E)
        return _pairwise_normal(value, posterior.base_dist.loc.flatten(1), posterior.base_dist.scale.flatten(1))
    return elementwise_log_prob(posterior, site.value.unsqueeze(site.value.dim() - event))


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
