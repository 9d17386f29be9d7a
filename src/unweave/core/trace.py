"""Traces: what happened when a probabilistic program ran.

A recognition or generative program is ordinary Python with one verb, `trace.sample(name, distribution)`. What is given
to the trace decides whether a site is drawn, observed (data, labels) or reused (latents of another trace). Traces are
ordered, write-once and hold no global state.

Shapes follow one grammar: values are (B, *event), or (S, B, *event) when the trace draws S samples.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.distributions import Distribution

from unweave.base.errors import ShapeError, UnweaveError, unknown_name
from unweave.core.distributions import Concrete, centre


class Provenance(enum.Enum):
    """Where a site's value comes from."""

    SAMPLED = "sampled"
    OBSERVED = "observed"
    REUSED = "reused"
    ENUMERATED = "enumerated"


@dataclass(frozen=True)
class Given:
    """A value for a site.

    value:      (B, *event) or (S, B, *event)
    mask:       (B,) bool, the rows for which the value is known; the other rows are drawn. None: known for all
    reused:     True for the latent value of another trace, False for an observation
    enumerated: True when the S samples are the values of a discrete variable one after the other, each (S, B, K)
                one-hot or (S, B) whole numbers, in place of draws
    observed:   (B,) bool, of a value that is there for all rows: which of them were observed, where the others were
                drawn by another trace. None: all alike
    """

    value: Tensor
    mask: Tensor | None = None
    reused: bool = False
    enumerated: bool = False
    observed: Tensor | None = None

    @property
    def provenance(self) -> Provenance:
        if self.enumerated:
            return Provenance.ENUMERATED
        return Provenance.REUSED if self.reused else Provenance.OBSERVED


@dataclass(frozen=True, eq=False)
class Site:
    """One named random variable of a trace.

    name, distribution, value: as sampled
    provenance: sampled, observed, reused or enumerated; a partly observed site counts as observed
    mask:       (B,) bool, the observed rows of a partly observed site; None when all rows are alike
    """

    name: str
    distribution: Distribution
    value: Tensor
    provenance: Provenance
    mask: Tensor | None = None

    @cached_property
    def log_prob(self) -> Tensor:
        """(B,) or (S, B) log-probability of the value, summed over the event.

        A relaxed category that is observed or enumerated is a category: a label has the probability pi_k, where the
        density of the Concrete distribution would be infinite.
        """
        exact = self.provenance in (Provenance.OBSERVED, Provenance.ENUMERATED)
        if not (exact and isinstance(self.distribution, Concrete)):
            return self.distribution.log_prob(self.value)
        category = (self.distribution.logits * self.value).sum(-1)
        if self.mask is None:
            return category
        return torch.where(self.mask, category, self.distribution.log_prob(self.value))


GivenMapping = Mapping[str, "Tensor | Given"]


class Trace:
    """An ordered, write-once record of named sites.

    given:   name -> value (an observation), or `Given` for masks and reused latents
    rows:    the batch size B; a site whose distribution has no batch axis is drawn once per row
    samples: S, to draw S values per row; None for one value without a sample axis
    centred: take each drawn site's centre (mean, probabilities) instead of a draw: a deterministic encoding
    """

    def __init__(
        self,
        given: GivenMapping | None = None,
        *,
        rows: int | None = None,
        samples: int | None = None,
        centred: bool = False,
    ):
        self._given = {
            name: value if isinstance(value, Given) else Given(value) for name, value in (given or {}).items()
        }
        self.rows, self.samples, self.centred = rows, samples, centred
        self._sites: dict[str, Site] = {}

    def sample(self, name: str, distribution: Distribution) -> Tensor:
        """The value of a random variable: given if it was given, drawn otherwise."""
        if name in self._sites:
            raise UnweaveError(f"site {name!r} is sampled twice in one trace: give each random variable its own name")
        given = self._find_given(name, len(distribution.event_shape))
        if given is None:
            site = Site(name, distribution, self._draw(distribution), Provenance.SAMPLED)
        else:
            self._check_shape(name, distribution, given)
            value = given.value
            if given.mask is not None:
                mask = given.mask.reshape(given.mask.shape + (1,) * len(distribution.event_shape))
                # Unknown rows may hold anything, NaN included: `where` takes nothing from them.
                value = torch.where(mask, value, self._draw(distribution))
            site = Site(
                name, distribution, value, given.provenance, given.observed if given.mask is None else given.mask
            )
        self._sites[name] = site
        return site.value

    def known(self, name: str, event_dims: int = 1) -> Tensor | None:
        """The value a site will have, where no row of it is to be drawn; None where one is. It is not sampled by this.

        A program that finds all steps known need not go through them one after the other.
        """
        given = self._find_given(name, event_dims)
        return None if given is None or given.mask is not None else given.value

    def _find_given(self, name: str, event_dims: int) -> Given | None:
        """What was given for a site; steps `z[0]`, `z[1]`, ... of a block find their part of what was given for `z`."""
        numbered = re.fullmatch(r"(.+)\[(\d+)\]", name)
        if name in self._given or numbered is None or numbered[1] not in self._given:
            return self._given.get(name)
        whole, step = self._given[numbered[1]], int(numbered[2])
        axis = whole.value.dim() - event_dims - 1
        if axis < 1 or step >= whole.value.shape[axis]:
            raise ShapeError(
                f"site {name!r} looks for its part of a value given for {numbered[1]!r}, which has shape "
                f"{tuple(whole.value.shape)}: give (batch, steps, *event) with more than {step} steps"
            )
        return replace(whole, value=whole.value.select(axis, step))

    def _draw(self, distribution: Distribution) -> Tensor:
        if not distribution.batch_shape and self.rows is not None:
            distribution = distribution.expand(torch.Size((self.rows,)))
        # A distribution that depends on an earlier draw has the sample axis already.
        drawn_before = len(distribution.batch_shape) > 1
        shape = torch.Size() if self.samples is None or drawn_before else torch.Size((self.samples,))
        if self.centred:
            value = centre(distribution)
            return value.expand(*shape, *value.shape)
        return distribution.rsample(shape) if distribution.has_rsample else distribution.sample(shape)

    def _check_shape(self, name: str, distribution: Distribution, given: Given) -> None:
        event = tuple(distribution.event_shape)
        got = tuple(given.value.shape)
        batch = got[: len(got) - len(event)]
        fits = len(got) >= len(event) and got[len(got) - len(event) :] == event
        if fits and distribution.batch_shape and batch != tuple(distribution.batch_shape):
            try:
                torch.broadcast_shapes(batch, tuple(distribution.batch_shape))
            except RuntimeError:
                fits = False
        if not fits:
            expected = " x ".join(map(str, (*distribution.batch_shape, *event))) or "a single number"
            raise ShapeError(
                f"site {name!r} was given a value of shape {got}: its distribution expects {expected} "
                "(batch, then event); reshape the value or the distribution's parameters"
            )
        if given.mask is not None and (given.mask.dtype != torch.bool or given.mask.dim() != 1):
            raise ShapeError(
                f"site {name!r} was given a mask of shape {tuple(given.mask.shape)} and type {given.mask.dtype}: "
                "expected one boolean per row"
            )

    def site(self, name: str) -> Site:
        if name not in self._sites:
            raise unknown_name("site", name, self._sites)
        return self._sites[name]

    def steps(self, name: str) -> tuple[Site, ...]:
        """The site of a block, or its sites `name[0]`, `name[1]`, ... when the program makes it step by step."""
        if not self.has(name):
            raise unknown_name("site", name, self._sites)
        if name in self._sites:
            return (self._sites[name],)
        return tuple(site for site in self._sites.values() if site.name.partition("[")[0] == name)

    def has(self, name: str) -> bool:
        """Whether a block was sampled, at once or step by step."""
        return any(name in (site, site.partition("[")[0]) for site in self._sites)

    def __getitem__(self, name: str) -> Tensor:
        return self.site(name).value

    def __contains__(self, name: object) -> bool:
        return name in self._sites

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._sites)

    def sites(self, *provenance: Provenance) -> tuple[Site, ...]:
        """All sites in order, or those of the given provenance."""
        return tuple(site for site in self._sites.values() if not provenance or site.provenance in provenance)

    @property
    def unused(self) -> tuple[str, ...]:
        """Names that were given and never sampled: misspelt, or not part of this program."""
        sampled = {*self._sites, *(name.partition("[")[0] for name in self._sites)}
        return tuple(name for name in self._given if name not in sampled)

    def log_prob(self, *names: str) -> Tensor:
        """(B,) or (S, B) sum of the log-probabilities of the named sites, of all sites when none is named."""
        chosen = names or self.names
        if not chosen:
            raise UnweaveError("an empty trace has no log-probability: sample at least one site first")
        total = self.site(chosen[0]).log_prob
        for name in chosen[1:]:
            total = total + self.site(name).log_prob
        return total

    def as_given(self, **observed: Tensor | Given) -> dict[str, Tensor | Given]:
        """What to give another trace to run it on these values: every site reused, plus observations."""
        reused: dict[str, Tensor | Given] = {
            name: Given(
                site.value,
                reused=site.provenance is not Provenance.OBSERVED,
                enumerated=site.provenance is Provenance.ENUMERATED,
                observed=site.mask,
            )
            for name, site in self._sites.items()
        }
        return {**reused, **observed}

    def __repr__(self) -> str:
        lines = (f"  {s.name}: {s.provenance.value}, {tuple(s.value.shape)}" for s in self._sites.values())
        return "Trace(\n" + "\n".join(lines) + "\n)"
