"""What a score is to the registry: a function of codes and factors with its card."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Generic, Literal, ParamSpec

from unweave.base.card import Card
from unweave.base.registry import Registry
from unweave.core.score import Score

P = ParamSpec("P")
Needs = Literal["codes", "codes+factors", "posterior"]


class Metric(Generic[P]):
    """A score function with what lists, docs and `evaluate` need to know about it. Call it like the function.

    name:             public name, e.g. "mig"
    card:             one line and the paper
    higher_is_better: True, False, or None where neither direction is better
    needs:            "codes" alone, "codes+factors", or "posterior" (means and spreads; I(x; z_d) and TC estimates)
    bounds:           the range of possible values
    """

    def __init__(
        self,
        function: Callable[P, Score],
        card: Card,
        higher_is_better: bool | None,
        needs: Needs,
        bounds: tuple[float, float],
    ):
        functools.update_wrapper(self, function)
        self.function, self.card, self.needs, self.bounds = function, card, needs, bounds
        self.name = function.__name__
        self.higher_is_better = higher_is_better

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Score:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<score {self.name}: {self.card.summary}>"


def metric(
    card: Card,
    *,
    higher_is_better: bool | None = True,
    needs: Needs = "codes+factors",
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Callable[[Callable[P, Score]], Metric[P]]:
    """Declare a function of this package as a score."""

    def declare(function: Callable[P, Score]) -> Metric[P]:
        return Metric(function, card, higher_is_better, needs, bounds)

    return declare


METRICS: Registry[Metric] = Registry(
    "score", "unweave.metrics", lambda value: isinstance(value, Metric), lambda value: value.name
)
