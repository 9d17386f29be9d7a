"""Schedules: any weight, temperature or capacity may change with the training step."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

import pydantic

from unweave.base.config import Config
from unweave.base.errors import ConfigError


class Schedule(Config):
    """A number that moves from `start` to `end` in `steps` steps after `delay` steps, and stays there.

    With t = clip((step - delay) / steps, 0, 1):

        linear       start + t (end - start)
        cosine       start + (1 - cos(pi t)) / 2 (end - start)
        exponential  start (end / start)^t            both of one sign
        jump         start while t < 1, then end
    """

    kind: Literal["linear", "cosine", "exponential", "jump"]
    """How it moves."""
    start: float
    """Value at the first step."""
    end: float
    """Value from step `delay + steps` on."""
    steps: pydantic.PositiveInt
    """How many steps it takes."""
    delay: pydantic.NonNegativeInt = 0
    """How many steps it waits at `start` first."""

    @pydantic.model_validator(mode="after")
    def _one_sign(self) -> Schedule:
        if self.kind == "exponential" and self.start * self.end <= 0:
            raise ValueError(f"exponential({self.start:g}, {self.end:g}) passes zero: both ends need the same sign")
        return self

    def __call__(self, step: int) -> float:
        t = min(max((step - self.delay) / self.steps, 0.0), 1.0)
        if self.kind == "linear":
            return self.start + t * (self.end - self.start)
        if self.kind == "cosine":
            return self.start + (1 - math.cos(math.pi * t)) / 2 * (self.end - self.start)
        if self.kind == "exponential":
            return self.start * (self.end / self.start) ** t
        return self.end if t >= 1 else self.start

    def __str__(self) -> str:
        delay = f", {self.delay}" if self.delay else ""
        return f"{self.kind}({self.start:g}, {self.end:g}, {self.steps}{delay})"


_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*$")


def parse_schedule(text: str) -> Schedule:
    """`"linear(0, 4, 1000)"` or `"cosine(0, 1, 500, 100)"` as a schedule."""
    match = _CALL.match(text)
    parts = match.group(2).split(",") if match else []
    if match is None or not 3 <= len(parts) <= 4:
        raise ConfigError(
            f"cannot read {text!r}: expected a number or kind(start, end, steps[, delay]), e.g. linear(0, 4, 1000)"
        )
    names = ("start", "end", "steps", "delay")
    fields = {name: part.strip() for name, part in zip(names, parts, strict=False)}
    return Schedule.from_dict({"kind": match.group(1), **fields})


def _read_weight(value: Any) -> Any:
    return parse_schedule(value) if isinstance(value, str) and "(" in value else value


# A number, or a number that changes with the step; text such as "linear(0, 4, 1000)" is read as a schedule.
Weight = Annotated[float | Schedule, pydantic.BeforeValidator(_read_weight)]


def at_step(weight: float | Schedule, step: int) -> float:
    """The value of a weight at a training step."""
    return weight(step) if isinstance(weight, Schedule) else float(weight)
