"""Settings of which some may be left to the data: `auto` is chosen for the shape and the range of an observation."""

from __future__ import annotations

from typing import TypeVar

from unweave.base.config import Config
from unweave.core.dataspec import DataSpec

F = TypeVar("F", bound="Fitted")


class Fitted(Config):
    """Settings with fields that are `auto`, or with such settings within."""

    def fitted(self: F, spec: DataSpec) -> F:
        """These settings with all that is `auto` chosen for the data; what was said by hand stays.

        Settings with such fields of their own say what they choose; here those within them are asked.
        """
        return self.model_copy(update={name: value.fitted(spec) for name, value in self if isinstance(value, Fitted)})
