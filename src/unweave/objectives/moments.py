r"""Moment matching: pull the covariance of q(z) towards the identity (DIP-VAE, Kumar et al. 2018).

By the law of total covariance (eq. 4),

    Cov_q(z)[z] = Cov_x[mu(x)] + E_x[diag sigma^2(x)]

    DIP-VAE I   matches Cov_x[mu(x)]    the first part alone (eq. 5)
    DIP-VAE II  matches Cov_q(z)[z]     both parts

    penalty = lambda_od sum_{i != j} C_ij^2 + lambda_d sum_i (C_ii - 1)^2

for C either of the two. `RunningCovariance` estimates C, `dip_penalty` gives the two sums, unweighted.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unweave.base.errors import ConfigError, ShapeError
from unweave.objectives.marginals import gather_rows


class RunningCovariance(nn.Module):
    r"""Covariance of codes over the data, as a running estimate over batches.

    With weight w for the batch and 1 - w for all that came before,

        C <- (1 - w) C + w C_batch + w (1 - w) (m_batch - m) (m_batch - m)^T,      m <- (1 - w) m + w m_batch

    the exact covariance of the two pooled. w is (1 - momentum) / (1 - momentum^t) at the t-th batch, so that the first
    batch counts fully and no start value leaks in. The past is a constant: the gradient flows through the batch alone
    and is about 1 - momentum times that of the batch's own covariance.

    A batch estimates C with an error of order 1 / sqrt(B) in each entry, which the penalty squares and adds:
    independent codes of unit variance show sum_{i != j} C_ij^2 of about D (D - 1) / B, not 0. With D >= B the batch's
    covariance has no full rank and cannot be the identity at all. A momentum m cuts this floor by (1 - m) / (1 + m), at
    a price: C then describes the encoder as it was over the last 1 / (1 - m) batches or so.

    dims:     D
    momentum: share of the past, in [0, 1); 0 uses the batch alone, whose variances are then (B - 1) / B too small
    """

    def __init__(self, dims: int, momentum: float):
        super().__init__()
        if not 0 <= momentum < 1:
            raise ConfigError(f"momentum is {momentum}: expected at least 0 (the batch alone) and less than 1")
        self.dims, self.momentum = dims, momentum
        self.mean: Tensor
        self.covariance: Tensor
        self.batches: Tensor
        self.register_buffer("mean", torch.zeros(dims))
        self.register_buffer("covariance", torch.zeros(dims, dims))
        self.register_buffer("batches", torch.zeros((), dtype=torch.long))

    def forward(self, means: Tensor, stds: Tensor | None = None) -> Tensor:
        """(D, D) covariance with this batch included; the buffers move in training mode only.

        means: (B, D) posterior means mu(x)
        stds:  (B, D) posterior standard deviations sigma(x) for DIP-VAE II; None for DIP-VAE I
        """
        if means.dim() != 2 or means.shape[1] != self.dims:
            raise ShapeError(
                f"means have shape {tuple(means.shape)}: expected (batch, {self.dims}); flatten blocks first"
            )
        if stds is not None and stds.shape != means.shape:
            raise ShapeError(f"stds have shape {tuple(stds.shape)}: expected that of the means, {tuple(means.shape)}")
        means = gather_rows(means)
        centred = means - means.mean(0)
        batch = centred.T @ centred / len(means)
        if stds is not None:
            batch = batch + gather_rows(stds).square().mean(0).diag()
        t = int(self.batches) + 1
        weight = (1 - self.momentum) / (1 - self.momentum**t)
        shift = means.mean(0) - self.mean
        covariance = (1 - weight) * self.covariance + weight * batch + weight * (1 - weight) * torch.outer(shift, shift)
        if self.training:
            # New tensors rather than writes in place: the graph of this step still refers to the old ones.
            self.mean = (self.mean + weight * shift).detach()
            self.covariance = covariance.detach()
            self.batches = self.batches + 1
        return covariance


def dip_penalty(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Two scalars: sum of squared off-diagonal entries, and sum of squared differences of the diagonal from 1.

    Statistics of the batch, not nats. The paper's lambda_od weighs the first, lambda_d the second (eq. 5).
    """
    diagonal = covariance.diagonal()
    off_diagonal = covariance - torch.diag(diagonal)
    return off_diagonal.square().sum(), (diagonal - 1).square().sum()
