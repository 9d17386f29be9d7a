"""What a reproduction is: runs to train, claims of a paper to measure on them, and figures to draw.

A claim is a number per seed and a criterion on these numbers. A claim that does not hold is a result like any other.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unweave.base.registry import Registry
from unweave.studies._study import PlannedRun as PlannedRun
from unweave.studies.reproductions._lab import Lab as Lab

Scale = Literal["quick", "paper"]
SCALES: tuple[Scale, ...] = ("quick", "paper")


@dataclass(frozen=True)
class Criterion:
    """When a claim holds.

    words: as shown in tables, "mean at least 10"
    test:  the values of all seeds -> whether the claim holds
    """

    words: str
    test: Callable[[Sequence[float]], bool]


def at_least(x: float, every: bool = False) -> Criterion:
    """The mean over seeds (or every seed's value) is x or more."""
    if every:
        return Criterion(f"every seed at least {x:g}", lambda values: min(values) >= x)
    return Criterion(f"mean at least {x:g}", lambda values: statistics.fmean(values) >= x)


def at_most(x: float, every: bool = False) -> Criterion:
    """The mean over seeds (or every seed's value) is x or less."""
    if every:
        return Criterion(f"every seed at most {x:g}", lambda values: max(values) <= x)
    return Criterion(f"mean at most {x:g}", lambda values: statistics.fmean(values) <= x)


def between(low: float, high: float, every: bool = False) -> Criterion:
    """The mean over seeds (or every seed's value) lies from low to high."""
    if every:
        return Criterion(
            f"every seed from {low:g} to {high:g}", lambda values: low <= min(values) and max(values) <= high
        )
    return Criterion(f"mean from {low:g} to {high:g}", lambda values: low <= statistics.fmean(values) <= high)


@dataclass(frozen=True)
class Claim:
    """One statement of a paper as a measurement.

    name:     for --only and for files, "content-at-k1"
    words:    one sentence
    paper:    the paper's figure as text
    unit:     "points", "nats", "%", "ratio"
    measure:  (lab, seed) -> the number of one seed; the same number each time for the same run and seed
    holds:    when the claim holds
    rows:     rows of the plan that it reads; () for a pure computation
    per_seed: False: measure(lab, -1) is called once, over all seeds
    """

    name: str
    words: str
    paper: str
    unit: str
    measure: Callable[[Lab, int], float]
    holds: Criterion
    rows: tuple[str, ...] = ()
    per_seed: bool = True


@dataclass(frozen=True)
class Figure:
    """A picture of the page.

    name:    of the file; .png is added unless it ends in .gif
    caption: what one sees, in a sentence or two
    draw:    (lab, path) -> writes a compact picture there, under 150 kB
    rows:    rows of the plan that it reads
    """

    name: str
    caption: str
    draw: Callable[[Lab, Path], None]
    rows: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        return self.name if self.name.endswith(".gif") else f"{self.name}.png"


@dataclass(frozen=True)
class Reproduction:
    """All of one paper.

    name:    registry name
    summary: one line
    needs:   names of the data sets it reads; --data takes the place of the first
    tests:   data sets it measures on besides those it trains on, each with its settings
    plan:    (scale, seeds) -> runs; a pure function of this file; a row has the same settings for all seeds
    claims:  what to measure, in the order of the table
    figures: what to draw, in the order of the page
    notes:   departures from the paper in plain words (paragraphs, - lists, `code` and [links](address))
    """

    name: str
    summary: str
    needs: tuple[str, ...]
    plan: Callable[[Scale, Sequence[int]], list[PlannedRun]]
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...] = ()
    notes: str = ""
    tests: tuple[tuple[str, Mapping[str, Any]], ...] = ()

    def __post_init__(self) -> None:
        # The registry takes what a module defines itself, and an instance would name the module of its class.
        object.__setattr__(self, "__module__", self.plan.__module__)


REPRODUCTIONS: Registry[Reproduction] = Registry(
    "reproduction",
    "unweave.studies.reproductions",
    lambda value: isinstance(value, Reproduction),
    lambda value: value.name,
)
