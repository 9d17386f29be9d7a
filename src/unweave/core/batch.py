"""Batches: what a system sees at one step. A typed object, never a bare tuple."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unweave.core.trace import Given


@dataclass(frozen=True)
class Batch:
    """B observations with whatever is known of them; a field is None (or empty) when the data lack it.

    rows:    B
    x:       (B, *shape) observations; None when only context for generation is given
    index:   (B,) row numbers in the data set
    labels:  name -> value and mask: known variables, example by example
    group:   (B,) which group of this batch an observation belongs to: 0 .. G - 1
    actions: (B, T, A) actions taken between the frames of a clip
    lengths: (B,) number of valid steps of a clip or sentence
    domain:  (B,) which corpus or data set an observation comes from
    extra:   further, independent batches by name (a second draw, a second data set)
    """

    rows: int
    x: Tensor | None = None
    index: Tensor | None = None
    labels: Mapping[str, Given] = field(default_factory=dict)
    group: Tensor | None = None
    actions: Tensor | None = None
    lengths: Tensor | None = None
    domain: Tensor | None = None
    extra: Mapping[str, Batch] = field(default_factory=dict)

    @staticmethod
    def of(x: Tensor, **fields: Tensor) -> Batch:
        """A batch of observations."""
        return Batch(rows=len(x), x=x, **fields)  # type: ignore[arg-type]

    def take(self, rows: Tensor) -> Batch:
        """The given rows of the batch, by number or by a (B,) mask; `extra` batches stay as they are."""

        def part(value: Tensor | None) -> Tensor | None:
            return None if value is None else value[rows]

        chosen = int(rows.sum()) if rows.dtype == torch.bool else len(rows)
        labels = {
            name: Given(given.value[rows], part(given.mask), given.reused, given.enumerated)
            for name, given in self.labels.items()
        }
        return Batch(
            rows=chosen,
            x=part(self.x),
            index=part(self.index),
            labels=labels,
            group=part(self.group),
            actions=part(self.actions),
            lengths=part(self.lengths),
            domain=part(self.domain),
            extra=self.extra,
        )

    @property
    def observations(self) -> Tensor:
        """`x`, for programs that need it; an error says so when the batch has none."""
        if self.x is None:
            raise ValueError("this batch has no observations: it only carries context for generation")
        return self.x

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""

        def move(value: Tensor | None) -> Tensor | None:
            return None if value is None else value.to(device)

        labels = {
            name: Given(given.value.to(device), move(given.mask), given.reused, given.enumerated)
            for name, given in self.labels.items()
        }
        return Batch(
            rows=self.rows,
            x=move(self.x),
            index=move(self.index),
            labels=labels,
            group=move(self.group),
            actions=move(self.actions),
            lengths=move(self.lengths),
            domain=move(self.domain),
            extra={name: batch.to(device) for name, batch in self.extra.items()},
        )
