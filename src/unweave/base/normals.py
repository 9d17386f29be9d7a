"""Accumulating evidence: what several normal posteriors of one quantity say together. Arrays only, no torch.

`unweave.objectives.groups` has the same for tensors in training.
"""

from __future__ import annotations

import numpy as np


def product_of_normals(means: np.ndarray, spreads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the normalised product of n normal densities (Bouchacourt et al. 2018, eq. 7).

        1 / s^2 = sum_i 1 / s_i^2        m / s^2 = sum_i m_i / s_i^2

    means, spreads: (..., n, D); members along the last axis but one. The results are (..., D).
    Where a member's spread is NaN (a posterior without one) all members count alike: the mean is the plain average and
    the spread NaN. A whole axis of members may be as certain or uncertain as it likes: precisions are taken relative
    to the greatest.
    """
    means, spreads = np.asarray(means, dtype=np.float64), np.asarray(spreads, dtype=np.float64)
    log_precision = -2 * np.log(spreads)
    greatest = log_precision.max(axis=-2, keepdims=True)
    unknown = np.isnan(greatest)
    weight = np.where(unknown, 1.0, np.exp(log_precision - greatest))
    total = weight.sum(axis=-2)
    mean = (weight * means).sum(axis=-2) / total
    spread = np.exp(-(greatest[..., 0, :] + np.log(total)) / 2)
    return mean, np.where(unknown[..., 0, :], np.nan, spread)
