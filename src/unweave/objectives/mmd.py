r"""Maximum mean discrepancy between codes and prior samples (InfoVAE, Zhao et al. 2017; Gretton et al. 2012, eq. 3).

    MMD^2 = E k(z, z') + E k(p, p') - 2 E k(z, p)          z, z' ~ q(z);  p, p' ~ p(z)

stands in for KL(q(z) || p(z)), term (4), and needs samples only. It has no unit; 0 if and only if q(z) = p(z).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from unweave.base.errors import ConfigError, ShapeError
from unweave.objectives.marginals import gather_rows

Kernel = Literal["rbf", "imq"]


def mmd(
    samples: Tensor,
    prior_samples: Tensor,
    kernel: Kernel = "rbf",
    bandwidth: float | None = None,
    unbiased: bool = True,
) -> Tensor:
    """Scalar: estimate of the squared maximum mean discrepancy.

    samples:       (B, D) codes drawn from q(z|x), one per observation
    prior_samples: (M, D) draws from p(z), M often B
    kernel:        "rbf", k = exp(-|z - z'|^2 / h); "imq", k = h / (h + |z - z'|^2), with heavier tails, so that codes
                   far from the prior still feel a pull
    bandwidth:     h; 2 D when None, the mean squared distance of two draws from N(0, I), so that k is neither nearly 0
                   nor nearly 1 for typical pairs in any dimension (code for InfoVAE often has h = D^2)
    unbiased:      leave out each sample's pair with itself: right on average, and sometimes below 0. With False the
                   value is never negative and too large, by about 2 (1 - E k) / B when q(z) = p(z)

    Under several processes the samples of all of them are compared.
    """
    if samples.dim() != 2 or prior_samples.dim() != 2 or samples.shape[1] != prior_samples.shape[1]:
        raise ShapeError(
            f"samples have shape {tuple(samples.shape)}, prior samples {tuple(prior_samples.shape)}: expected (B, D) "
            "and (M, D) with equal D; flatten blocks first"
        )
    if kernel not in ("rbf", "imq"):
        raise ConfigError(f"unknown kernel {kernel!r}: choose 'rbf' or 'imq'")
    if bandwidth is not None and bandwidth <= 0:
        raise ConfigError(f"bandwidth is {bandwidth}: expected a positive squared distance, or None for 2 D")
    samples, prior_samples = gather_rows(samples), gather_rows(prior_samples)
    if unbiased and min(len(samples), len(prior_samples)) < 2:
        raise ShapeError("the unbiased estimate compares pairs: give at least two samples of each, or unbiased=False")
    h = 2.0 * samples.shape[1] if bandwidth is None else bandwidth

    def k(a: Tensor, b: Tensor) -> Tensor:
        distance = _squared_distances(a, b)
        return (-distance / h).exp() if kernel == "rbf" else h / (h + distance)

    def mean_of_pairs(table: Tensor) -> Tensor:
        count = len(table)
        return (table.sum() - table.diagonal().sum()) / (count * (count - 1)) if unbiased else table.mean()

    within = mean_of_pairs(k(samples, samples)) + mean_of_pairs(k(prior_samples, prior_samples))
    return within - 2 * k(samples, prior_samples).mean()


def _squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """(A, B) squared distances between rows; the clamp takes away what rounding puts below zero."""
    squares = a.square().sum(-1, keepdim=True) + b.square().sum(-1)
    return torch.addmm(squares, a, b.T, alpha=-2).clamp(min=0)
