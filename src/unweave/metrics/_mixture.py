"""The density of a mixture of N Gaussians in one dimension, exact over all N, on a grid.

q(z) = 1/N sum_n N(z; m_n, s_n) is a sum over spreads of (histogram of means) * (Gaussian of that spread), and each
convolution is a product of Fourier transforms. The cost is that of one transform per distinct spread, not N per point.
Means are put on the grid points, and logarithms of variances on the rungs of a ladder, with the weights of cubic
interpolation: a component between grid points and rungs becomes a sum over the 4 x 4 around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

REACH = 8.0  # standard deviations beyond the outermost means; what lies further is below rounding
POINTS_PER_SPREAD = 6  # of the narrowest component
MOST_POINTS = 2**18
RUNG = 1.2  # ratio of neighbouring variances
POINTS_AT_ONCE = 4096  # of an interpolation, so that its steps stay near the processor


@dataclass(frozen=True)
class Mixture:
    """density (M,) of q at low, low + step, ..."""

    low: float
    step: float
    density: np.ndarray

    @property
    def entropy(self) -> float:
        """H(q) = -integral of q log q, in nats."""
        return float(-self.step * (self.density * self._log).sum())

    def log(self, points: np.ndarray) -> np.ndarray:
        """log q at any points between the ends of the grid, by cubic interpolation."""
        flat, known = np.ravel(points), self._log
        values = np.zeros(len(flat))
        for first in range(0, len(flat), POINTS_AT_ONCE):
            part = slice(first, first + POINTS_AT_ONCE)
            start, weights = _cubic(flat[part], self.low, self.step)
            for j, weight in enumerate(weights):
                values[part] += weight * known[start + j]
        return values.reshape(np.shape(points))

    @cached_property
    def _log(self) -> np.ndarray:
        # The transform's rounding leaves about 1e-17 where the density is zero.
        return np.log(np.maximum(self.density, self.density.max() * 1e-18))


def least_spread(means: np.ndarray, spreads: np.ndarray) -> float:
    """The narrowest component the grid can resolve: about 1/44,000 of the range of the mixture."""
    low, high = (means - REACH * spreads).min(), (means + REACH * spreads).max()
    return float((high - low) / (MOST_POINTS - 8) * POINTS_PER_SPREAD)


def mixture(means: np.ndarray, spreads: np.ndarray) -> Mixture:
    """q(z) = 1/N sum_n N(z; m_n, s_n) from (N,) means and (N,) spreads of at least `least_spread`."""
    from scipy import fft

    step = float(spreads.min()) / POINTS_PER_SPREAD
    low = float((means - REACH * spreads).min()) - 2 * step
    points = int(np.ceil(((means + REACH * spreads).max() - low) / step)) + 3
    points = fft.next_fast_len(points, real=True)
    cell, cell_weights = _cubic(means, low, step)
    least, rung = 2 * np.log(spreads.min()), np.log(RUNG)
    level, level_weights = _cubic(2 * np.log(spreads), least, rung)
    order = np.argsort(level, kind="stable")
    cells = np.stack([cell + j for j in range(4)])[:, order]
    weights = np.stack(cell_weights)[:, order]
    shares = np.stack(level_weights)[:, order]
    first, last = int(level.min()), int(level.max()) + 3
    ends = np.searchsorted(level[order], np.arange(first, last + 2))

    frequency = 2 * np.pi * fft.rfftfreq(points, step)
    transform = np.zeros(len(frequency), dtype=np.complex128)
    waiting = np.zeros((4, points))  # histograms of this rung and the next three
    for number, start in enumerate(ends[:-1]):
        here = slice(start, ends[number + 1])
        if start < ends[number + 1]:
            for j in range(4):
                deposit = (weights[:, here] * shares[j, here]).ravel()
                waiting[j] += np.bincount(cells[:, here].ravel(), deposit, minlength=points)
        variance = np.exp(least + (first + number) * rung)
        if waiting[0].any():
            transform += fft.rfft(waiting[0]) * np.exp(-0.5 * variance * frequency**2)
        waiting = np.concatenate([waiting[1:], np.zeros((1, points))])
    density = fft.irfft(transform, points) / (len(means) * step)
    return Mixture(low, step, np.maximum(density, 0.0))


def _cubic(points: np.ndarray, low: float, step: float) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """First of the four grid points around each point, and the weights of the cubic through them (Lagrange)."""
    place = (points - low) / step
    base = np.floor(place)
    t = place - base
    weights = (
        -t * (t - 1) * (t - 2) / 6,
        (t + 1) * (t - 1) * (t - 2) / 2,
        -(t + 1) * t * (t - 2) / 2,
        (t + 1) * t * (t - 1) / 6,
    )
    return base.astype(np.int64) - 1, weights
