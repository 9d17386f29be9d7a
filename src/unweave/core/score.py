"""The result of a score: a value, its parts, an interval, and every choice that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Score:
    """A score of a representation.

    name:             registry name of the score, e.g. "mig"
    value:            the headline number
    interval:         (low, high) 95 % interval of the value, or None where it has none
    parts:            named pieces, numbers or arrays (per factor, per dimension, importance matrices)
    settings:         the estimator's choices (bins, repeats, seed, factors used); they travel with the number
    higher_is_better: True, False, or None where neither direction is better
    """

    name: str
    value: float
    interval: tuple[float, float] | None = None
    parts: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    higher_is_better: bool | None = True

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.name} {self.value:.3f}"
        return f"{self.name} {self.value:.3f} [{self.interval[0]:.3f}, {self.interval[1]:.3f}]"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and strings, for JSON."""
        return {
            "name": self.name,
            "value": _plain(self.value),
            "interval": _plain(self.interval),
            "parts": _plain(self.parts),
            "settings": _plain(self.settings),
            "higher_is_better": self.higher_is_better,
        }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None  # JSON has no NaN; a missing number is null
    return value
