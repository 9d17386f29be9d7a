"""Posteriors q(z|x_n) of N observations as arrays: Gaussian dimensions and categories, from `Codes` or from arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.base.errors import MetricError
from unweave.core.codes import Codes
from unweave.metrics._inputs import check_codes
from unweave.metrics._mixture import least_spread

# Probabilities in single precision sum to 1 within this.
ROUNDING = 1e-4


@dataclass(frozen=True)
class Posterior:
    """q(z|x_n) = prod_d N(z_d; means_nd, spreads_nd) prod_v Categorical(c_v; probabilities_vn): independent given x_n.

    names:      G names of the Gaussian dimensions
    means:      (N, G)
    spreads:    (N, G) standard deviations, above 0
    categories: name of each categorical variable and its (N, C) probabilities
    left_out:   blocks without a posterior (a real block without spreads, discrete values)
    widened:    how many spreads were below what a grid resolves (1/44,000 of the dimension's range) and raised to it.
                That adds noise to z_d, so I(x; z_d) and TC can only become less, and only near their limit log N
    """

    names: tuple[str, ...]
    means: np.ndarray
    spreads: np.ndarray
    categories: tuple[tuple[str, np.ndarray], ...] = ()
    left_out: tuple[str, ...] = ()
    widened: int = 0

    @property
    def rows(self) -> int:
        return len(self.means)

    @property
    def variables(self) -> tuple[str, ...]:
        """All names, Gaussian dimensions first."""
        return (*self.names, *(name for name, _ in self.categories))

    def take(self, rows: np.ndarray) -> Posterior:
        categories = tuple((name, probabilities[rows]) for name, probabilities in self.categories)
        return Posterior(self.names, self.means[rows], self.spreads[rows], categories, self.left_out, self.widened)


def check_posterior(codes: Any, spreads: Any = None) -> Posterior:
    """The posteriors in `Codes`, or of arrays of means and spreads (N, D)."""
    means, names = check_codes(codes)
    if spreads is None and not isinstance(codes, Codes):
        raise MetricError("there are no spreads: give the standard deviations of q(z|x) as spreads=, one for each code")
    given = spreads is not None
    spreads = np.asarray(spreads if given else codes.flat_spread(), dtype=np.float64)
    if given and spreads.ndim == 1:
        spreads = spreads[:, None]
    if spreads.shape != means.shape:
        raise MetricError(
            f"spreads have shape {spreads.shape} and codes {means.shape}: expected one spread for each code"
        )
    gaussian, categories, left_out = np.ones(means.shape[1], dtype=bool), [], []
    if isinstance(codes, Codes):
        start = 0
        for block in codes.blocks:
            columns = slice(start, start + block.size)
            start += block.size
            if block.kind == "simplex":
                gaussian[columns] = False
                categories += _categories(block.name, np.asarray(codes[block.name], dtype=np.float64))
            elif block.kind == "discrete" or np.isnan(spreads[:, columns]).all():
                gaussian[columns] = False
                left_out.append(block.name)
    means, spreads = means[:, gaussian], spreads[:, gaussian]
    names = tuple(name for name, kept in zip(names, gaussian, strict=True) if kept)
    if not names and not categories:
        raise MetricError("no block has a posterior: expected spreads of a real block, or a simplex block")
    if not (np.isfinite(spreads) & (spreads > 0)).all():
        row, column = np.argwhere(~(np.isfinite(spreads) & (spreads > 0)))[0]
        raise MetricError(f"the spread at row {row} of {names[column]} is {spreads[row, column]:g}: expected above 0")
    least = np.array([least_spread(mean, spread) for mean, spread in zip(means.T, spreads.T, strict=True)])
    widened = int((spreads < least).sum())
    return Posterior(names, means, np.maximum(spreads, least), tuple(categories), tuple(left_out), widened)


def _categories(name: str, probabilities: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """One categorical variable for each vector of probabilities (N, ..., C) in a simplex block."""
    sums = probabilities.sum(axis=-1, keepdims=True)
    if (probabilities < 0).any() or (np.abs(sums - 1) > ROUNDING).any():
        raise MetricError(f"block {name!r} is not on the simplex: expected probabilities that sum to 1 in each row")
    probabilities = probabilities / sums
    if probabilities.ndim == 2:
        return [(name, probabilities)]
    places = list(np.ndindex(*probabilities.shape[1:-1]))
    return [(f"{name}[{','.join(map(str, place))}]", probabilities[(slice(None), *place)]) for place in places]
