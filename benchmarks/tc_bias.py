"""How far the stratified estimate of the total correlation is from the truth, by batch size.

    python benchmarks/tc_bias.py

x ~ N(0, C) in three dimensions and q(z|x) = N(x, 0.25 I) give q(z) = N(0, C + 0.25 I), whose TC is known.
8,192 codes for each batch size, N = 1,000,000, seed 0; the spread is one standard error over batches.
"""

from __future__ import annotations

import torch

from unweave.core.distributions import normal
from unweave.core.trace import Trace
from unweave.objectives.marginals import InferenceMarginal, Leaf

STD, CODES, SIZE = 0.5, 8192, 10**6


def main() -> None:
    covariance = torch.tensor([[1.0, 0.6, 0.3], [0.6, 1.0, 0.4], [0.3, 0.4, 1.0]], dtype=torch.float64)
    total = covariance + STD**2 * torch.eye(3)
    print(f"truth      {0.5 * (total.diagonal().log().sum() - total.logdet()).item():.3f}")
    factor = torch.linalg.cholesky(covariance)
    for rows in (32, 128, 512):
        generator = torch.Generator().manual_seed(0)
        estimates = []
        for _ in range(CODES // rows):
            x = torch.randn(rows, 3, dtype=torch.float64, generator=generator) @ factor.T
            q = Trace({"z": x + STD * torch.randn(x.shape, dtype=torch.float64, generator=generator)}, rows=rows)
            q.sample("z", normal(x, STD))
            marginal = InferenceMarginal(q, ["z"], SIZE)
            estimates.append((marginal.log_prob([Leaf("z")]) - marginal.log_prob_elements().sum(-1)).mean())
        values = torch.stack(estimates)
        print(f"batch {rows:<4} {values.mean():.3f} ± {values.std() / len(values) ** 0.5:.3f}")


if __name__ == "__main__":
    main()
