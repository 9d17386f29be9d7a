"""Two handwritten digits in two colour planes, each bouncing by itself (appendix C of Whitney and Fergus)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from unweave.base.card import Card
from unweave.core.dataspec import DataSpec
from unweave.core.factors import FactorKind, Factors
from unweave.data._cache import find
from unweave.data._dataset import DataSet, DataSource
from unweave.data.digits import Digits
from unweave.data.mnist import FILES

COLOURS = ("red", "green")
GRID, SIDE = 64, 28
"""Digits of 28 x 28 pixels move over 64 x 64, a whole number of pixels each step. Smaller frames are means of these, so
that a digit moves by half pixels there and its motion stays as predictable."""
SMALL_TRAIN = 1400
"""Of scikit-learn's 1,797 digits the first so many are `train`, the other 397 `test`; they come without a split."""


class MovingDigits(DataSource):
    """Clips (T, 3, size, size): a red digit and a green one move straight on and are thrown back by the borders.

    Along each axis of 64 pixels, with the free way L = 64 - 28, start s and velocity v, the digit's near edge is at

        p_t = round( L - | (s + v t) mod 2L  -  L | ),      t = 0 .. T - 1.

    Frames of 32 pixels are means over 2 x 2 of these.
    """

    name: ClassVar[str] = "moving_digits"
    card: ClassVar[Card] = Card(
        summary="clips of a red and a green digit that bounce independently, with digits, places and velocities",
        paper="Whitney, Fergus: Disentangling video with independent prediction, 2019; "
        "after Srivastava, Mansimov, Salakhudinov: Unsupervised learning of video representations using LSTMs, 2015",
        bibtex="""@misc{whitney2019disentangling,
  author        = {Whitney, William F. and Fergus, Rob},
  title         = {Disentangling Video with Independent Prediction},
  year          = {2019},
  eprint        = {1901.05590},
  archivePrefix = {arXiv},
}

@inproceedings{srivastava2015unsupervised,
  author    = {Srivastava, Nitish and Mansimov, Elman and Salakhudinov, Ruslan},
  title     = {Unsupervised Learning of Video Representations using {LSTM}s},
  booktitle = {International Conference on Machine Learning},
  pages     = {843--852},
  year      = {2015},
}""",
        needs="nothing; takes MNIST's digits when its files are in the cache folder",
    )

    clips: Annotated[int, Field(ge=1)] = 10_000
    """How many clips there are. Clip n is the same whatever this number is."""
    steps: Annotated[int, Field(ge=2)] = 10
    """Frames of a clip, T."""
    size: Literal[32, 64] = 64
    """Height and width of a frame; a digit's square is 28 pixels in 64 and 14 in 32."""
    speed: Annotated[float, Field(gt=0, le=0.5)] = 0.0625
    """Greatest velocity along each axis as a share of the frame per step: 4 pixels of 64. Velocities are uniform
    between it and its opposite."""
    digits: Literal["auto", "mnist", "sklearn"] = "auto"
    """mnist; or sklearn, the small digits that come with scikit-learn, enlarged; auto: mnist when its files are in the
    cache folder, otherwise sklearn. Nothing is downloaded for auto."""
    split: Literal["train", "test"] = "train"
    """Whose digits: MNIST's 60,000 of training or its 10,000 of testing. The motions differ too."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of digits, places and velocities."""

    def load(self) -> DataSet:
        """The data set; clips are made when they are read."""
        digits, resize, note = self._digits()
        pixel = self.size / GRID  # of a pixel of the grid, in pixels of the frame
        fastest = self.speed * GRID
        # Row n of one long stream: clip n does not depend on how many there are. Train and test have streams apart.
        stream = np.random.default_rng([self.seed, ("train", "test").index(self.split)])
        drawn = stream.random((self.clips, len(COLOURS), 5))
        which = (drawn[..., 0] * len(digits)).astype(np.int64)  # (N, 2) rows of `digits`
        start = (GRID - SIDE) * drawn[..., 1:3]  # (N, 2, 2) plane; x, y
        velocity = fastest * (2 * drawn[..., 3:] - 1)
        assert digits.factors is not None
        table = np.concatenate([digits.factors.values[which], pixel * start, pixel * velocity], axis=2)  # (N, 2, 5)
        kinds: tuple[FactorKind, ...] = ("discrete", "continuous", "continuous", "continuous", "continuous")
        return DataSet(
            self.name,
            DataSpec((self.steps, 3, self.size, self.size), "unit", self.clips),
            _Read(digits, resize, which, start, velocity, self.steps, self.size),
            Factors(
                tuple(f"{colour}_{factor}" for colour in COLOURS for factor in ("digit", "x", "y", "vx", "vy")),
                table.reshape(self.clips, -1),
                kinds * len(COLOURS),
                (tuple("0123456789"), None, None, None, None) * len(COLOURS),
            ),
            (note, f"one digit red, one green; velocities up to {pixel * fastest:g} pixels a step along each axis"),
        )

    def _digits(self) -> tuple[DataSet, np.ndarray | None, str]:
        """The digits, the matrix R that makes R image R^T as large as wanted (none needed: None), which they are."""
        part = {"train": "train", "test": "t10k"}[self.split]
        there = all(find(name, FILES.folder) for name in FILES.checksums if name.startswith(part))
        if self.digits == "mnist" or (self.digits == "auto" and there):
            digits = FILES.load(self.split, "unit", SIDE)
            return digits, None, f"digits of MNIST ({self.split}: {len(digits):,})"
        small = Digits().load()
        first, last = (0, SMALL_TRAIN) if self.split == "train" else (SMALL_TRAIN, len(small))
        return (
            small.take(np.arange(first, last)),
            _interpolating(8, 20, SIDE),  # MNIST's digits, too, fill 20 pixels of 28
            f"scikit-learn's digits enlarged ({self.split}: {last - first:,})"
            + ("; MNIST's files are not in the cache folder" if self.digits == "auto" else ""),
        )


@dataclass(frozen=True)
class _Read:
    """rows (n,) -> (n, T, 3, S, S) float32; `which` (N, 2), `start` and `velocity` (N, 2, 2) are those of all clips."""

    digits: DataSet
    resize: np.ndarray | None
    which: np.ndarray
    start: np.ndarray
    velocity: np.ndarray
    steps: int
    size: int

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        pictures = self.digits.observations(self.which[rows].ravel())[:, 0]
        if self.resize is not None:
            pictures = np.minimum(self.resize @ pictures @ self.resize.T, 1)  # a mean of ones may round to above one
        pictures = pictures.reshape(len(rows), len(COLOURS), SIDE, SIDE)
        corner = np.rint(places(self.start[rows], self.velocity[rows], self.steps, GRID - SIDE)).astype(np.int64)
        planes = np.zeros((len(rows), self.steps, len(COLOURS), GRID, GRID), dtype=np.float32)
        # windows[..., y, x] is the square of a digit with its corner there: a view, so that writing fills the planes.
        windows = np.lib.stride_tricks.sliding_window_view(planes, (SIDE, SIDE), axis=(-2, -1), writeable=True)
        clip, step, plane = np.ogrid[: len(rows), : self.steps, : len(COLOURS)]
        windows[clip, step, plane, corner[..., 1], corner[..., 0]] = pictures[:, None]
        clips = np.zeros((len(rows), self.steps, 3, self.size, self.size), dtype=np.float32)
        clips[:, :, : len(COLOURS)] = _halved(planes) if self.size < GRID else planes
        return clips


def places(start: np.ndarray, velocity: np.ndarray, steps: int, free: float) -> np.ndarray:
    """(n, T, ...) where something is that starts at (n, ...) `start` and is thrown back at 0 and at `free`."""
    time = np.arange(steps).reshape(-1, *[1] * (start.ndim - 1))
    return free - np.abs((start[:, None] + velocity[:, None] * time) % (2 * free) - free)


def _halved(planes: np.ndarray) -> np.ndarray:
    """(..., S / 2, S / 2) means over 2 x 2 pixels of (..., S, S)."""
    rows = planes[..., ::2, :] + planes[..., 1::2, :]
    return np.minimum((rows[..., ::2] + rows[..., 1::2]) / 4, 1)


def _interpolating(length: int, inner: int, outer: int) -> np.ndarray:
    """(outer, length): `inner` pixels by straight lines between the centres of `length` ones, zeros around them."""
    at = np.clip((np.arange(inner) + 0.5) * length / inner - 0.5, 0, length - 1)
    weights = np.maximum(0, 1 - np.abs(at[:, None] - np.arange(length)))
    margin = (outer - inner) // 2
    return np.pad(weights, ((margin, outer - inner - margin), (0, 0))).astype(np.float32)
