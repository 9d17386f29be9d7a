"""Models with any graph and labels for part of the data (Siddharth et al. 2017): what is derived from two programs.

A model of your own derives from `Graph` and writes `blocks`, `infer` and `generate`. A block with the name of a factor
of the data is labelled by it. Which rows have which labels is decided batch by batch; the objective follows:

    loss = mean over rows of   -L(x)                                          rows without labels   (eq. 1)
                               -gamma (L_sup(x, y) + alpha log q(y | x))      rows with labels      (eq. 2, 8 or 9)

With beta other than 1, which no paper has, (beta - 1) KL(q(z|x, y) || p(z)) is added for every real variable z.
"""

from __future__ import annotations

import functools
import math
from abc import ABC
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import pydantic
import torch
from torch import Tensor
from torch.distributions import Distribution, OneHotCategorical

from unweave.base.errors import ConfigError, DataError, ShapeError, unknown_name
from unweave.base.schedule import Weight, at_step
from unweave.batches.orders import Shares
from unweave.core.batch import Batch
from unweave.core.block import Block
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import Concrete, Temperature, centre
from unweave.core.order import Order, Permuted, Reads, Table
from unweave.core.system import System, SystemConfig
from unweave.core.terms import Terms
from unweave.core.trace import Given, Trace
from unweave.objectives.elbo import kl
from unweave.objectives.semi_supervised import (
    Estimate,
    Part,
    enumerate_values,
    importance_weighted_bound,
    log_shares,
    scatter,
    self_normalised_bound,
    split_by_labels,
    whole,
)


class GraphConfig(SystemConfig):
    """Settings of the objective of a graph."""

    labels: pydantic.NonNegativeInt | None = None
    """M: how many training rows keep their labels, as many of each class as of the next; none: all that are known."""
    label_seed: pydantic.NonNegativeInt = 0
    """Which M rows."""
    rho: Annotated[float, pydantic.Field(gt=0, le=1)] | None = None
    """Share of labelled rows in each batch; none: their share of the data."""
    gamma: Weight = 1.0
    """Weight of labelled rows against the others (eq. 2)."""
    alpha: Weight | None = None
    """Weight of log q(y|x) on labelled rows (eq. 3); none: 0.1 / share of labelled rows."""
    beta: Weight = 1.0
    """Weight of the KL of real variables, where they have no label; 1 is the paper's, more narrows the code."""
    bound: Literal["self_normalised", "importance_weighted"] = "self_normalised"
    """The estimator: eq. 8 (eq. 1 without labels), or eq. 9, the logarithm of a mean."""
    samples: pydantic.PositiveInt = 1
    """S: draws of the variables without labels; of each enumerated value when there are some."""
    discrete: Literal["concrete", "enumerate"] = "concrete"
    """Categories without labels: drawn from the Concrete relaxation, or summed over, value by value."""
    temperature: Temperature = 0.66
    """Temperature of the Concrete relaxation; above 0."""


class Graph(System, ABC):
    """A system whose objective is derived from its programs and from which variables a batch has labels for.

    Programs may run with a sample axis: values are (B, *event) or (S, B, *event). `joined` puts both side by side.
    """

    config: GraphConfig
    labelled_share: Tensor

    def __init__(self, config: GraphConfig, spec: DataSpec):
        super().__init__(config, spec)
        known = 1.0 if config.labels is None else min(1.0, max(config.labels, 1) / spec.size)
        # Saved with the weights: alpha depends on it. `order` corrects it as soon as the data are there.
        self.register_buffer("labelled_share", torch.tensor(known if config.rho is None else config.rho))

    # What a model may change -------------------------------------------------------------------------------------

    @property
    def labelled_by(self) -> Mapping[str, tuple[str, ...]]:
        """Block -> the factors of the data that are its label, one for each of its numbers.

        Blocks with the name of a factor, unless you say otherwise: `{"light": ("azimuth", "elevation")}`.
        """
        return {block.name: (block.name,) for block in self.blocks if block.name in self.spec.labels}

    # What programs may use ---------------------------------------------------------------------------------------

    @property
    def temperature(self) -> float:
        """The temperature at the system's current step; a trained system keeps its last one."""
        return at_step(self.config.temperature, self.step)

    def category(self, logits: Tensor) -> Distribution:
        """One category of K, as (..., K) numbers, from (..., K) logits: relaxed, or exact where it is enumerated."""
        if self.config.discrete == "concrete":
            return Concrete(self.temperature, logits)
        return OneHotCategorical(logits=logits, validate_args=False)

    def uniform_category(self, count: int) -> Distribution:
        """The prior that gives each of K categories the same probability."""
        return self.category(self.labelled_share.new_zeros(count))

    # Data --------------------------------------------------------------------------------------------------------

    @property
    def reads(self) -> Reads:
        return Reads(labels=tuple(name for names in self.labelled_by.values() for name in names))

    def labelled(self, table: Table) -> Mapping[str, np.ndarray]:
        """Factor -> row numbers whose label is used: all that are known, or M rows chosen by `label_seed`."""
        known = self._known(table)
        if self.config.labels is None:
            return {name: table.rows[~np.isnan(table.column(name))] for name in self.reads.labels}
        chosen = _balanced(self._classes(table), known, self.config.labels, self.config.label_seed)
        return dict.fromkeys(self.reads.labels, table.rows[chosen])

    def order(self, table: Table, seed: int, stream: int = 0) -> Order:
        """Permutations of all rows, or batches with the share rho of labelled ones."""
        used = self.labelled(table).values()
        rows = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *used]))
        rho = self.config.rho
        self.labelled_share.fill_(len(rows) / len(table.rows) if rho is None else rho)
        if rho is None:
            return Permuted(table.rows, self.config.training.batch_size, seed, stream)
        others = np.setdiff1d(table.rows, rows)
        if rho < 1 and not len(others):
            raise DataError(f"all training rows are labelled and rho={rho:g}: set rho=1, or labels=M to keep only M")
        return Shares([(rows, rho), (others, 1 - rho)], self.config.training.batch_size, seed, stream)

    def _known(self, table: Table) -> np.ndarray:
        """(n,) bool: training rows with a label of at least one variable; the labels are checked on the way."""
        blocks = {block.name: block for block in self.blocks}
        known = np.zeros(len(table.rows), dtype=bool)
        for name, factors in self.labelled_by.items():
            if name not in blocks:
                raise unknown_name("block", name, blocks)
            columns = np.column_stack([table.column(factor) for factor in factors])
            given = ~np.isnan(columns).any(axis=1)
            if given.any():
                self._label(blocks[name], torch.from_numpy(columns[given].astype(np.float32)))
            known |= given
        wanted = self.config.labels
        if not known.any() and wanted != 0:
            names = ", ".join(self.reads.labels) or f"none of the blocks {', '.join(blocks)} is a factor of the data"
            raise DataError(f"no training row has a label ({names}): give labels, or set labels=0 to train without any")
        if wanted is not None and wanted > known.sum():
            raise DataError(f"labels={wanted} are asked for and {known.sum()} training rows have one: ask for less")
        if wanted == 0 and self.config.rho is not None:
            raise ConfigError(f"labels=0 leaves no labelled rows for rho={self.config.rho:g}: leave one of them out")
        return known

    def _classes(self, table: Table) -> np.ndarray:
        """(n,) the class by which labelled rows are balanced: that of the first discrete label, else all alike."""
        kinds = {block.name: block.kind for block in self.blocks}
        for name, factors in self.labelled_by.items():
            if kinds[name] != "real":
                return table.column(factors[0])
        return np.zeros(len(table.rows))

    # Objective ---------------------------------------------------------------------------------------------------

    def objective(self, player: str, batch: Batch, step: int) -> Terms:
        """unlabelled_bound + gamma labelled_bound + gamma alpha supervision; (beta - 1) real_kl where beta is not 1."""
        gamma = at_step(self.config.gamma, step)
        alpha = self._alpha(step)
        known = self.labels_of(batch)
        parts = list(split_by_labels(batch, known)) if self.enumerates else [whole(batch, known)]
        runs = [(part, *self.estimate(part)) for part in parts]
        bound = scatter([(part, -estimate.bound) for part, estimate, _, _ in runs], batch.rows)
        supervision = scatter([(part, -estimate.supervision) for part, estimate, _, _ in runs], batch.rows)
        labelled = scatter([(part, part.labelled) for part in parts], batch.rows)
        wrong = scatter([(part, self._wrong(part, q)) for part, _, q, _ in runs], batch.rows)
        costs = {
            "unlabelled_bound": bound.masked_fill(labelled, 0.0),
            "labelled_bound": bound.masked_fill(~labelled, 0.0),
            "supervision": supervision,
        }
        weights = {"labelled_bound": gamma, "supervision": gamma * alpha}
        if self.config.beta != 1.0:
            costs["real_kl"] = scatter([(part, self._real_kl(part, q, p)) for part, _, q, p in runs], batch.rows)
            weights["real_kl"] = at_step(self.config.beta, step) - 1.0  # the bounds have it once already
        return Terms(costs, weights, {"labelled": labelled, "mislabelled": wrong})

    def _real_kl(self, part: Part, q: Trace, p: Trace) -> Tensor:
        """(n,) the KL of the real variables of a part, where they are drawn; the mean over what they depend on."""
        total = part.batch.observations.new_zeros(part.batch.rows)
        for block in self.blocks:
            label = part.labels.get(block.name)
            if block.kind != "real" or (label is not None and label.mask is None):
                continue
            cost = kl(q, p, *(site.name for site in q.steps(block.name)))
            cost = cost if cost.dim() == 1 else (log_shares(q).exp() * cost).sum(0)
            known = None if label is None or label.mask is None else label.mask.to(cost.device)
            total = total + (cost if known is None else cost.masked_fill(known, 0.0))
        return total

    @property
    def enumerates(self) -> bool:
        """Whether categories without labels are summed over."""
        return self.config.discrete == "enumerate" and any(block.kind != "real" for block in self.blocks)

    def _alpha(self, step: int) -> float:
        if self.config.alpha is not None:
            return at_step(self.config.alpha, step)
        share = float(self.labelled_share)
        return 0.1 / share if share else 0.0

    def estimate(self, part: Part) -> tuple[Estimate, Trace, Trace]:
        """The bound of each row of a part, and the traces q and p behind it."""
        draws = self.config.samples
        given: dict[str, Tensor | Given] = {}
        values = self._enumerated(part)
        if values:
            draws = len(next(iter(values.values())))
            for name, value in values.items():  # (S, *event) -> (S, B, *event)
                spread_out = value.unsqueeze(1).expand(-1, part.batch.rows, *value.shape[1:])
                given[name] = Given(spread_out, enumerated=True)
        # One draw needs no sample axis: programs then see plain (B, *event).
        samples = draws if draws > 1 else None
        for name, label in part.labels.items():
            given[name] = (
                label if samples is None else replace(label, value=label.value.expand(draws, *label.value.shape))
            )
        q = self.posterior(part.batch, given, samples=samples)
        p = self.joint(q.as_given(x=part.batch.observations), part.batch, samples=samples)
        bound = self_normalised_bound if self.config.bound == "self_normalised" else importance_weighted_bound
        return bound(q, p), q, p

    def _enumerated(self, part: Part) -> dict[str, Tensor]:
        """(S, *event) values of the categories without labels; none when they are drawn."""
        sizes: dict[str, tuple[tuple[int, ...], int, bool]] = {}
        for block in self.blocks:
            if self.config.discrete != "enumerate" or block.kind == "real" or block.name in part.labels:
                continue
            if block.kind == "simplex":
                sizes[block.name] = (block.shape[:-1], block.shape[-1], True)
            elif self.spec.labels.get(block.name):
                sizes[block.name] = (block.shape, self.spec.labels[block.name], False)
            else:
                raise ConfigError(
                    f"block {block.name!r} has whole numbers without a largest one and cannot be enumerated: "
                    "make it a simplex of K categories"
                )
        if not sizes:
            return {}
        like = part.batch.observations
        values = enumerate_values(sizes, self.config.samples)
        return {
            name: value.to(like.device, like.dtype if sizes[name][2] else torch.long) for name, value in values.items()
        }

    def _wrong(self, part: Part, q: Trace) -> Tensor:
        """(n,) bool: rows with a label of some category that is not the likeliest under q; of one draw of q."""
        wrong: Tensor | None = None
        for block in self.blocks:
            if block.name not in part.labels or block.kind == "real" or block.name not in q:
                continue
            label = part.labels[block.name]
            guess, truth = centre(q.site(block.name).distribution).detach(), label.value
            if block.kind == "simplex":
                guess, truth = guess.argmax(-1), truth.argmax(-1)
            first = guess if guess.dim() == truth.dim() else guess[0]
            differs = first != truth if first.dim() == 1 else (first != truth).flatten(1).any(1)
            differs = differs if label.mask is None else differs & label.mask.to(differs.device)
            wrong = differs if wrong is None else wrong | differs
        return torch.zeros_like(part.labelled) if wrong is None else wrong

    # Labels ------------------------------------------------------------------------------------------------------

    def labels_of(self, batch: Batch) -> dict[str, Given]:
        """Block -> (B, *event) value and (B,) mask, from the factors that the batch carries."""
        blocks = {block.name: block for block in self.blocks}
        sources = self.labelled_by
        readable = self.reads.labels
        for name in batch.labels:
            if name not in readable:
                raise unknown_name("labelled variable", name, readable)
        found: dict[str, Given] = {}
        for name, factors in sources.items():
            if not all(factor in batch.labels for factor in factors):
                continue
            given = [batch.labels[factor] for factor in factors]
            values = given[0].value if len(given) == 1 else torch.stack([each.value for each in given], dim=-1)
            masks = [each.mask for each in given if each.mask is not None]
            mask = functools.reduce(torch.logical_and, masks) if masks else None
            if mask is not None:
                values = values.masked_fill(~mask.reshape(-1, *[1] * (values.dim() - 1)), 0.0)
            found[name] = Given(self._label(blocks[name], values).to(batch.observations.device), mask)
        return found

    def _label(self, block: Block, values: Tensor) -> Tensor:
        """(B, *block.shape) from the numbers of the data: one-hot for a category, whole or real numbers as they are."""
        values = values.squeeze(-1) if values.dim() == 2 and values.shape[1] == 1 else values
        like = self.labelled_share
        positions = block.shape[:-1] if block.kind == "simplex" else block.shape
        if values.dim() == 1 and block.kind == "real" and block.size == 1:
            values = values.reshape(len(values), *positions)
        if tuple(values.shape[1:]) != positions:
            raise ShapeError(
                f"block {block.name!r} of shape {block.shape} got labels of shape {tuple(values.shape[1:])} for each "
                f"row: expected {positions}; name as many factors in labelled_by"
            )
        if block.kind == "real":
            return values.to(like.dtype)
        count = block.shape[-1] if block.kind == "simplex" else self.spec.labels.get(block.name, 0)
        if block.kind == "simplex":
            label = values.unsqueeze(-1) == torch.arange(count, device=values.device)  # one-hot
            fits = label.any(-1)
        else:
            label = values.long()
            fits = (values >= 0) & (values == label) & (values < (count or math.inf))
        if not bool(fits.all()):
            top = f"0 to {count - 1}" if count else "0, 1, 2, ..."
            raise DataError(
                f"label {values[~fits][0].item():g} of {block.name!r} is outside its range: expected whole numbers "
                f"{top}; correct the factor or give the block more values"
            )
        return label.to(like.dtype) if block.kind == "simplex" else label


def joined(*parts: Tensor) -> Tensor:
    """(..., D1 + D2 + ...): tensors side by side along their last axis; a missing sample axis is filled in."""
    shapes = {part.shape[:-1] for part in parts}
    if len(shapes) == 1:
        return torch.cat(parts, dim=-1)
    leading = torch.broadcast_shapes(*shapes)
    return torch.cat([part.expand(*leading, part.shape[-1]) for part in parts], dim=-1)


def _balanced(classes: np.ndarray, known: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Places of `count` of the known rows: one of each class in turn, until there are enough.

    classes: (n,) the class of each row; a class without rows left is passed over
    """
    mixed = np.random.default_rng(seed).permutation(np.flatnonzero(known))
    kinds = np.nan_to_num(classes[mixed], nan=-1.0)  # labelled rows may lack this very label
    turn = np.zeros(len(mixed), dtype=np.int64)
    for kind in np.unique(kinds):
        here = kinds == kind
        turn[here] = np.arange(here.sum())
    return np.sort(mixed[np.argsort(turn, kind="stable")[:count]])
