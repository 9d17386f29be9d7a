r"""Bounds for models whose variables are labelled on some rows (Siddharth et al. 2017, section 2.1).

For one row x, with labelled variables y and all others z, and S values z^s proposed by the recognition program,

    w^s = q(y, z^s | x) / q(z^s | x)              importance weights (eq. 6)
    r^s = 1/S                                     share of a draw; sum_s r^s f(z^s) estimates E_q[f]

The weights are the product of the conditional probabilities of the labelled variables, whatever the factorisation of
q: a trace holds each of them. Without labels w^s = 1, eq. 8 becomes the evidence lower bound (eq. 1) and eq. 9 its
importance-weighted form.

Discrete variables may be enumerated instead of drawn: z^s then runs through all their values, each n times, and
r^s = q(enumerated values | what comes before them) / n. The sum over them is exact.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical, Independent

from unweave.base.errors import ConfigError, UnweaveError
from unweave.core.batch import Batch
from unweave.core.trace import Given, Provenance, Site, Trace

MOST_VALUES = 4096
"""How many combinations of enumerated values are allowed."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """What is known of each row, in nats, to be maximised.

    bound:       (B,) the bound on log p(x, y); on log p(x) without labels
    supervision: (B,) the estimate of log q(y | x); 0 without labels
    """

    bound: Tensor
    supervision: Tensor


def log_weights(q: Trace) -> Tensor:
    """(S, B) log w, the sum of the log-probabilities of the observed sites of q (eq. 6); 0 where there is no label."""
    total: Tensor | None = None
    for site in q.sites(Provenance.OBSERVED):
        known = site.log_prob if site.mask is None else site.log_prob.masked_fill(~site.mask, 0.0)
        total = known if total is None else total + known
    return _sum((), _shape(q), like=q) if total is None else total.expand(_shape(q))


def log_shares(q: Trace) -> Tensor:
    """(S, B) log r, the share of each draw: -log S, or log q(enumerated values) - log n with n draws of each."""
    shape = _shape(q)
    enumerated = q.sites(Provenance.ENUMERATED)
    repeats = shape[0] / math.prod(_values(site) for site in enumerated)
    return _sum(enumerated, shape, like=q) - math.log(repeats)


def self_normalised_bound(q: Trace, p: Trace) -> Estimate:
    r"""Equation 8 without its alpha, and eq. 7, which alpha weighs.

        bound       = sum_s v^s log p(x, y, z^s) / q(y, z^s | x)  +  sum_s r^s log w^s
        supervision = sum_s r^s log w^s

    with v^s = r^s w^s / sum_t r^t w^t on rows with labels and v^s = r^s on rows without: there the estimate of eq. 1
    is unbiased. (The r^s add up to 1 on average only, when a variable that is drawn comes before an enumerated one:
    dividing by their sum would raise the estimate above the bound.) Gradients pass through the weights too.
    """
    log_w = log_weights(q)
    ratio = log_joint(q, p) - _sum(q.sites(), _shape(q), like=q)
    if len(ratio) == 1:  # one draw has weight 1 whatever w is
        mean, supervision = ratio.squeeze(0), log_w.squeeze(0)
    else:
        log_r = log_shares(q)
        shares = (log_r + log_w).softmax(dim=0) if q.sites(Provenance.OBSERVED) else log_r.exp()
        mean, supervision = (shares * ratio).sum(0), (log_r.exp() * log_w).sum(0)
    return Estimate(mean + supervision, supervision)


def importance_weighted_bound(q: Trace, p: Trace) -> Estimate:
    r"""Equation 9 without its alpha, and the term alpha weighs.

    bound       = log sum_s r^s p(x, y, z^s) / q(z^s | x)
    supervision = log sum_s r^s w^s
    """
    log_w, log_r = log_weights(q), log_shares(q)
    log_proposal = _sum(q.sites(), _shape(q), like=q) - log_w
    bound = (log_r + log_joint(q, p) - log_proposal).logsumexp(dim=0)
    return Estimate(bound, (log_r + log_w).logsumexp(dim=0))


def log_joint(q: Trace, p: Trace) -> Tensor:
    """(S, B) log p(x, y, z) at the values of q; an error names a variable that one of the programs leaves out."""
    missing = p.sites(Provenance.SAMPLED)
    if missing:  # its value came from the prior, which is no bound at all
        raise UnweaveError(
            f"the recognition program misses variable {missing[0].name!r}, which the generative program samples: "
            f"add q.sample({missing[0].name!r}, ...)"
        )
    for site in q.sites():
        drawn = site.provenance is Provenance.SAMPLED or site.mask is not None  # on some rows
        if drawn and not site.distribution.has_rsample:
            raise UnweaveError(
                f"variable {site.name!r} is drawn from a {type(site.distribution).__name__}, through which no gradient "
                "passes: enumerate it (discrete=enumerate) or make it Concrete"
            )
    return _sum(p.sites(), _shape(q), like=q)


# Values of discrete variables ------------------------------------------------------------------------------------


def enumerate_values(sizes: Mapping[str, tuple[tuple[int, ...], int, bool]], repeats: int = 1) -> dict[str, Tensor]:
    """All combinations of values of some discrete variables, each `repeats` times: name -> (S, *event).

    sizes: name -> (shape of positions, K, one_hot): a variable takes one of K values at each position; as one-hot
           numbers (*positions, K), or as whole numbers (*positions,)
    """
    places = {name: math.prod(shape) for name, (shape, _, _) in sizes.items()}
    total = math.prod(count ** places[name] for name, (_, count, _) in sizes.items())
    if total > MOST_VALUES:
        raise ConfigError(
            f"{', '.join(sizes)} have {total} values together, too many to enumerate (at most {MOST_VALUES}): "
            "set discrete=concrete"
        )
    columns = [range(count) for name, (_, count, _) in sizes.items() for _ in range(places[name])]
    table = torch.tensor(list(itertools.product(*columns)), dtype=torch.long).repeat(repeats, 1)
    values: dict[str, Tensor] = {}
    start = 0
    for name, (shape, count, one_hot) in sizes.items():
        whole = table[:, start : start + places[name]].reshape(len(table), *shape)
        values[name] = torch.nn.functional.one_hot(whole, count) if one_hot else whole
        start += places[name]
    return values


# Rows and their labels ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a batch that the programs run on together.

    rows:   (n,) their places in the batch, None for the whole batch
    batch:  the batch of these rows
    labels: name -> value (n, *event) and mask (n,) of the variables that are labelled on some of these rows; a mask of
            None: on all
    """

    rows: Tensor | None
    batch: Batch
    labels: Mapping[str, Given]

    @property
    def labelled(self) -> Tensor:
        """(n,) bool, the rows with at least one label."""
        device, rows = _device(self.batch), self.batch.rows
        masks = [given.mask for given in self.labels.values()]
        if not masks or any(mask is None for mask in masks):
            return torch.full((rows,), bool(masks), device=device)
        return functools.reduce(torch.logical_or, [mask.to(device) for mask in masks if mask is not None])


def whole(batch: Batch, labels: Mapping[str, Given]) -> Part:
    """The batch as one part: where a label is unknown its variable is drawn, row by row."""
    kept = {}
    for name, given in labels.items():
        known = batch.rows if given.mask is None else int(given.mask.sum())
        if known == batch.rows:
            kept[name] = replace(given, mask=None)
        elif known:
            kept[name] = given
    return Part(None, replace(batch, labels={}), kept)


def split_by_labels(batch: Batch, labels: Mapping[str, Given]) -> Iterator[Part]:
    """The batch in parts, so that in each part a variable is labelled on all rows or on none.

    Enumeration needs it: a variable has one value on a labelled row and K on the others.

    labels: name -> value (B, *event) and mask (B,) of the rows on which it is known; None: on all
    """
    bare = replace(batch, labels={})
    masks = [given.mask for given in labels.values()]
    pattern = torch.zeros(batch.rows, dtype=torch.long)
    for place, mask in enumerate(masks):
        pattern |= (torch.ones(batch.rows, dtype=torch.bool) if mask is None else mask.cpu()).long() << place
    found = pattern.unique().tolist()
    if len(found) > 1 and batch.group is not None:
        raise UnweaveError(
            "rows of this batch differ in what is labelled and belong to groups: label whole groups alike, "
            "or leave the groups out"
        )
    for number in found:
        rows = None if len(found) == 1 else (pattern == number).nonzero().squeeze(1).to(_device(batch))
        known = [name for place, name in enumerate(labels) if number >> place & 1]
        values = {name: Given(labels[name].value if rows is None else labels[name].value[rows]) for name in known}
        yield Part(rows, bare if rows is None else bare.take(rows), values)


def scatter(parts: Sequence[tuple[Part, Tensor]], rows: int) -> Tensor:
    """(B,) from the (n,) values of each part; 0 on rows of no part."""
    if len(parts) == 1 and parts[0][0].rows is None:
        return parts[0][1]
    total = parts[0][1].new_zeros(rows)
    for part, value in parts:
        total = value if part.rows is None else total.index_put((part.rows,), value)
    return total


def _device(batch: Batch) -> torch.device:
    return batch.observations.device


# Sums of log-probabilities -----------------------------------------------------------------------------------------


def _shape(q: Trace) -> tuple[int, int]:
    """(S, B) of a trace; S is 1 when it has no sample axis."""
    shapes = {site.log_prob.shape for site in q.sites()}
    shape = torch.broadcast_shapes(*shapes) if len(shapes) > 1 else next(iter(shapes))
    return (shape[0], shape[1]) if len(shape) == 2 else (1, shape[0])


def _sum(sites: Sequence[Site], shape: tuple[int, int], like: Trace) -> Tensor:
    """(S, B) the sum of the log-probabilities of some sites; zeros without any."""
    if not sites:
        return like.sites()[0].log_prob.new_zeros(shape)
    total = sites[0].log_prob
    for site in sites[1:]:
        total = total + site.log_prob
    return total.expand(shape)


def _values(site: Site) -> int:
    """How many values an enumerated variable has: K, or K to the number of its positions."""
    distribution = site.distribution
    inner: Any = distribution.base_dist if isinstance(distribution, Independent) else distribution
    count = inner.logits.shape[-1]
    positions = math.prod(distribution.event_shape)
    return int(count ** (positions if isinstance(inner, Categorical) else positions // count))
