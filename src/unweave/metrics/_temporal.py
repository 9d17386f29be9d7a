"""Mutual information between vectors from nearest neighbours; what factors of clips tell of each other's future.

    I(x; y) ~ psi(k) + psi(N) - 1/N sum_n [psi(n_x(n) + 1) + psi(n_y(n) + 1)]     (Kraskov et al. 2004, eq. 8)

psi is the digamma function. eps(n) is the distance from point n to its k-th nearest neighbour in the joint space, in
the maximum norm; n_x(n) counts the other points whose x is closer to x_n than eps(n), n_y(n) likewise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.base.errors import MetricError
from unweave.core.codes import Codes
from unweave.metrics._inputs import check_codes
from unweave.metrics._interval import generator

JITTER = 1e-10
"""Noise added to each column, as a share of its standard deviation: equal points would have no k-th neighbour."""


def kraskov(
    x: Any, y: Any, k: int = 3, *, standardise: bool = True, rng: int | np.random.Generator = 0, workers: int = 1
) -> float:
    """I(x; y) in nats, estimator 1 of Kraskov, Stoegbauer and Grassberger (2004), for vectors of any sizes.

    x, y:        (N, D) and (N, E) arrays of independent joint draws, (N,) for single numbers
    k:           neighbours; fewer give less bias and more variance
    standardise: divide each column by its standard deviation first; the norm compares columns with each other
    rng:         of the jitter that parts equal points, `JITTER` standard deviations
    workers:     threads of the neighbour search, -1 for all cores

    The estimate can be slightly negative near independence. It is too low where I is large for N: the nearest
    neighbours must be closer than the width of the dependence.
    """
    from scipy.spatial import cKDTree
    from scipy.special import digamma

    first, _ = check_codes(x)
    second, _ = check_codes(y)
    rows = len(first)
    if rows != len(second):
        raise MetricError(f"x has {rows} rows and y {len(second)}: both need one row per joint draw")
    if not 1 <= k < rows:
        raise MetricError(f"cannot take neighbour k={k} of {rows} rows: choose k from 1 to {rows - 1}")
    random, _ = generator(rng)
    first, second = _prepared(first, standardise, random), _prepared(second, standardise, random)
    joint = np.concatenate([first, second], axis=1)
    distance, _ = cKDTree(joint).query(joint, k=[k + 1], p=np.inf, workers=workers)  # the nearest point is itself
    # Strictly closer: the largest number below eps. Each count includes the point itself, and so is n + 1.
    radius = np.nextafter(distance[:, 0], 0)
    counts = [
        cKDTree(part).query_ball_point(part, radius, p=np.inf, return_length=True, workers=workers)
        for part in (first, second)
    ]
    return float(digamma(k) + digamma(rows) - sum(digamma(count).mean() for count in counts))


def _prepared(values: np.ndarray, standardise: bool, random: np.random.Generator) -> np.ndarray:
    """Columns around 0, of standard deviation 1 if wanted, with jitter; a constant column stays constant noise."""
    values = values - values.mean(axis=0)
    scale = values.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    noise = JITTER * random.normal(size=values.shape)
    return values / scale + noise if standardise else values + scale * noise


@dataclass(frozen=True)
class TemporalInformation:
    """How much the factors of clips tell of their own and of each other's next step.

    matrix:    (K, K) nats, [i, j] = I(z_{t+1}^i; z_t^j)
    partition: (K, d) which of the K d numbers belong to each factor
    rows:      number of transitions the estimates rest on
    """

    matrix: np.ndarray
    partition: np.ndarray
    rows: int

    @property
    def same(self) -> float:
        """Mean over i of I(z_{t+1}^i; z_t^i)."""
        return float(np.diag(self.matrix).mean())

    @property
    def cross(self) -> float:
        """Mean over i and j != i of I(z_{t+1}^i; z_t^j)."""
        return float(self.matrix[~np.eye(len(self.matrix), dtype=bool)].mean())

    @property
    def ratio(self) -> float:
        """same / cross; an estimate of cross-information below 0.001 nats counts as 0.001."""
        return self.same / max(self.cross, 1e-3)


def temporal_information(
    codes: Any,
    *,
    partitions: int = 0,
    k: int = 3,
    most: int = 5000,
    rng: int | np.random.Generator = 0,
    workers: int = 1,
) -> TemporalInformation:
    """I(z_{t+1}^i; z_t^j) for every pair of factors of clips, by `kraskov`.

    codes:      Codes whose blocks are factors with axes (time, dim), or an (N, T, K, d) array; draws from the
                posterior, since means that follow each other exactly have infinite information
    partitions: 0 takes the factors as they are. Otherwise the K d numbers are divided at random into K factors of d so
                many times, and the division with the greatest difference same - cross counts (Whitney and Fergus, 3.1)
    most:       most transitions to use. Each clip gives one, at a time drawn at random: two of one clip are not
                independent draws
    """
    z = _sequences(codes)
    random, _ = generator(rng)
    now, after = _transitions(z, most, random)
    factors, dims = z.shape[2:]
    if factors < 2:
        raise MetricError("the codes have one factor: cross-factor information needs two or more")
    numbers = np.arange(factors * dims).reshape(factors, dims)
    divisions = [random.permutation(numbers.ravel()).reshape(numbers.shape) for _ in range(partitions)] or [numbers]
    found = []
    for division in divisions:
        matrix = np.array(
            [[kraskov(after[:, i], now[:, j], k, rng=random, workers=workers) for j in division] for i in division]
        )
        found.append(TemporalInformation(matrix, division, len(now)))
    return max(found, key=lambda one: one.same - one.cross)


def temporal_correlation(codes: Any) -> np.ndarray:
    """(K d, K d) correlations of each number at t (rows) with each at t + 1 (columns), over all clips and steps.

    codes: as for `temporal_information`; a number that never changes has correlation 0
    """
    z = _sequences(codes)
    z = z.reshape(*z.shape[:2], -1)
    now, after = z[:, :-1].reshape(-1, z.shape[2]), z[:, 1:].reshape(-1, z.shape[2])
    now, after = now - now.mean(axis=0), after - after.mean(axis=0)
    scale = np.outer(now.std(axis=0), after.std(axis=0))
    return np.divide(now.T @ after / len(now), scale, out=np.zeros_like(scale), where=scale > 0)


def _sequences(codes: Any) -> np.ndarray:
    """(N, T, K, d) float64 from Codes of factors with a time axis, or from such an array; at least two steps."""
    if isinstance(codes, Codes):
        shapes = {block.shape for block in codes.blocks}
        if len(shapes) != 1 or any(block.axes != ("time", "dim") for block in codes.blocks):
            told = ", ".join(f"{block.name} {block.shape}" for block in codes.blocks)
            raise MetricError(f"codes have blocks {told}: expected factors of one shape with axes (time, dim)")
        z = np.stack([codes[block.name] for block in codes.blocks], axis=2).astype(np.float64)
    else:
        z = np.asarray(codes, dtype=np.float64)
    if z.ndim != 4 or z.shape[1] < 2 or z.size == 0:
        raise MetricError(f"codes have shape {z.shape}: expected (clips, steps, factors, dims) with two steps or more")
    return z


def _transitions(z: np.ndarray, most: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(M, K d) numbers at t and at t + 1, one transition of each clip, of at most `most` clips."""
    clips = random.permutation(len(z))[:most]
    times = random.integers(z.shape[1] - 1, size=len(clips))
    return z[clips, times].reshape(len(clips), -1), z[clips, times + 1].reshape(len(clips), -1)
