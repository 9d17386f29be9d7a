"""Controlled capacity: hold the KL at a target that grows during training (Burgess et al. 2018)."""

from __future__ import annotations

from torch import Tensor

from unweave.base.errors import ConfigError, ShapeError
from unweave.objectives.marginals import gather_rows


def capacity_gap(kl: Tensor, target: float, per_example: bool = False) -> Tensor:
    """|KL(q(z|x) || p(z)) - C|, the cost that gamma weighs in eq. 8.

    The KL is that of the data on average, so the mean is taken first: a scalar, a statistic of the batch (of all
    processes together). Single examples may then take more or fewer nats than C. With `per_example` each example is
    held at C on its own, which is stricter: by Jensen's inequality its mean is never below the scalar.

    kl:     (B,) or (S, B) nats, from `unweave.objectives.elbo.kl`
    target: C in nats; the paper raises it linearly from 0 to 25 (dSprites) with gamma = 1000 (sec. A.2)

    Returns a scalar, or (B,) with `per_example`.
    """
    if kl.dim() not in (1, 2):
        raise ShapeError(f"the KL has shape {tuple(kl.shape)}: expected one number per example, (B,) or (S, B)")
    if target < 0:
        raise ConfigError(f"the capacity is {target}: a KL is never negative, give a target of 0 or more")
    examples = kl.mean(0) if kl.dim() == 2 else kl
    if per_example:
        return (examples - target).abs()
    return (gather_rows(examples.mean(0, keepdim=True)).mean() - target).abs()
