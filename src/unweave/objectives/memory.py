"""A memory of recent posteriors, so that a small batch can say more about the inference marginal q(z).

A batch of B rows cannot tell log q(z) from log q(z|x) - log N once I(x; z) is above log B: too few of its posteriors
are near a draw. The posteriors q(z | x_m) of the last M rows that were trained on lie ready and cost no pass through
the encoder. They are a few steps old, and no gradient passes to them; none is missed, since

    E_q(z)[d/dphi log q(z)] = 0

where phi are the parameters of the mixture's components: the gradient that counts goes through the draw z.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal

from unweave.core.distributions import Concrete, normal
from unweave.core.trace import Trace


class PosteriorMemory(nn.Module):
    """The posteriors of the last M training rows, normal or Concrete, site by site.

    They are buffers and part of a checkpoint: a run that goes on remembers what it remembered.

    rows:  M
    sizes: site -> (kind, D): "normal" with D dimensions or "concrete" with D categories
    """

    seen: Tensor

    def __init__(self, rows: int, sizes: Mapping[str, tuple[str, int]]):
        super().__init__()
        self.rows, self.kinds = rows, {name: kind for name, (kind, _) in sizes.items()}
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        for name, (kind, size) in sizes.items():
            self.register_buffer(f"of_{name}", torch.zeros(rows, 2 * size if kind == "normal" else size))

    def posteriors(self, temperature: float) -> dict[str, Distribution]:
        """What it holds, site by site; nothing before the first batch was kept."""
        count = min(int(self.seen), self.rows)
        if not count:
            return {}
        found: dict[str, Distribution] = {}
        for name, kind in self.kinds.items():
            kept: Tensor = getattr(self, f"of_{name}")[:count].clone()  # `keep` writes before the backward pass is over
            found[name] = normal(*kept.chunk(2, dim=-1)) if kind == "normal" else Concrete(temperature, kept)
        return found

    @torch.no_grad()
    def keep(self, q: Trace) -> None:
        """Put the posteriors of a batch in the place of the oldest ones."""
        for name, kind in self.kinds.items():
            posterior = q.site(name).distribution
            if kind == "normal":
                assert isinstance(posterior, Independent)
                assert isinstance(posterior.base_dist, Normal)
                rows = torch.cat([posterior.base_dist.loc, posterior.base_dist.scale], dim=-1)
            else:
                assert isinstance(posterior, Concrete)
                rows = posterior.logits
            rows = rows[-self.rows :]
            places = (int(self.seen) + torch.arange(len(rows), device=rows.device)) % self.rows
            getattr(self, f"of_{name}")[places] = rows
        self.seen += len(rows)
