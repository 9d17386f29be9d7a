r"""Total correlation from a discriminator (FactorVAE, Kim & Mnih 2018): an objective for two players.

A discriminator with two outputs per code tells codes of q(z) from codes of prod_j q(z_j). At its optimum the difference
of the outputs is the log-ratio of the two densities, whose mean is the total correlation (eq. 5 of the workshop
version):

    TC(z) = E_q(z) log [q(z) / prod_j q(z_j)] ~ E_q(z) log [D(z) / (1 - D(z))]

Samples of prod_j q(z_j) come from `permute_dims`. The encoder minimises `density_ratio_tc`, the discriminator minimises
`discriminator_cost`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from unweave.base.errors import ShapeError


def permute_dims(z: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """(B, D) codes whose dimensions are each shuffled over the batch, independently (Kim & Mnih 2018, Algorithm 1).

    Column j of the result is a permutation of column j of z, so every marginal q(z_j) stays and their dependence goes.
    Draw z from another batch than the one scored as joint, as Algorithm 2 does, and detach it: the discriminator's
    cost is no business of the encoder's.

    z:         (B, D) codes
    generator: source of the shuffles; PyTorch's default when None
    """
    if z.dim() != 2:
        raise ShapeError(f"codes have shape {tuple(z.shape)}: expected (batch, dimensions); flatten blocks first")
    order = torch.rand(z.shape, generator=generator, device=z.device).argsort(dim=0)
    return z.gather(0, order)


def density_ratio_tc(logits: Tensor) -> Tensor:
    """(B,) or (S, B): log D(z) - log(1 - D(z)), whose mean estimates the total correlation.

    logits: (B, 2) or (S, B, 2) outputs of the discriminator on codes of q(z): column 0 for joint, column 1 for product
    """
    _check_logits(logits)
    return logits[..., 0] - logits[..., 1]


def discriminator_cost(joint_logits: Tensor, permuted_logits: Tensor) -> Tensor:
    """(B,): cross-entropy -1/2 [log D(z) + log(1 - D(z'))] of codes z and permuted codes z' (Algorithm 2).

    joint_logits:    (B, 2) outputs on codes of q(z)
    permuted_logits: (B, 2) outputs on permuted codes

    log 2 when the discriminator cannot tell them apart.
    """
    _check_logits(joint_logits)
    _check_logits(permuted_logits)
    if joint_logits.shape != permuted_logits.shape:
        raise ShapeError(
            f"joint logits have shape {tuple(joint_logits.shape)}, permuted ones {tuple(permuted_logits.shape)}: "
            "give the discriminator batches of one size"
        )
    joint, product = log_softmax(joint_logits, -1)[..., 0], log_softmax(permuted_logits, -1)[..., 1]
    return -(joint + product) / 2


def _check_logits(logits: Tensor) -> None:
    if logits.dim() < 2 or logits.shape[-1] != 2:
        raise ShapeError(f"logits have shape {tuple(logits.shape)}: expected two per code, (batch, 2)")
