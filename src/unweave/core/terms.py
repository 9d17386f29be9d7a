"""Terms: the named costs whose weighted sum is the loss.

A term is a cost, unweighted, in nats per example, and its name says what it is. Weights are applied in one place,
`total`. The names that are logged are the names in the docs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from unweave.base.errors import ShapeError, TrainingError, unknown_name
from unweave.base.schedule import Schedule, at_step


class Terms(Mapping[str, Tensor]):
    """Named costs with their weights.

    costs:       name -> (B,) or (S, B) nats per example, or a scalar for a statistic of the whole batch
    weights:     name -> number or schedule; 1 where not named
    diagnostics: name -> scalar or (B,), logged beside the terms and not part of the loss
    """

    def __init__(
        self,
        costs: Mapping[str, Tensor],
        weights: Mapping[str, float | Schedule] | None = None,
        diagnostics: Mapping[str, Tensor] | None = None,
    ):
        for name, cost in costs.items():
            if cost.dim() > 2:
                raise ShapeError(
                    f"term {name!r} has shape {tuple(cost.shape)}: expected (B,) or (S, B) nats per example, or a "
                    "scalar batch statistic; sum over event axes first"
                )
        lengths = {cost.shape[-1] for cost in costs.values() if cost.dim()}
        if len(lengths) > 1:
            shapes = ", ".join(f"{name} {tuple(cost.shape)}" for name, cost in costs.items())
            raise ShapeError(
                f"terms have different numbers of examples ({shapes}): a cost of a group or a sequence goes to its "
                "members, so that each term has one value per example"
            )
        for name in weights or {}:
            if name not in costs:
                raise unknown_name("term", name, costs)
        self._costs = dict(costs)
        self._means: dict[str, Tensor] = {}
        self.weights = {name: (weights or {}).get(name, 1.0) for name in costs}
        self.diagnostics = dict(diagnostics or {})

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._costs:
            raise unknown_name("term", name, self._costs)
        return self._costs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._costs)

    def __len__(self) -> int:
        return len(self._costs)

    @property
    def batch_statistics(self) -> tuple[str, ...]:
        """Names of terms that belong to the batch as a whole and not to single examples."""
        return tuple(name for name, cost in self._costs.items() if cost.dim() == 0)

    def mean(self, name: str) -> Tensor:
        """Scalar: the term averaged over samples and batch, unweighted; computed once."""
        if name not in self._means:
            self._means[name] = self[name].mean()
        return self._means[name]

    def total(self, step: int = 0) -> Tensor:
        """Scalar loss: the sum of weight(step) times each term's batch mean. The only place weights are applied."""
        total: Tensor | None = None
        for name in self._costs:
            weight = at_step(self.weights[name], step)
            if weight == 0.0:
                continue  # a term switched off costs nothing and cannot poison the sum
            weighted = self.mean(name) if weight == 1.0 else weight * self.mean(name)
            total = weighted if total is None else total + weighted
        return torch.zeros(()) if total is None else total

    def logged(self, step: int = 0, total: Tensor | None = None) -> dict[str, Tensor]:
        """Scalars to log, detached: each term unweighted, the total (computed here unless given), then diagnostics."""
        record = {name: self.mean(name).detach() for name in self._costs}
        record["total"] = (self.total(step) if total is None else total).detach()
        for name, value in self.diagnostics.items():
            # Counts and yes-or-no are averaged as numbers.
            record[name] = value.detach().mean(dtype=value.dtype if value.is_floating_point() else torch.float32)
        return record

    def require_finite(self, step: int, player: str) -> None:
        """Raise an error that names the first term that is NaN or infinite."""
        for name in self._costs:
            if at_step(self.weights[name], step) != 0.0 and not torch.isfinite(self.mean(name)):
                raise TrainingError(
                    f"term {name!r} of player {player!r} became {self.mean(name).item()} at step {step}: "
                    "training stopped, the last good weights are kept; try a lower learning rate or gradient clipping"
                )
