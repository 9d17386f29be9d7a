"""Two processes estimate q(z) as one process with the joint batch does: values and gradients."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from unweave.base.errors import ShapeError
from unweave.core.distributions import Concrete, normal, standard_normal
from unweave.core.trace import Trace
from unweave.objectives.capacity import capacity_gap
from unweave.objectives.decomposition import decompose, tree_of_blocks
from unweave.objectives.elbo import kl
from unweave.objectives.marginals import InferenceMarginal
from unweave.objectives.mmd import mmd
from unweave.objectives.moments import RunningCovariance, dip_penalty

ROWS, SIZE, PROCESSES = 6, 100, 2


def costs(rows: slice, estimator: str = "stratified") -> tuple[Tensor, Tensor]:
    """Every cost that looks at the whole batch, (C,), and its gradient (C, P) for an encoder of P parameters."""
    generator = torch.Generator().manual_seed(0)
    x, noise, draws = (torch.randn(ROWS, 3, dtype=torch.float64, generator=generator) for _ in range(3))
    gumbel = torch.rand(ROWS, 4, dtype=torch.float64, generator=generator)
    weight = torch.randn(3, 10, dtype=torch.float64, generator=generator).requires_grad_()
    mean, log_std, logits = (x[rows] @ weight).split([3, 3, 4], dim=-1)
    std = (0.2 * log_std).exp()
    given = {"style": mean + std * noise[rows], "digit": (logits + gumbel[rows]).softmax(-1)}
    q = Trace(given, rows=len(mean))
    q.sample("style", normal(mean, std))
    q.sample("digit", Concrete(0.7, logits))
    p = Trace(q.as_given(), rows=len(mean))
    p.sample("style", standard_normal(3, like=mean))
    p.sample("digit", Concrete(0.7, torch.zeros(4, dtype=torch.float64)))

    parts = decompose(q, p, tree_of_blocks(q), SIZE, estimator)  # type: ignore[arg-type]
    covariance = RunningCovariance(3, momentum=0.5).double()
    covariance(mean.detach() + 1)
    terms = [
        parts.information.mean(),
        parts.between.mean(),
        parts.within.mean(),
        parts.leaves.mean(),
        *dip_penalty(covariance(mean, std)),
        mmd(q["style"], draws[rows]),
        capacity_gap(kl(q, p, "style"), 2.5),  # one process is below the target, the other above
    ]
    gradients = [torch.autograd.grad(term, weight, retain_graph=True)[0].flatten() for term in terms]
    return torch.stack(terms).detach(), torch.stack(gradients)


def process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=PROCESSES)
    half = ROWS // PROCESSES
    result = {name: costs(slice(rank * half, (rank + 1) * half), name) for name in ("stratified", "weighted")}
    torch.save(result, Path(folder) / f"{rank}.pt")

    q = Trace(rows=2 + rank)
    q.sample("z", normal(torch.zeros(2 + rank, 1), 1.0))
    with pytest.raises(ShapeError, match=r"batches of \[2, 3\] rows"):
        InferenceMarginal(q, ["z"], SIZE)
    dist.destroy_process_group()


def test_two_processes_agree_with_one(tmp_path: Path) -> None:
    mp.spawn(process, args=(str(tmp_path),), nprocs=PROCESSES)
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(PROCESSES)]
    for estimator in ("stratified", "weighted"):
        values, gradients = costs(slice(None), estimator)
        mean_value = torch.stack([rank[estimator][0] for rank in ranks]).mean(0)
        mean_gradient = torch.stack([rank[estimator][1] for rank in ranks]).mean(0)  # as distributed training averages
        torch.testing.assert_close(mean_value, values, atol=1e-12, rtol=1e-10)
        torch.testing.assert_close(mean_gradient, gradients, atol=1e-12, rtol=1e-10)
        assert torch.all(gradients.abs().amax(1) > 1e-4)


def test_one_process_alone_would_not_agree() -> None:
    """The comparison above can fail: without gathering, the mean over half batches is another number."""
    joint = costs(slice(None))[0]
    halves = torch.stack([costs(slice(0, 3))[0], costs(slice(3, 6))[0]]).mean(0)
    assert torch.all((joint - halves).abs() > 1e-3)
