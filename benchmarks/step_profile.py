"""Where the time of a training step goes: the reference beta-VAE and the dense VAE with our layers and the textbook's.

    python benchmarks/step_profile.py [--threads 1] [--steps 20] [--save]

Both have the same networks and see the same batch; ours trains as `unweave train` does, the other with plain layers,
losses and Adam. PyTorch's profiler gives the time of each operation by itself. `--save` keeps the tables of
this processor in benchmarks/results/profile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _processes import machine
from _report import kept
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.profiler import ProfilerActivity, profile

from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.core.system import SYSTEMS
from unweave.models.presets import BURGESS
from unweave.runs.arithmetic import fast_arithmetic

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from common import BETA, LR, Task, decoder, encoder
from sizes import DENSE, SIDES

# model of peers/sizes.py -> images in a batch, our system and its settings
MODELS: dict[str, tuple[int, str, dict[str, Any]]] = {
    "betavae": (64, "betavae", {**BURGESS, "beta": BETA}),
    "mnist": (128, "vae", {"latent": 20, "nets.kind": "dense", "nets.hidden": list(DENSE), "nets.activation": "relu"}),
}


def ours(batch: torch.Tensor, model: str = "betavae") -> Callable[[], object]:
    _, name, settings = MODELS[model]
    cls = SYSTEMS[name]
    config = cls.config_class().override({**settings, "training.optimiser.lr": LR})
    system = cls(config, DataSpec(tuple(batch.shape[1:]), "unit", 10_000)).train()
    optimisers = system.optimisers()
    return lambda: system.update(Batch.of(batch), optimisers)


def textbook(
    batch: torch.Tensor, compiled: bool = False, channels_last: bool = False, model: str = "betavae"
) -> Callable[[], object]:
    task = Task("plain", model, len(batch), 0, 0, batch.shape[-1], "", False)
    encode, decode = encoder(task), decoder(task)
    if channels_last:
        encode, decode = (net.to(memory_format=torch.channels_last) for net in (encode, decode))
    optimiser = torch.optim.Adam([*encode.parameters(), *decode.parameters()], lr=LR)

    def loss(x: torch.Tensor) -> torch.Tensor:
        mean, log_variance = encode(x).chunk(2, dim=1)
        z = mean + torch.exp(log_variance / 2) * torch.randn_like(mean)
        cost = binary_cross_entropy_with_logits(decode(z), x, reduction="sum") / len(x)
        kl = 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum() / len(x)
        return cost + (BETA if model == "betavae" else 1.0) * kl

    cost_of = torch.compile(loss) if compiled else loss

    def step() -> None:
        optimiser.zero_grad()
        cost_of(batch).backward()
        optimiser.step()

    return step


def measured(step: Callable[[], object], steps: int) -> str:
    for _ in range(5):
        step()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(steps):
            step()
    events = [event for event in found.key_averages() if event.self_cpu_time_total > 0]
    total = sum(event.self_cpu_time_total for event in events)
    events.sort(key=lambda event: -event.self_cpu_time_total)
    lines = [f"{total / steps / 1e3:8.2f} ms a step in all"]
    for event in events[:20]:
        own = event.self_cpu_time_total
        lines.append(
            f"{own / steps / 1e3:8.2f} ms {100 * own / total:5.1f} %  {event.count / steps:6.1f} x  {event.key}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    parts = [str(machine(given.threads))]
    for model, (rows, _, _) in MODELS.items():
        batch = (torch.rand(rows, 1, SIDES[model], SIDES[model]) > 0.9).float()
        parts += ["", f"{model}, batch {rows}"]
        parts += ["", "textbook layers, plain losses, Adam", measured(textbook(batch, model=model), given.steps)]
        with fast_arithmetic():
            parts += ["", "unweave", measured(ours(batch, model), given.steps)]
    text = "\n".join(parts) + "\n"
    print(text)
    if given.save:
        kept("profile", machine(given.threads), ".txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
