"""Groups: one posterior for all observations that share something (Bouchacourt, Tomioka and Nowozin 2018, section 3).

Every observation i of a group G gives a normal q(c|x_i). What the group says together is their normalised product,

    1 / s_G^2 = sum_i 1 / s_i^2        m_G / s_G^2 = sum_i m_i / s_i^2          (eqs. 6 and 7, dimension by dimension)

or, the alternative of the paper's supplement, their mixture q(c|X_G) = 1/|G| sum_i q(c|x_i).

A group is a number 0 .. G - 1 for each of B rows; sizes may differ. Distributions here have one row per observation,
as all else does: rows of one group have the same posterior, and `shared` ones the same draw too.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution, Independent, MixtureSameFamily, Normal

from unweave.base.errors import ShapeError
from unweave.core.distributions import Shape, normal


def group_sizes(group: Tensor) -> Tensor:
    """(G,) number of members of each group of (B,) group numbers; an error when a number below G has no member."""
    if group.dim() != 1 or group.is_floating_point() or not len(group):
        raise ShapeError(
            f"groups have shape {tuple(group.shape)} and type {group.dtype}: give one whole number per row, (B,)"
        )
    if int(group.min()) < 0:
        raise ShapeError(f"group number {int(group.min())} is negative: number the groups 0, 1, ...")
    sizes = torch.bincount(group)
    if not bool((sizes > 0).all()):
        raise ShapeError(f"group {int((sizes == 0).int().argmax())} has no member: number the groups 0, 1, ...")
    return sizes


def group_weights(group: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """(B,) weights B / (G |G_b|), with G groups and G_b the group of row b.

    A cost k_G that is repeated on the members of its group then has the batch mean 1/B sum_b w_b k_{G_b}, which is
    1/G sum_G k_G: the mean over groups, whatever their sizes.
    """
    sizes = group_sizes(group)
    return (len(group) / (len(sizes) * sizes.double()))[group].to(dtype or torch.get_default_dtype())


def product_of_normals(mean: Tensor, std: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each group's product of normals (eq. 7), both (..., G, D).

    mean, std: (..., B, D) posteriors of single observations
    group:     (B,) group numbers

    Precisions are taken relative to the greatest of the group, so that neither tiny variances nor large groups
    overflow, and means relative to the group's own, so that members that agree do not lose the digits they agree in.
    """
    sizes = group_sizes(group)
    if mean.shape != std.shape or mean.dim() < 2 or mean.shape[-2] != len(group):
        raise ShapeError(
            f"means {tuple(mean.shape)} and standard deviations {tuple(std.shape)} are not of {len(group)} rows: "
            "both need (..., B, D) with one group number per row"
        )
    shape = (*mean.shape[:-2], len(sizes), mean.shape[-1])
    log_precision = -2 * std.log()
    index = group[:, None].expand_as(mean)
    greatest = torch.full(shape, -math.inf, dtype=mean.dtype, device=mean.device)
    greatest = greatest.scatter_reduce(-2, index, log_precision.detach(), "amax")

    def summed(values: Tensor) -> Tensor:
        return torch.zeros(shape, dtype=mean.dtype, device=mean.device).index_add(-2, group, values)

    weight = (log_precision - greatest.index_select(-2, group)).exp()  # at most 1, and 1 for one member of each group
    total = summed(weight)
    with torch.no_grad():
        middle = summed(weight * mean) / total
    group_mean = middle + summed(weight * (mean - middle.index_select(-2, group))) / total
    return group_mean, torch.exp(-(greatest + total.log()) / 2)


def normal_parameters(posterior: Distribution) -> tuple[Tensor, Tensor]:
    """(..., B, D) mean and standard deviation of a factorised normal over D dimensions."""
    if not (
        isinstance(posterior, Independent)
        and isinstance(posterior.base_dist, Normal)
        and len(posterior.event_shape) == 1
    ):
        raise ShapeError(
            f"a group's evidence accumulates over normals with one event axis and this is a {type(posterior).__name__} "
            f"of event shape {tuple(posterior.event_shape)}: use unweave.core.distributions.normal(mean, std)"
        )
    return posterior.mean, posterior.stddev


class Shared(Independent):
    """A normal for each group, repeated on its members: one draw per group, the same for all of them.

    base:  factorised normal over (..., G) groups and D dimensions
    group: (B,) group numbers

    To densities, divergences, centres and spreads it is the normal over (..., B) rows that it derives from.
    """

    def __init__(self, base: Distribution, group: Tensor):
        mean, std = normal_parameters(base)
        self.groups, self.group = base, group
        rows = normal(mean.index_select(-2, group), std.index_select(-2, group))
        super().__init__(rows.base_dist, 1, validate_args=False)

    def expand(self, batch_shape: Shape, _instance: Distribution | None = None) -> Shared:
        leading = torch.Size(batch_shape)[:-1]
        return Shared(self.groups.expand((*leading, self.groups.batch_shape[-1])), self.group)

    def rsample(self, sample_shape: Shape = torch.Size()) -> Tensor:  # noqa: B008 - torch's own signature
        return self.groups.rsample(torch.Size(sample_shape)).index_select(-2, self.group)

    def sample(self, sample_shape: Shape = torch.Size()) -> Tensor:  # noqa: B008 - torch's own signature
        with torch.no_grad():
            return self.rsample(sample_shape)


class GroupMixture(MixtureSameFamily):
    """q(c|X_G) = 1/|G| sum_{i in G} q(c|x_i), on every row of the group.

    members: factorised normal over B rows and D dimensions, the q(c|x_i)
    group:   (B,) group numbers
    shared:  one draw for all rows of a group instead of one for each row

    A draw takes a member at random, all alike, and a draw of its normal. The choice does not depend on any parameter,
    so that gradients through the draw are exact. The KL divergence to a prior has no closed form.
    """

    has_rsample = True

    def __init__(self, members: Distribution, group: Tensor, shared: bool = False):
        mean, std = normal_parameters(members)
        sizes = group_sizes(group)
        if mean.shape[:-1] != group.shape:
            raise ShapeError(f"members have batch shape {tuple(mean.shape[:-1])} and groups {tuple(group.shape)}")
        self.members, self.group, self.shared = members, group, shared
        # (G, M) rows of each group's members, M the largest group; places beyond a group's size have no weight
        by_group = torch.argsort(group, stable=True)
        place = torch.arange(int(sizes.max()), device=group.device)
        first = sizes.cumsum(0) - sizes
        self.present = place < sizes[:, None]
        self.table = by_group[(first[:, None] + place).clamp(max=len(group) - 1)]
        logits = torch.zeros(self.table.shape, dtype=mean.dtype, device=mean.device)
        mixing = Categorical(logits=logits.masked_fill(~self.present, -math.inf)[group], validate_args=False)
        rows = self.table[group]  # (B, M)
        super().__init__(mixing, normal(mean[rows], std[rows]), validate_args=False)

    def rsample(self, sample_shape: Shape = torch.Size()) -> Tensor:  # noqa: B008 - torch's own signature
        mean, std = normal_parameters(self.members)
        drawn = torch.arange(len(self.present), device=self.group.device) if self.shared else self.group
        uniform = torch.rand((*torch.Size(sample_shape), len(drawn)), dtype=mean.dtype, device=mean.device)
        sizes = self.present.sum(-1)[drawn]
        place = torch.minimum((uniform * sizes).long(), sizes - 1)  # rounding may reach the size itself
        member = self.table[drawn, place]  # (*S, B), or (*S, G) when shared
        noise = torch.randn((*member.shape, mean.shape[-1]), dtype=mean.dtype, device=mean.device)
        value = mean[member] + std[member] * noise
        return value.index_select(-2, self.group) if self.shared else value

    def sample(self, sample_shape: Shape = torch.Size()) -> Tensor:  # noqa: B008 - torch's own signature
        with torch.no_grad():
            return self.rsample(sample_shape)
