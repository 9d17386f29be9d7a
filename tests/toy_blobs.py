"""Systems in closed form for tests of operations and reports: what each code does to the picture is known exactly.

Blocks: `shape`, a simplex of disc, square and ring; `z`, six reals of which the first four are horizontal place,
vertical place, size and brightness, and the last two do nothing; `count`, a whole number that adds dots at the bottom.
`Clips` draws such pictures one after the other: `place` and `light` have a value at each step, `shape` is that of all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.base.card import Card
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes, Plans, Predicts, Samples, Transfers
from unweave.core.codes import Codes
from unweave.core.dataspec import DataSpec
from unweave.core.factors import Factors
from unweave.operations import Inputs

SHAPE, Z, COUNT = Block("shape", (3,), kind="simplex"), Block("z", (6,)), Block("count", (), (), kind="discrete")


class Blobs(Encodes, Decodes, Samples, Transfers, Predicts, Plans):
    """Renders soft shapes; has every capability marker so that every operation applies."""

    card = Card("Soft shapes in closed form.", "No paper", "@misc{blobs, title={Blobs}}")

    def __init__(self, side: int = 24, channels: int = 1, vector: bool = False):
        self.side, self.channels, self.vector = side, channels, vector
        shape = (side,) if vector else (channels, side, side)
        self.spec = DataSpec(shape, "unit", 5000)
        self.blocks = (SHAPE, Z, COUNT)
        self.rendered = 0

    @classmethod
    def name(cls) -> str:
        return "blobs"

    def render(self, codes: Codes, context: object = None) -> np.ndarray:
        self.rendered += codes.rows
        z, kind, count = codes["z"], codes["shape"], codes["count"]
        axis = (np.arange(self.side) + 0.5) / self.side * 2 - 1
        across = axis[None, None, :] - 0.3 * z[:, 0, None, None]
        down = axis[None, :, None] - 0.3 * z[:, 1, None, None]
        size = 0.3 * np.exp(0.25 * z[:, 2, None, None])
        radius = np.sqrt(across**2 + down**2)
        edges = (radius - size, np.maximum(abs(across), abs(down)) - size * 0.9, abs(radius - size) - 0.3 * size)
        softened = np.stack([1 / (1 + np.exp(np.clip(edge * 30, -50, 50))) for edge in edges], axis=1)
        light = 1 / (1 + np.exp(-1.5 - 0.8 * z[:, 3]))
        pictures = (softened * kind[:, :, None, None]).sum(axis=1) * light[:, None, None]
        pictures[:, -2:] = np.where(np.arange(self.side) < 4 * count[:, None, None], 0.9, pictures[:, -2:])
        if self.vector:
            return pictures.mean(axis=1).astype(np.float32)
        tints = np.array([[1.0], [0.7], [0.4]]) if self.channels == 3 else np.ones((self.channels, 1))
        return (pictures[:, None] * tints[None, :, :, None]).astype(np.float32)

    def draw(self, rows: int, seed: int) -> Codes:
        rng = np.random.default_rng(seed)
        return Codes(
            self.blocks,
            {
                "z": rng.normal(size=(rows, 6)),
                "shape": rng.dirichlet([0.3] * 3, size=rows),
                "count": rng.integers(0, 3, size=rows),
            },
        )

    def sample_of_data(self, rows: int, seed: int = 0) -> tuple[Codes, np.ndarray, Factors]:
        """Codes as an encoder would give them (z[4] and z[5] unused), observations, and the factors behind them."""
        rng = np.random.default_rng(seed)
        kind, count = rng.integers(0, 3, size=rows), rng.integers(0, 3, size=rows)
        true = rng.normal(size=(rows, 6)) * [1.0, 0.9, 0.7, 0.5, 0.0, 0.0]
        spread = np.broadcast_to([0.05, 0.06, 0.15, 0.4, 1.0, 1.0], (rows, 6))
        noise = rng.normal(size=(rows, 6)) * [0.02, 0.02, 0.05, 0.1, 0.01, 0.01]
        exact = Codes(self.blocks, {"z": true, "shape": np.eye(3)[kind], "count": count})
        soft = np.eye(3)[kind] * 0.94 + 0.02
        codes = Codes(self.blocks, {"z": true + noise, "shape": soft, "count": count}, {"z": spread})
        factors = Factors(
            ("kind", "x", "y", "size", "light"),
            np.column_stack([kind, true[:, :4]]),
            ("discrete", *["continuous"] * 4),  # type: ignore[arg-type]
            (("disc", "square", "ring"), None, None, None, None),
        )
        return codes, self.render(exact), factors

    def inputs(self, rows: int, reference: int = 400) -> Inputs:
        codes, observations, _ = self.sample_of_data(max(rows, reference))
        chosen = np.arange(rows)
        return Inputs(observations[:rows], codes.take(chosen), codes, chosen)


class Clips(Blobs):
    """Clips of soft shapes that move (place) and change their brightness (light)."""

    def __init__(self, steps: int = 5, side: int = 16, channels: int = 3):
        super().__init__(side, channels)
        self.steps = steps
        self.spec = DataSpec((steps, channels, side, side), "unit", 5000)
        self.blocks = (
            SHAPE,
            Block("place", (steps, 2), ("time", "dim")),
            Block("light", (steps,), ("time",)),
            COUNT,
        )

    @classmethod
    def name(cls) -> str:
        return "clips"

    def render(self, codes: Codes, context: object = None) -> np.ndarray:
        frames = [super(Clips, self).render(self.still(codes, step)) for step in range(self.steps)]
        return np.stack(frames, axis=1)

    def still(self, codes: Codes, step: int) -> Codes:
        """Codes of `Blobs` for the frames of one step."""
        z = np.zeros((codes.rows, 6))
        z[:, :2], z[:, 3] = codes["place"][:, step], codes["light"][:, step]
        return Codes((SHAPE, Z, COUNT), {"shape": codes["shape"], "z": z, "count": codes["count"]})

    def draw(self, rows: int, seed: int) -> Codes:
        return self.sample_of_data(rows, seed + 1000)[0]

    def sample_of_data(self, rows: int, seed: int = 0) -> tuple[Codes, np.ndarray, Factors]:
        rng = np.random.default_rng(seed)
        kind, count = rng.integers(0, 3, size=rows), rng.integers(0, 3, size=rows)
        start, velocity = rng.normal(size=(rows, 2)), rng.normal(size=(rows, 2)) * 0.4
        time = np.arange(self.steps)
        place = start[:, None] + velocity[:, None] * time[:, None]
        light = rng.normal(size=rows)[:, None] * np.cos(time)
        values = {"shape": np.eye(3)[kind], "place": place, "light": light, "count": count}
        codes = Codes(self.blocks, values, {"place": np.full_like(place, 0.05), "light": np.full_like(light, 0.3)})
        factors = Factors(
            ("kind", "x", "y", "vx", "vy"),
            np.column_stack([kind, start, velocity]),
            ("discrete", *["continuous"] * 4),  # type: ignore[arg-type]
        )
        return codes, self.render(codes), factors

    def predict(self, batch: Any, steps: int) -> np.ndarray:
        """The clip, then the clip backwards and forwards again."""
        given = batch.observations.numpy()
        length = given.shape[1]
        way = [*range(length), *range(length - 2, 0, -1)] or [0]
        return given[:, [way[step % len(way)] for step in range(length + steps)]]
