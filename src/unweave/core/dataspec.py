"""What a system must know of its data before it sees any: shape, range and number of observations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from unweave.base.errors import DataError

Values = Literal["binary", "unit", "levels", "real", "counts", "tokens"]


@dataclass(frozen=True)
class DataSpec:
    """Shape and range of one observation, and how many there are.

    shape:  event shape of an observation: (C, H, W) for images, (T, C, H, W) for clips, (D,) for vectors
    values: "binary" 0 or 1; "unit" in [0, 1]; "levels" whole numbers 0 .. levels - 1; "real" any number;
            "counts" whole numbers >= 0; "tokens" word numbers 0 .. levels - 1
    size:   number of training observations N; estimators of the inference marginal q(z) need it
    levels: how many values "levels" and "tokens" have
    labels: factors the data come with: name -> number of values of a discrete one, 0 for a continuous one
    """

    shape: tuple[int, ...]
    values: Values
    size: int
    levels: int | None = None
    labels: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.shape or any(length < 1 for length in self.shape):
            raise DataError(f"observations have shape {self.shape}: every axis needs at least one element")
        if self.size < 1:
            raise DataError("the data set is empty: there is nothing to learn from")

    @property
    def is_image(self) -> bool:
        return len(self.shape) == 3

    @property
    def is_clip(self) -> bool:
        return len(self.shape) == 4

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> DataSpec:
        return cls(**{**values, "shape": tuple(values["shape"])})
