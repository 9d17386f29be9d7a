"""What all contenders share: models, data, the clock, and the line they print.

    python CONTENDER.py MODEL BATCH STEPS [--warm W] [--size S]

trains MODEL for W + STEPS steps on batches of BATCH and prints one line of JSON: images per second from the end of step
W to the end of the last, seconds from the start of the process to the end of the first step, peak memory. The number of
threads is UNWEAVE_BENCH_THREADS, all cores without it; UNWEAVE_BENCH_BEGAN is the time at which the process was
started, without which the seconds to the first step are not known.

With UNWEAVE_BENCH_TURN, "lead,steps", contenders take turns: after step W, and then after each turn, a contender
prints `TURN` with the seconds its last `steps` took (0 after step W) and waits for a line before it goes on. The `lead`
steps at the beginning of a turn are not measured: what the others did to caches and memory is not its own cost.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sizes import CHANNELS, DENSE, KERNEL, SIDES
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

ROWS = 10_240  # a whole number of batches of 64, 128 and 1,024
LR, BETA, GAMMA = 5e-4, 4.0, 35.0
DISCRIMINATOR_LR, DISCRIMINATOR_BETAS, SLOPE = 1e-4, (0.5, 0.9), 0.2
DISCRIMINATOR_LAYERS, DISCRIMINATOR_WIDTH = 6, 1000


@dataclass(frozen=True)
class Task:
    """What one process measures.

    model:  betavae, tcvae, factorvae on the reference networks; mnist, a VAE of dense networks on images of 28 x 28
    latent: dimensions of the code
    side:   pixels along each side of an image
    """

    contender: str
    model: str
    batch: int
    steps: int
    warm: int
    side: int
    data: str
    cold: bool

    @property
    def latent(self) -> int:
        return 20 if self.model == "mnist" else 10

    @property
    def total(self) -> int:
        return self.warm + self.steps


def task(contender: str, models: tuple[str, ...]) -> Task:
    """The task on the command line, for a contender that knows these models."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=models)
    parser.add_argument("batch", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("--warm", type=int, default=10, help="steps before the clock starts")
    parser.add_argument("--size", type=int, help="side of the images")
    parser.add_argument("--data", default="", help="images in a .npy file instead of squares in memory (ours only)")
    parser.add_argument("--cold", action="store_true", help="forget the file's pages before training (ours only)")
    given = parser.parse_args()
    torch.set_num_threads(threads())
    torch.manual_seed(0)
    made = Task(contender, given.model, given.batch, given.steps, given.warm, given.size or 0, given.data, given.cold)
    return made if given.size else replace(made, side=SIDES[given.model])


def threads() -> int:
    return int(os.environ.get("UNWEAVE_BENCH_THREADS") or os.cpu_count() or 1)


def squares(rows: int, side: int, seed: int = 0) -> np.ndarray:
    """(N, 1, H, W) bytes 0 and 255: one white square in each image, of any place and size. No files are needed."""
    rng = np.random.default_rng(seed)
    images = np.zeros((rows, 1, side, side), dtype=np.uint8)
    sizes = rng.integers(side // 8, side // 2, rows)
    tops, lefts = (rng.integers(0, side - sizes) for _ in range(2))
    for image, size, top, left in zip(images, sizes, tops, lefts, strict=True):
        image[0, top : top + size, left : left + size] = 255
    return images


def batches(images: np.ndarray, batch: int, steps: int) -> Iterator[Tensor]:
    """Float batches in a new random order at each pass over the bytes, without end but for `steps`."""
    rng = np.random.default_rng(1)
    per_pass = len(images) // batch
    for step in range(steps):
        if step % per_pass == 0:
            order = rng.permutation(len(images))
        rows = order[step % per_pass * batch :][:batch]
        yield torch.from_numpy(images[rows]).float().div_(255)


def encoder(made: Task) -> nn.Sequential:
    """(B, 1, H, W) -> (B, 2 D): means, then log-variances."""
    if made.model == "mnist":
        sizes = (made.side**2, *DENSE)
        return nn.Sequential(nn.Flatten(), *_dense(sizes), nn.Linear(sizes[-1], 2 * made.latent))
    layers: list[nn.Module] = []
    channels = 1
    for outputs in CHANNELS:
        layers += [nn.Conv2d(channels, outputs, KERNEL, stride=2, padding=1), nn.ReLU()]
        channels = outputs
    smallest = made.side // 2 ** len(CHANNELS)
    dense = _dense((channels * smallest**2, 256, 256))
    return nn.Sequential(*layers, nn.Flatten(), *dense, nn.Linear(256, 2 * made.latent))


def decoder(made: Task) -> nn.Sequential:
    """(B, D) -> (B, 1, H, W) logits."""
    if made.model == "mnist":
        sizes = (made.latent, *reversed(DENSE))
        last = nn.Linear(sizes[-1], made.side**2)
        return nn.Sequential(*_dense(sizes), last, nn.Unflatten(1, (1, made.side, made.side)))
    smallest = made.side // 2 ** len(CHANNELS)
    shape = (CHANNELS[-1], smallest, smallest)
    layers: list[nn.Module] = [*_dense((made.latent, 256, 256, shape[0] * smallest**2)), nn.Unflatten(1, shape)]
    channels = shape[0]
    for outputs in (*reversed(CHANNELS[:-1]), 1):
        layers += [nn.ConvTranspose2d(channels, outputs, KERNEL, stride=2, padding=1), nn.ReLU()]
        channels = outputs
    return nn.Sequential(*layers[:-1])


def discriminator(made: Task) -> nn.Sequential:
    layers: list[nn.Module] = []
    inputs = made.latent
    for _ in range(DISCRIMINATOR_LAYERS):
        layers += [nn.Linear(inputs, DISCRIMINATOR_WIDTH), nn.LeakyReLU(SLOPE)]
        inputs = DISCRIMINATOR_WIDTH
    return nn.Sequential(*layers, nn.Linear(inputs, 2))


def _dense(sizes: tuple[int, ...]) -> list[nn.Module]:
    """Linear layers with a ReLU after each."""
    pairs = itertools.pairwise(sizes)
    return [part for inputs, outputs in pairs for part in (nn.Linear(inputs, outputs), nn.ReLU())]


class Done(Exception):
    """Raised after the last step, to leave a trainer that counts epochs."""


class Clock:
    """Takes the time after step 1, step `warm` and the last step.

    A loop of its own calls `tick`. For a trainer, `watch` counts calls of the optimisers' `step`.
    """

    def __init__(self, made: Task):
        self.task = made
        self.steps = self.calls = 0
        self.lead, self.turn = map(int, (os.environ.get("UNWEAVE_BENCH_TURN") or "0,0").split(","))
        self.turn_began = 0.0
        self.first: float | None = None
        self.began = self.ended = float("nan")

    def tick(self) -> None:
        self.steps += 1
        if self.steps == 1 and "UNWEAVE_BENCH_BEGAN" in os.environ:
            self.first = time.time() - float(os.environ["UNWEAVE_BENCH_BEGAN"])
        if self.steps == self.task.warm:
            self.began = time.perf_counter()
        if self.steps == self.task.total:
            self.ended = time.perf_counter()
        if self.turn and self.steps >= self.task.warm:
            place = (self.steps - self.task.warm) % (self.lead + self.turn)
            if place == 0:
                hand_over(time.perf_counter() - self.turn_began if self.steps > self.task.warm else 0.0)
            if place == self.lead:
                self.turn_began = time.perf_counter()

    def watch(self, optimisers: int = 1, leave: bool = False) -> None:
        """Tick when each of so many optimisers made its step; `leave` raises Done after the last."""

        def after(*_: Any) -> None:
            self.calls += 1
            if self.calls % optimisers == 0:
                self.tick()
                if leave and self.steps == self.task.total:
                    raise Done

        register_optimizer_step_post_hook(after)

    @property
    def images_per_second(self) -> float:
        return self.task.steps * self.task.batch / (self.ended - self.began)


def hand_over(value: float) -> None:
    """Tell what the turn gave, and wait for the next."""
    sys.stdout.write(f"TURN {value!r}\n")
    sys.stdout.flush()
    sys.stdin.readline()


def report(made: Task, clock: Clock, images_per_second: float | None = None, **more: Any) -> None:
    """Print the line."""
    found = {
        "contender": made.contender,
        "model": made.model,
        "batch": made.batch,
        "side": made.side,
        "images_per_second": images_per_second or clock.images_per_second,
        "first_step_seconds": clock.first,
        "peak_mb": peak_memory(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        **more,
    }
    sys.stdout.write(json.dumps(found) + "\n")


def peak_memory() -> float:
    """MB this process held at most."""
    if sys.platform.startswith("linux"):
        return status("VmHWM")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def status(name: str) -> float:
    """MB of one line of /proc/self/status; not a number where there is none."""
    if not sys.platform.startswith("linux"):
        return float("nan")
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(f"{name}:"))
