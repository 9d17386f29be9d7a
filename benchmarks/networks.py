"""What a training step costs with other networks, beside the defaults: beta-VAE, images of 1 x 64 x 64, batches of 64.

python benchmarks/networks.py

Steps of all networks take turns on one thread, in one process; the table has the ratio of images per second to that of
the defaults, the median over rounds with the lowest and the highest.
"""

from __future__ import annotations

import statistics
import time

import torch

from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.runs.arithmetic import fast_arithmetic
from unweave.systems.betavae import BetaVAE, BetaVAEConfig

NETWORKS = {
    "defaults": {},
    "stem=4, channels=(32, 32, 32)": {"stem": 4, "channels": (32, 32, 32)},
    "stem=4, channels=(32, 32, 32), hidden=(128,)": {"stem": 4, "channels": (32, 32, 32), "hidden": (128,)},
    "kind=dense, hidden=(512, 256)": {"kind": "dense", "hidden": (512, 256)},
    "kind=dense, hidden=(256, 256)": {"kind": "dense", "hidden": (256, 256)},
}
ROWS, WARM, ROUNDS, STEPS = 64, 5, 15, 4


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    batch = Batch.of(torch.rand(ROWS, 1, 64, 64))
    systems = {}
    for name, settings in NETWORKS.items():
        config = BetaVAEConfig().override({f"nets.{key}": value for key, value in settings.items()})
        system = BetaVAE(config, DataSpec((1, 64, 64), "unit", 10_000)).train()
        systems[name] = (system, system.optimisers())
    rates: dict[str, list[float]] = {name: [] for name in systems}
    with fast_arithmetic():
        for number in range(WARM + ROUNDS):
            for name, (system, optimisers) in systems.items():
                began = time.perf_counter()
                for _ in range(STEPS):
                    system.update(batch, optimisers)
                if number >= WARM:
                    rates[name].append(STEPS * ROWS / (time.perf_counter() - began))
    for name, found in rates.items():
        ratios = [mine / default for mine, default in zip(found, rates["defaults"], strict=True)]
        print(f"| `{name}` | {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")


if __name__ == "__main__":
    main()
