"""How fast could the dense MNIST model be at all? Its step with gradients derived by hand, beside `unweave`'s.

    python benchmarks/floor.py [--turns 40] [--save]

The step by hand has the same matrix products (`unweave.nets.products`), losses and fused Adam, and nothing else: no
modules, no autograd, no log, no checks. What it is faster by is all that a library could still
gain. Both run in one process in turns of a few steps. `--save` keeps the result of this processor in
benchmarks/results/floor and puts it into benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from _processes import machine, usable_cores
from _report import save, show, spread, table
from compiled import STEPS, seconds

from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.core.system import SYSTEMS
from unweave.nets.products import product
from unweave.runs.arithmetic import fast_arithmetic

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from common import LR
from sizes import DENSE

BATCH, SIDE, LATENT = 128, 28, 20


def ours(batch: torch.Tensor) -> Callable[[], object]:
    cls = SYSTEMS["vae"]
    settings = {
        "latent": LATENT,
        "nets.kind": "dense",
        "nets.hidden": list(DENSE),
        "nets.activation": "relu",
        "training.optimiser.lr": LR,
    }
    system = cls(cls.config_class().override(settings), DataSpec((1, SIDE, SIDE), "unit", 10_000)).train()
    optimisers = system.optimisers()
    return lambda: system.update(Batch.of(batch), optimisers)


class ByHand:
    """A VAE of dense ReLU networks: step() draws z, and moves all weights by Adam."""

    def __init__(self, batch: torch.Tensor):
        self.x = batch.flatten(1)
        encoder = (self.x.shape[1], *DENSE, 2 * LATENT)
        decoder = (LATENT, *reversed(DENSE), self.x.shape[1])
        pairs = [*itertools.pairwise(encoder), *itertools.pairwise(decoder)]
        self.first_of_decoder = len(encoder) - 1
        linear = [torch.nn.Linear(*pair) for pair in pairs]  # for its initial values
        self.weights = [layer.weight.detach() for layer in linear]
        self.biases = [layer.bias.detach() for layer in linear]
        self.slopes = [torch.empty_like(each) for each in (*self.weights, *self.biases)]
        self.moments = [[torch.zeros_like(each) for each in self.slopes] for _ in range(2)]
        self.steps = [torch.zeros(()) for _ in self.slopes]

    def __call__(self) -> None:
        last, here = len(self.weights) - 1, self.first_of_decoder
        inputs, h = [], self.x
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if layer == here:
                mean, log_variance = h.chunk(2, dim=1)
                deviation, noise = (log_variance / 2).exp(), torch.randn_like(mean)
                h = mean + deviation * noise
            inputs.append(h)
            h = product(h, weight.t(), bias, rectify=layer not in (here - 1, last))
        slope = torch.sigmoid(h).sub_(self.x).div_(len(h))  # of the loss, a mean over the batch
        for layer in range(last, -1, -1):
            self.slopes[layer] = product(slope.t(), inputs[layer])
            torch.sum(slope, 0, out=self.slopes[last + 1 + layer])
            if layer == here:
                of_z = product(slope, self.weights[layer])
                of_mean = of_z + mean / len(h)
                of_log_variance = of_z * noise * deviation / 2 + (deviation.square() - 1) / (2 * len(h))
                slope = torch.cat([of_mean, of_log_variance], dim=1)
            elif layer:
                slope = product(slope, self.weights[layer])
                torch.ops.aten.threshold_backward.grad_input(slope, inputs[layer], 0, grad_input=slope)
        torch._foreach_add_(self.steps, 1)
        torch._fused_adam_(
            [*self.weights, *self.biases],
            self.slopes,
            *self.moments,
            [],
            self.steps,
            lr=LR,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )

    def loss_by_autograd(self, noise: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The loss the textbook's way, and its gradients: what the gradients by hand must be."""
        weights, biases = ([each.clone().requires_grad_() for each in kind] for kind in (self.weights, self.biases))
        last, here = len(weights) - 1, self.first_of_decoder
        h, kl = self.x, torch.zeros(())
        for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            if layer == here:
                mean, log_variance = h.chunk(2, dim=1)
                kl = 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum() / len(h)
                h = mean + (log_variance / 2).exp() * noise
            h = torch.nn.functional.linear(h, weight, bias)
            h = h if layer in (here - 1, last) else h.relu()
        cost = torch.nn.functional.binary_cross_entropy_with_logits(h, self.x, reduction="sum") / len(h)
        return cost + kl, list(torch.autograd.grad(cost + kl, [*weights, *biases]))


def check(hand: ByHand) -> None:
    """The gradients by hand are those of autograd, or the comparison would mean nothing."""
    torch.manual_seed(1)
    noise = torch.randn(len(hand.x), LATENT)
    _, expected = hand.loss_by_autograd(noise)
    torch.manual_seed(1)
    hand()
    for found, wanted in zip(hand.slopes, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--save", action="store_true", help="keep the result and put it into the README")
    given = parser.parse_args()
    torch.set_num_threads(usable_cores())
    torch.manual_seed(0)
    batch = (torch.rand(BATCH, 1, SIDE, SIDE) > 0.9).float()
    with fast_arithmetic():
        steps: dict[str, Callable[[], object]] = {"unweave": ours(batch), "by hand": ByHand(batch)}
        check(ByHand(batch))
        taken: dict[str, list[float]] = {name: [] for name in steps}
        for number in range(given.turns):
            for name in list(steps) if number % 2 else reversed(steps):
                steps[name]()
                taken[name].append(seconds(steps[name]))
    ratios = [mine / bare for mine, bare in zip(taken["unweave"], taken["by hand"], strict=True)]
    title = "A step with gradients derived by hand and nothing else, dense 784-500-500-20, batch 128"
    note = "the most that any library could gain over unweave with these matrix products"
    tables = [table(title, ["", "times as fast as unweave"], [["by hand, no autograd", spread(ratios)]], [note])]
    show(tables)
    if given.save:
        save("floor", machine(usable_cores()), {"turns": given.turns, "steps of a turn": STEPS}, tables, taken)


if __name__ == "__main__":
    main()
