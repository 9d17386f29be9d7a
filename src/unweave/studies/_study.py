"""What a study is: a list of planned runs that a pure function gives, and which of their numbers to tabulate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from unweave.base.registry import Registry


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study.

    row:           the row of the table it counts towards, e.g. "tcvae"
    system, data:  registry names
    preset:        where the settings start from
    settings:      changes by dotted name
    data_settings: settings of the data source
    split:         settings of `unweave.data.Split`
    seed:          seed of every random number
    """

    row: str
    system: str
    data: str
    seed: int
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    data_settings: Mapping[str, Any] = field(default_factory=dict)
    split: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The run's folder within the study's."""
        return f"{self.row}-{self.seed}"


class Study:
    """A named plan.

    name:    registry name
    summary: one line
    plan:    (seeds, steps) -> planned runs; a pure function, so that any run can be named and made again
    scores:  columns of the table: score names, or "score/part" for one of a score's parts
    steps:   training steps when the command does not say otherwise
    """

    def __init__(
        self, name: str, summary: str, plan: Callable[[int, int], list[PlannedRun]], scores: tuple[str, ...], steps: int
    ):
        self.name, self.summary, self.plan, self.scores, self.steps = name, summary, plan, scores, steps
        self.__module__ = plan.__module__


STUDIES: Registry[Study] = Registry(
    "study", "unweave.studies", lambda value: isinstance(value, Study), lambda value: value.name
)
