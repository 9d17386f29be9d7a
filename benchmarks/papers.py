"""ML-VAE and the structured model on MNIST, video on moving digits: `unweave train` beside a loop written by hand.

    UNWEAVE_DATA=folder python benchmarks/papers.py [--save]

The loop by hand is plain PyTorch without anything of this library: same layers, same sizes, bytes turned into floats at
each step, fused Adam as ours has, no logging and no checkpoints. It reads the rows that `unweave train` reads, from a
list made before the clock starts. Each has a process of its own (ours tells the allocator to keep memory, which would
help the other too), one thread, and the same core. They take turns of 30 steps: while one trains the other waits, so
that what else the machine does meets both alike. The table has the ratio of steps per second, turn by turn. Then
memory: what a process of its own holds after 100 steps, and after 800. `--save` keeps the result of this processor in
benchmarks/results/papers and puts it into benchmarks/README.md.

The networks are those of the preset `paper`, for video of `quick`. Without MNIST's files random images of the same
shape take their place (the work is the same).
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch
from _processes import machine
from _report import save, show, table
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, leaky_relu, log_softmax, one_hot, softplus

from unweave.base.errors import DataError
from unweave.core.order import Table
from unweave.core.system import SYSTEMS
from unweave.data import DataSet, Split, from_arrays, load
from unweave.runs import train

TURN, TURNS, WARM = 30, 20, 1  # steps of a turn, turns that count, turns before them
STEPS = TURN * (WARM + TURNS + 1)  # the last turn is not taken
GROUPS, MEMBERS = 10, 64  # preset paper of mlvae: batches of 640
BATCH, LABELLED, ALPHA, TEMPERATURE = 100, 50, 50.0, 0.66  # preset paper of structured, half of it labelled
CLIPS, FACTORS, DIMS = 32, 2, 8  # preset quick of video; 10 frames of 3 x 32 x 32
PRESETS = {"mlvae": "paper", "structured": "paper", "video": "quick"}


def data(name: str) -> DataSet:
    if name == "video":
        clips = load("moving_digits", clips=1000, size=32)
        return from_arrays(np.round(255 * clips.observations(np.arange(len(clips)))).astype(np.uint8))
    try:
        return load("mnist")
    except DataError:
        rng = np.random.default_rng(0)
        images = rng.integers(0, 256, (60_000, 1, 28, 28), dtype=np.uint8)
        return from_arrays(images, factors=rng.integers(0, 10, 60_000), names=("digit",))


class Turns:
    """Called before each step: after TURN steps it tells the seconds they took and waits for its next turn."""

    def __init__(self, other: Connection):
        self.other, self.steps, self.began = other, 0, 0.0

    def __call__(self) -> None:
        if self.steps % TURN == 0:
            if self.steps:
                self.other.send(time.perf_counter() - self.began)
            if self.other.recv() == "stop":
                raise SystemExit
            self.began = time.perf_counter()
        self.steps += 1


def loop(batches: Iterator[Callable[[], Tensor]], modules: nn.Module) -> None:
    optimiser = torch.optim.Adam(modules.parameters(), lr=1e-3, fused=True)
    for loss in batches:
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()


def kl_normal(mean: Tensor, log_variance: Tensor) -> Tensor:
    return 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(-1)


def rows_of(name: str, dataset: DataSet, settings: dict) -> list[np.ndarray]:
    """The rows of each step of `unweave train`; those with a label first."""
    cls = SYSTEMS[name]
    config = cls.config_class.preset(PRESETS[name]).override(settings)
    rows = Split().rows(dataset)["train"]
    factors = dataset.factors
    table = Table(rows, None if factors is None else factors.take(rows))
    labels = {} if factors is None else factors.counts()
    system = cls(config, replace(dataset.spec, size=len(rows), labels=labels))
    order = system.order(table, 0, 0)
    labelled = next(iter(system.labelled(table).values()), rows)
    return [part[np.argsort(~np.isin(part, labelled), kind="stable")] for part in map(order.rows, range(STEPS))]


def mlvae_by_hand(images: np.ndarray, labels: np.ndarray, order: list[np.ndarray], turn: Turns) -> None:
    encoder = nn.Sequential(nn.Linear(784, 500), nn.Tanh())
    content, style = nn.Linear(500, 20), nn.Linear(500, 20)
    decoder = nn.Sequential(nn.Linear(20, 500), nn.Tanh(), nn.Linear(500, 2 * 784))
    modules = nn.ModuleList([encoder, content, style, decoder])

    def batches() -> Iterator[Callable[[], Tensor]]:
        for rows in order:  # members of a group one after the other
            turn()
            x = torch.from_numpy(images[rows].astype(np.float32) / np.float32(255)).flatten(1)
            yield lambda x=x: loss(x)

    def loss(x: Tensor) -> Tensor:
        h = encoder(x)
        mean, log_variance = content(h).chunk(2, -1)
        precision = torch.exp(-log_variance).view(GROUPS, MEMBERS, 10)
        variance = 1 / precision.sum(1)
        group_mean = variance * (precision * mean.view(GROUPS, MEMBERS, 10)).sum(1)
        spread = variance.sqrt().repeat_interleave(MEMBERS, 0)
        c = group_mean.repeat_interleave(MEMBERS, 0) + spread * torch.randn(len(x), 10)
        style_mean, style_log_variance = style(h).chunk(2, -1)
        s = style_mean + torch.exp(style_log_variance / 2) * torch.randn(len(x), 10)
        m, raw = decoder(torch.cat([c, s], -1)).chunk(2, -1)
        std = 1e-3 + softplus(raw + 0.54)
        log_likelihood = (-0.5 * ((x - m) / std) ** 2 - std.log() - 0.5 * math.log(2 * math.pi)).sum(-1)
        costs = kl_normal(style_mean, style_log_variance).sum() - log_likelihood.sum()
        return (costs + kl_normal(group_mean, variance.log()).sum()) / GROUPS

    loop(batches(), modules)


def structured_by_hand(images: np.ndarray, labels: np.ndarray, order: list[np.ndarray], turn: Turns) -> None:
    def dense(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(inputs, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, outputs))

    classifier, decoder = dense(784, 10), dense(20, 784)
    trunk = nn.Sequential(nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU())
    of_features, of_class, head = nn.Linear(500, 500), nn.Linear(10, 500, bias=False), nn.Linear(500, 20)
    modules = nn.ModuleList([classifier, decoder, trunk, of_features, of_class, head])

    def batches() -> Iterator[Callable[[], Tensor]]:
        for rows in order:
            turn()
            x = torch.from_numpy(images[rows].astype(np.float32) / np.float32(255)).flatten(1)
            y = torch.from_numpy(labels[rows[:LABELLED]].astype(np.int64))
            yield lambda x=x, y=y: loss(x, y)

    def density(logits: Tensor, log_value: Tensor) -> Tensor:
        scaled = logits - TEMPERATURE * log_value
        return (logits - (TEMPERATURE + 1) * log_value).sum(-1) - 10 * scaled.logsumexp(-1)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        log_q = log_softmax(classifier(x), -1)
        noise = -torch.log(-torch.log(torch.rand(BATCH - LABELLED, 10).clamp(1e-20, 1 - 1e-7)))
        drawn = ((log_q[LABELLED:] + noise) / TEMPERATURE).softmax(-1)
        value = torch.cat([one_hot(y, 10).float(), drawn])
        mean, log_variance = head(torch.relu(of_features(trunk(x)) + of_class(value))).chunk(2, -1)
        std = torch.exp(log_variance / 2)
        noise = torch.randn_like(mean)
        z = mean + std * noise
        ratio = (0.5 * z**2 - 0.5 * noise**2 - std.log()).sum(-1)  # log q(z|x,y) - log p(z)
        costs = (
            binary_cross_entropy_with_logits(decoder(torch.cat([value, z], -1)), x, reduction="none").sum(-1) + ratio
        )
        uniform = torch.full((10,), -math.log(10))
        log_value = drawn.clamp(min=1e-30).log()
        free = density(log_q[LABELLED:], log_value) - density(uniform, log_value)
        known = -log_q[:LABELLED].gather(1, y[:, None]).squeeze(1)
        return (costs.sum() + free.sum() + math.log(10) * LABELLED + ALPHA * known.sum()) / BATCH

    loop(batches(), modules)


def video_by_hand(clips: np.ndarray, labels: np.ndarray, order: list[np.ndarray], turn: Turns) -> None:
    frame, size, width = math.prod(clips.shape[2:]), FACTORS * DIMS, 128
    encoder = nn.Sequential(nn.Linear(frame, 256), nn.GELU())
    decoder = nn.Sequential(nn.Linear(size, 256), nn.GELU(), nn.Linear(256, frame))
    of_features, of_mean, of_log_variance = nn.Linear(256, width), nn.Linear(size, width), nn.Linear(size, width)
    join, head = nn.Linear(3 * width, width), nn.Linear(width, 2 * size)
    transitions = nn.ModuleList(
        nn.Sequential(nn.Linear(DIMS, 128), nn.SELU(), nn.Linear(128, 128), nn.SELU(), nn.Linear(128, 2 * DIMS))
        for _ in range(FACTORS)
    )
    modules = nn.ModuleList([encoder, decoder, of_features, of_mean, of_log_variance, join, head, transitions])

    def batches() -> Iterator[Callable[[], Tensor]]:
        for rows in order:
            turn()
            x = torch.from_numpy(clips[rows].astype(np.float32) / np.float32(255)).flatten(2)
            yield lambda x=x: loss(x)

    def predict(z: Tensor, frozen: bool) -> list[Tensor]:
        """Mean and log-variance of the next step; frozen: the networks are constants."""
        parts = []
        for network, part in zip(transitions, z.chunk(FACTORS, -1), strict=True):
            weights = {name: each.detach() if frozen else each for name, each in network.named_parameters()}
            parts.append(torch.func.functional_call(network, weights, part).chunk(2, -1))
        return [torch.cat(each, -1) for each in zip(*parts, strict=True)]

    def loss(x: Tensor) -> Tensor:
        features = encoder(x)
        prior = read = [torch.zeros(len(x), size)] * 2
        kl, codes = torch.zeros(()), []
        for t in range(x.shape[1]):
            h = torch.cat([of_features(features[:, t]), of_mean(read[0]), of_log_variance(read[1])], -1)
            mean, log_variance = head(leaky_relu(join(leaky_relu(h, 0.2)), 0.2)).chunk(2, -1)
            squares = (log_variance.exp() + (mean - prior[0]) ** 2) / prior[1].exp()
            kl = kl + 0.5 * (prior[1] - log_variance + squares - 1).sum()
            codes.append(mean + torch.exp(log_variance / 2) * torch.randn_like(mean))
            if t + 1 < x.shape[1]:
                prior, read = predict(codes[-1], frozen=False), predict(codes[-1], frozen=True)
        error = (x - decoder(torch.stack(codes, 1))) / 0.25
        constant = x[0].numel() * math.log(0.25 * math.sqrt(2 * math.pi))
        return (0.5 * (error**2).sum() + kl) / len(x) + constant

    loop(batches(), modules)


def ours(name: str, dataset: DataSet, settings: dict, steps: int = STEPS) -> None:
    """`unweave.train` with log and checkpoints."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {**settings, "training.steps": steps}
        preset = PRESETS[name]
        train(name, dataset, preset=preset, settings=settings, run=Path(folder) / "run", threads=1, progress=False)


def _by_hand(name: str, settings: dict, other: Connection) -> None:
    _settle()
    dataset = data(name)
    order = rows_of(name, dataset, settings)
    images = np.round(255 * dataset.observations(np.arange(len(dataset)))).astype(np.uint8)
    digits = np.empty(0) if dataset.factors is None else dataset.factors.column("digit")
    BY_HAND[name](images, digits.astype(np.int64), order, Turns(other))


def _ours(name: str, settings: dict, other: Connection) -> None:
    _settle()
    dataset, turn = data(name), Turns(other)

    def read(rows: np.ndarray) -> np.ndarray:
        if len(rows) == SIZE[name]:  # not the look at some rows before training
            turn()
        return dataset.read(rows)

    ours(name, replace(dataset, read=read), settings)


def _settle() -> None:
    """One thread, on the first core that this process may use."""
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def ratios_of(name: str, settings: dict) -> tuple[float, list[float]]:
    """Steps per second by hand, and the ratios ours / by hand of each pair of turns."""
    spawn = multiprocessing.get_context("spawn")
    sides, processes = [], []
    for side in (_by_hand, _ours):
        mine, its = spawn.Pipe()
        processes.append(spawn.Process(target=side, args=(name, settings, its), daemon=True))
        sides.append(mine)
        processes[-1].start()
    seconds: list[list[float]] = [[], []]
    for number in range(WARM + TURNS):
        order = (0, 1) if number % 2 else (1, 0)
        for side in order:
            sides[side].send("go")
            seconds[side].append(sides[side].recv())
    for side, process in zip(sides, processes, strict=True):
        side.send("stop")
        process.join()
    by_hand, mine = (np.array(each[WARM:]) for each in seconds)
    return TURN / float(np.median(by_hand)), list(by_hand / mine)


def _held(name: str, settings: dict, steps: int) -> float:
    """MB held now; no earlier peak hides it."""
    ours(name, data(name), settings, steps)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


SIZE = {"mlvae": GROUPS * MEMBERS, "structured": BATCH, "video": CLIPS}
BY_HAND = {"mlvae": mlvae_by_hand, "structured": structured_by_hand, "video": video_by_hand}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true", help="keep the result and put it into the README")
    given = parser.parse_args()
    pairs: dict[str, dict] = {
        "mlvae": {},
        "structured": {"labels": 3000, "rho": LABELLED / BATCH, "alpha": ALPHA},
        "video": {"beta": 1.0, "training.optimiser.lr": 1e-3, "training.optimiser.clip": None},
    }
    rows, raw = [], {}
    for name, settings in pairs.items():
        rate, ratios = ratios_of(name, settings)
        quarters = [f"{quarter:.2f}" for quarter in statistics.quantiles(ratios, n=4)]
        row = [f"{name}, batch {SIZE[name]}", f"{rate:.1f}", quarters[1], f"{quarters[0]} to {quarters[2]}"]
        row.append(f"{min(ratios):.2f} to {max(ratios):.2f}")
        held: list[float] = []
        if Path("/proc/self/statm").exists():
            with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
                held = [pool.apply(_held, (name, settings, steps)) for steps in (100, 800)]
        row.append(" and ".join(f"{each:.0f}" for each in held))
        rows.append(row)
        raw[name] = {"steps_per_second_by_hand": rate, "ratios": ratios, "megabytes": held}
    columns = [
        "system",
        "steps/s by hand",
        "ours / by hand",
        "half of the turns",
        "all turns",
        "MB after 100, 800 steps",
    ]
    tables = [table("The papers' networks: steps per second of unweave over those of a loop by hand", columns, rows)]
    show(tables)
    if given.save:
        save("papers", machine(1), {"turns": TURNS, "steps of a turn": TURN}, tables, raw)


if __name__ == "__main__":
    main()
