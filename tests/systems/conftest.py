"""Small systems in double precision, and the slow, obvious twins their objectives are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.core.system import SYSTEMS, System
from unweave.core.terms import Terms

SPEC = DataSpec(shape=(5,), values="real", size=40)
SMALL = {"nets.hidden": [7], "nets.activation": "tanh", "training.batch_size": 6}


@dataclass
class Pass:
    """One pass through a one-block system by hand: x (B, 5), z, mean, std (B, D), decoded (B, 5)."""

    x: Tensor
    z: Tensor
    mean: Tensor
    std: Tensor
    decoded: Tensor

    @property
    def rows(self) -> int:
        return len(self.x)

    @property
    def dims(self) -> int:
        return self.z.shape[1]

    def log_likelihood(self, b: int) -> float:
        """log p(x^b | z^b), normal with standard deviation 1."""
        return sum(log_normal(float(x), float(m), 1.0) for x, m in zip(self.x[b], self.decoded[b], strict=True))

    def log_prior(self, b: int) -> float:
        return sum(log_normal(float(z), 0.0, 1.0) for z in self.z[b])

    def log_posterior(self, b: int, of: int, dims: Any = None) -> float:
        """log q(z^b | x^of), of some dimensions only if they are given."""
        chosen = range(self.dims) if dims is None else dims
        return sum(log_normal(float(self.z[b, d]), float(self.mean[of, d]), float(self.std[of, d])) for d in chosen)

    def log_marginal(self, b: int, dims: Any = None, estimator: str = "stratified", size: int = SPEC.size) -> float:
        """log q(z^b) of some dimensions, as a sum over the batch with the weights written out."""
        total = 0.0
        for other in range(self.rows):
            if estimator == "weighted":
                weight = 1 / (size * self.rows)
            else:
                weight = 1 / size if other == b else (size - 1) / (size * (self.rows - 1))
            total += weight * math.exp(self.log_posterior(b, other, dims))
        return math.log(total)

    def mean_of(self, value: Callable[[int], float]) -> float:
        """The batch mean of a function of the row."""
        return sum(value(b) for b in range(self.rows)) / self.rows


def log_normal(z: float, mean: float, std: float) -> float:
    return -0.5 * math.log(2 * math.pi) - math.log(std) - 0.5 * ((z - mean) / std) ** 2


class Bench:
    """Builds tiny systems and runs them with known noise."""

    spec = SPEC
    log_normal = staticmethod(log_normal)

    def system(self, name: str, settings: dict[str, Any] | None = None, seed: int = 0) -> Any:
        """A system in double precision whose codes say something: the heads' weights are made four times larger."""
        torch.manual_seed(seed)
        cls: type[System] = SYSTEMS[name]
        latent = {} if name == "hfvae" else {"latent": 3}
        system = cls(cls.config_class().override({**SMALL, **latent, **(settings or {})}), SPEC).double()
        with torch.no_grad():
            for parameter_name, parameter in system.named_parameters():
                if "head" in parameter_name:
                    parameter.mul_(4.0)
        return system

    def batch(self, seed: int = 0, rows: int = 6, second: bool = False) -> Batch:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(rows, *SPEC.shape, generator=generator, dtype=torch.float64)
        extra = {"second": self.batch(seed + 100, rows)} if second else {}
        return Batch(rows=rows, x=x, extra=extra)

    def objective(
        self, system: System, batch: Batch | None = None, player: str = "model", step: int = 0, noise: int = 1
    ) -> Terms:
        torch.manual_seed(noise)
        return system.objective(player, self.batch() if batch is None else batch, step)

    def by_hand(self, system: Any, batch: Batch | None = None, noise: int = 1) -> Pass:
        """The pass that `objective` makes with the same noise, through the layers one by one."""
        x = (self.batch() if batch is None else batch).observations
        with torch.no_grad():
            mean, log_variance = system.networks.head.linear(system.networks.encoder(x)).chunk(2, -1)
            torch.manual_seed(noise)
            z = system.posterior(Batch.of(x))["z"]
            return Pass(x, z, mean, torch.exp(log_variance / 2), system.networks.decoder(z))

    def share(self, source: Any, target: Any) -> None:
        """Give the networks of one one-block system to another."""
        target.networks.load_state_dict(source.networks.state_dict())


@pytest.fixture
def bench() -> Bench:
    return Bench()
