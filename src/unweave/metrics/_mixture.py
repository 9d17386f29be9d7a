"""The density of a mixture of N Gaussians in one dimension, exact over all N, on a grid.

q(z) = 1/N sum_n N(z; m_n, s_n) is a sum over spreads of (histogram of means) * (Gaussian of that spread), and each
convolution is a product of Fourier transforms. The cost is that of one transform per distinct spread, not N per point.
Means are put on the grid with cubic weights, which keep the first four moments. Spreads are put on a ladder of
variances: between two rungs a component becomes a mixture of both with the same variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

REACH = 8.0  # standard deviations beyond the outermost means; what lies further is below rounding
POINTS_PER_SPREAD = 6  # of the narrowest component
MOST_POINTS = 2**18
RUNG = 1.2  # ratio of neighbouring variances


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
        start, weights = _cubic(np.ravel(points), self.low, self.step)
        values = np.zeros(np.size(points))
        for j, weight in enumerate(weights):
            values += weight * self._log[start + j]
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
    start, weights = _cubic(means, low, step)

    variances = _ladder(spreads)
    rung = np.clip(np.searchsorted(variances, spreads**2, side="right") - 1, 0, max(len(variances) - 2, 0))
    upper = (spreads**2 - variances[rung]) / (variances[rung + 1] - variances[rung]) if len(variances) > 1 else 0.0
    upper = np.broadcast_to(upper, spreads.shape)
    order = np.argsort(rung, kind="stable")
    ends = np.searchsorted(rung[order], np.arange(len(variances) + 1))

    frequency = 2 * np.pi * fft.rfftfreq(points, step)
    transform, carried = np.zeros(len(frequency), dtype=np.complex128), np.zeros(points)
    for level, variance in enumerate(variances):
        here = order[ends[level] : ends[level + 1]]
        cells = np.concatenate([start[here] + j for j in range(4)])
        shares = [np.concatenate([w[here] * part[here] for w in weights]) for part in (1 - upper, upper)]
        histogram = carried + np.bincount(cells, shares[0], minlength=points)
        carried = np.bincount(cells, shares[1], minlength=points).astype(np.float64)
        transform += fft.rfft(histogram) * np.exp(-0.5 * variance * frequency**2)
    density = fft.irfft(transform, points) / (len(means) * step)
    return Mixture(low, step, np.maximum(density, 0.0))


def _ladder(spreads: np.ndarray) -> np.ndarray:
    """Variances from the least to the greatest, at most a factor RUNG apart; a single one if all are equal."""
    least, most = float(spreads.min()) ** 2, float(spreads.max()) ** 2
    rungs = int(np.ceil(np.log(most / least) / np.log(RUNG)))
    return np.geomspace(least, most, rungs + 1) if rungs > 0 else np.array([least])


def _cubic(points: np.ndarray, low: float, step: float) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """First of four grid points around each point, and the four weights of the cubic through them (Lagrange)."""
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
