"""Correlated Gaussian vectors whose total correlation and mutual information are known exactly, for tests and docs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, model_validator

from unweave.base.card import Card
from unweave.base.errors import ConfigError, DataError
from unweave.core.dataspec import DataSpec
from unweave.core.factors import FactorKind, Factors
from unweave.data._dataset import DataSet, DataSource


class Gaussians(DataSource):
    """x = R s: D independent standard normal sources s mixed by the symmetric square root R of the covariance of x.

    The covariance has ones on the diagonal and rho elsewhere, so that (with D = dims)

        TC(x) = -((D - 1) log(1 - rho) + log(1 + (D - 1) rho)) / 2   nats

    `true_total_correlation` and `true_mutual_information` give the same and the information between any two parts.
    """

    name: ClassVar[str] = "gaussians"
    card: ClassVar[Card] = Card(
        summary="correlated Gaussian vectors with known total correlation and mutual information",
        paper="Cover, Thomas: Elements of Information Theory, 2nd edition, 2006, chapter 8",
        bibtex="""@book{cover2006elements,
  author    = {Cover, Thomas M. and Thomas, Joy A.},
  title     = {Elements of Information Theory},
  edition   = {2},
  publisher = {Wiley},
  year      = {2006},
}""",
        needs="nothing",
    )

    dims: Annotated[int, Field(ge=1, le=10_000)] = 5
    """Dimensions D of the observations and number of sources."""
    rho: Annotated[float, Field(lt=1, gt=-1)] = 0.5
    """Correlation of every pair of dimensions; above -1 / (D - 1), else no such vectors exist."""
    size: Annotated[int, Field(ge=1)] = 10_000
    """How many vectors to draw."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the draws."""

    @model_validator(mode="after")
    def _exists(self) -> Gaussians:
        if self.dims > 1 and self.rho <= -1 / (self.dims - 1):
            raise ConfigError(
                f"setting 'rho' of Gaussians is {self.rho}: {self.dims} dimensions can all be correlated by "
                f"more than {-1 / (self.dims - 1):.4g} only"
            )
        return self

    def covariance(self) -> np.ndarray:
        """(D, D) covariance of the observations x."""
        return np.full((self.dims, self.dims), self.rho) + (1 - self.rho) * np.eye(self.dims)

    def mixing(self) -> np.ndarray:
        """(D, D) symmetric square root R of the covariance; also the covariance of x with the sources s."""
        values, vectors = np.linalg.eigh(self.covariance())
        return (vectors * np.sqrt(values)) @ vectors.T

    def joint_covariance(self) -> np.ndarray:
        """(2D, 2D) covariance of the pair (x, s). It is singular: all of x is known from all of s."""
        root = self.mixing()
        return np.block([[self.covariance(), root], [root, np.eye(self.dims)]])

    def load(self) -> DataSet:
        """The data set; factors are the sources s, one continuous column for each dimension."""
        sources = np.random.default_rng(self.seed).standard_normal((self.size, self.dims))
        observations = (sources @ self.mixing()).astype(np.float32)
        kind: FactorKind = "continuous"
        total = true_total_correlation(self.covariance())
        return DataSet(
            name=self.name,
            spec=DataSpec((self.dims,), "real", self.size),
            read=observations.__getitem__,
            factors=Factors(tuple(f"s{d}" for d in range(self.dims)), sources, (kind,) * self.dims),
            notes=(f"true total correlation {total:.4f} nats",),
        )


def true_total_correlation(covariance: np.ndarray) -> float:
    """TC(x) = sum_d H(x_d) - H(x) = (sum_d log C_dd - log det C) / 2 nats of a Gaussian with covariance C (D, D)."""
    covariance = _checked(covariance)
    return float(np.log(np.diag(covariance)).sum() - _log_det(covariance, "the covariance")) / 2


def true_mutual_information(covariance: np.ndarray, left: Sequence[int], right: Sequence[int]) -> float:
    """I(x_A; x_B) = (log det C_AA + log det C_BB - log det C_A+B) / 2 nats of a Gaussian with covariance C (D, D).

    left, right: the dimensions A and B; no dimension may be in both.
    """
    covariance = _checked(covariance)
    a, b = [_dimensions(part, len(covariance)) for part in (left, right)]
    if set(a) & set(b):
        raise DataError(f"dimension {min(set(a) & set(b))} is on both sides: its information with itself is infinite")
    return (
        _log_det(covariance[np.ix_(a, a)], "the left part")
        + _log_det(covariance[np.ix_(b, b)], "the right part")
        - _log_det(covariance[np.ix_(a + b, a + b)], "the covariance of both parts")
    ) / 2


def _checked(covariance: np.ndarray) -> np.ndarray:
    covariance = np.asarray(covariance, dtype=np.float64)
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1] or not covariance.size:
        raise DataError(f"a covariance has shape (D, D) with D of 1 or more: got {covariance.shape}")
    if not np.isfinite(covariance).all() or not np.allclose(covariance, covariance.T):
        raise DataError("the covariance is not finite and symmetric: C[i, j] and C[j, i] must be equal")
    return covariance


def _dimensions(part: Sequence[int], dims: int) -> list[int]:
    numbers = [int(d) for d in part]
    if not numbers or min(numbers) < 0 or max(numbers) >= dims or len(set(numbers)) < len(numbers):
        raise DataError(f"dimensions {numbers} do not name a part of {dims}: give different numbers 0 to {dims - 1}")
    return numbers


def _log_det(covariance: np.ndarray, what: str) -> float:
    """log det, where rounding must not turn a determinant of zero into a large finite number."""
    values = np.linalg.eigvalsh(covariance)
    if values[0] <= 1e-12 * values[-1]:
        raise DataError(
            f"{what} is not positive definite (smallest eigenvalue {values[0]:.2g}): "
            "some dimension is known from the others, and the information is infinite"
        )
    return float(np.log(values).sum())
