"""What the categories of a code stand for: of each the label that is most frequent in it, where it has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.core.codes import Codes
from unweave.core.factors import Factors
from unweave.knobs import Knob, knobs
from unweave.metrics import category_purity
from unweave.report.facts import knowledge

CLAIMED = 2 / 3
"""Share of a category's observations from which its most frequent label is said to be what it stands for."""


@dataclass(frozen=True)
class Category:
    """One category of a block.

    value: its number, or the value of a discrete block
    rows:  observations of the sample that are in it
    label: the most frequent label of these in words; None where it holds for less than `CLAIMED` of them
    share: the share that has the most frequent label, claimed or not; None where there is no observation
    """

    value: float
    rows: int
    label: str | None
    share: float | None


@dataclass(frozen=True)
class Named:
    """The categories of a knob by a factor; without factors there is none, and no label.

    purity: share of the observations whose label is the most frequent one of their category
    """

    factor: str | None
    categories: tuple[Category, ...]
    purity: float | None

    @property
    def words(self) -> tuple[str, ...]:
        """Of each category its label, or that it is mixed or unused; nothing where no factor names them."""
        if self.factor is None:
            return ()
        return tuple(each.label or ("mixed" if each.rows else "unused") for each in self.categories)


def is_category(knob: Knob) -> bool:
    """Whether a knob has values to choose from: a point on a simplex or whole numbers, at one step of time."""
    return knob.block.kind in ("simplex", "discrete") and knob.steps == 1


def named_categories(codes: Codes, factors: Factors | None) -> Mapping[str, Named]:
    """Knob -> its categories, named by the discrete factor that the knob knows best.

    codes:   of a sample of the data
    factors: of the same rows; None where rows have none
    """
    chosen = [(place, knob) for place, knob in enumerate(knobs(codes.blocks)) if is_category(knob)]
    if not chosen:
        return {}
    discrete = [] if factors is None else [name for name in factors.names if _labels(factors, name) > 1]
    known = None if factors is None or not discrete else factors.select(discrete)
    shares = knowledge(codes, known)
    matrix = codes.flat()[0]
    found = {}
    for place, knob in chosen:
        own = matrix[:, list(knob.columns)]
        simplex = knob.block.kind == "simplex"
        best = None if known is None else discrete[int(shares[place].argmax())]
        found[knob.name] = _named(own if simplex else own[:, 0], known, best)
    return found


def _named(own: np.ndarray, factors: Factors | None, factor: str | None) -> Named:
    """own: (N, K) probabilities or (N,) values."""
    if factors is None or factor is None:
        # Labels of one kind: the categories and how many rows each has are counted all the same.
        counted = category_purity(own, np.zeros(len(own)), repeats=2)
        plain = zip(counted.categories.tolist(), counted.rows.tolist(), strict=True)
        return Named(None, tuple(Category(value, rows, None, None) for value, rows in plain), None)
    scored = category_purity(own, factors.column(factor), repeats=2)  # its interval is not asked for
    names = factors.labels[factors.position(factor)]
    return Named(factor, tuple(_categories(scored, names)), scored.purity)


def _categories(scored: Any, names: Sequence[str] | None) -> list[Category]:
    found = []
    for number, value in enumerate(scored.categories.tolist()):
        rows, label, share = int(scored.rows[number]), float(scored.labels[number]), float(scored.shares[number])
        claimed = rows > 0 and share >= CLAIMED
        found.append(Category(value, rows, _word(label, names) if claimed else None, share if rows > 0 else None))
    return found


def _word(label: float, names: Sequence[str] | None) -> str:
    return str(names[int(label)]) if names is not None and 0 <= int(label) < len(names) else f"{label:.4g}"


def _labels(factors: Factors, name: str) -> int:
    """How many labels a discrete factor has; 0 for a continuous one."""
    kind, values = factors.kinds[factors.position(name)], factors.column(name)
    return len(np.unique(values[~np.isnan(values)])) if kind == "discrete" else 0
