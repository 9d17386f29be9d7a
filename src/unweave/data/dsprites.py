"""dSprites (Matthey et al. 2017) rendered from its formulas: no download, any size, colours, continuous factors."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from unweave.base.card import Card
from unweave.base.errors import ConfigError, DataError
from unweave.core.dataspec import DataSpec
from unweave.core.factors import FactorKind, Factors
from unweave.data._cache import atomic_write, cache_dir
from unweave.data._dataset import DataSet, DataSource
from unweave.data._sprites import Shape, pack_grid, pack_sprites, render_sprites, row_bytes, unpack

__all__ = ["DSprites", "render_sprites"]

Colour = Literal["red", "green", "blue", "yellow", "magenta", "cyan", "white"]
Count = Annotated[int, Field(ge=1)]

_RGB: dict[str, tuple[int, int, int]] = {
    "red": (1, 0, 0),
    "green": (0, 1, 0),
    "blue": (0, 0, 1),
    "yellow": (1, 1, 0),
    "magenta": (1, 0, 1),
    "cyan": (0, 1, 1),
    "white": (1, 1, 1),
}
_POSE = ("scale", "orientation", "x", "y")
_FULL_TURN = (0.0, 360.0)
_LARGEST_CACHE = 4 * 10**9  # bytes; beyond this nobody wants a file by default
_VERSION = 1  # of the renderer's bits and of the cache file; goes into its name


class DSprites(DataSource):
    """White sprites on black: 3 shapes x 6 scales x 40 orientations x 32 x 32 positions = 737,280 binary images."""

    name: ClassVar[str] = "dsprites"
    card: ClassVar[Card] = Card(
        summary="dSprites: all 737,280 images rendered in seconds, with shape, scale, orientation, x and y",
        paper="Matthey, Higgins, Hassabis, Lerchner: dSprites: Disentanglement testing Sprites dataset, 2017",
        bibtex="""@misc{dsprites17,
  author       = {Matthey, Loic and Higgins, Irina and Hassabis, Demis and Lerchner, Alexander},
  title        = {{dSprites}: Disentanglement testing {Sprites} dataset},
  howpublished = {https://github.com/deepmind/dsprites-dataset/},
  year         = {2017},
}""",
        needs="nothing; writes 377 MB to the cache folder unless `cached` is false or `subset` is set",
    )

    resolution: Annotated[int, Field(ge=8, le=1024)] = 64
    """Height and width of the images in pixels."""
    shapes: Annotated[tuple[Shape, ...], Field(min_length=1)] = ("square", "ellipse", "heart")
    """Which shapes, in the order of the factor's values; `triangle` is not in the published set."""
    steps: tuple[Count, Count, Count, Count] = (6, 40, 32, 32)
    """How many values scale, orientation, x and y take on the grid."""
    orientations: tuple[float, float] = _FULL_TURN
    """First and last orientation in degrees, counter-clockwise; some shapes look alike after less than a full turn."""
    colour: Literal["white", "palette", "rgb"] = "white"
    """`white`: one channel, as published; `palette`: one more factor, colour; `rgb`: three more, red, green, blue."""
    palette: Annotated[tuple[Colour, ...], Field(min_length=1)] = ("red", "green", "blue")
    """The values of the factor `colour`, used when `colour` is `palette`."""
    continuous: bool = False
    """Draw factors uniformly from their ranges instead of taking all combinations of a grid."""
    size: Count = 100_000
    """How many images to draw when `continuous` is true."""
    subset: Count | None = None
    """Take this many rows of the grid at random, without repeats, in the order of the grid; none takes all."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of everything drawn at random: subset, continuous factors, rgb colours."""
    cached: bool = True
    """Render the whole grid once, on first reading, into the cache folder; a subset uses that file if it is there."""

    @model_validator(mode="after")
    def _fits_together(self) -> DSprites:
        for name, values in (("shapes", self.shapes), ("palette", self.palette)):
            if len(set(values)) < len(values):
                raise ConfigError(
                    f"setting {name!r} of DSprites names a value twice ({', '.join(values)}): name each once"
                )
        first, last = self.orientations
        if not -360 <= first <= last <= 360:
            raise ConfigError(
                f"setting 'orientations' of DSprites is ({first:g}, {last:g}): give the first and the last one in "
                "degrees, between -360 and 360, the smaller first"
            )
        if self.continuous:
            if self.subset is not None:
                raise ConfigError(
                    "setting 'subset' of DSprites is for the grid: with continuous=true, set 'size' instead"
                )
            return self
        if self.subset is not None and self.subset > self._grid_size():
            raise ConfigError(
                f"setting 'subset' of DSprites is {self.subset}, but there are {self._grid_size()} images: "
                "take fewer, or leave it out to take all"
            )
        needed = self._grid().bytes
        if self.cached and self.subset is None and needed > _LARGEST_CACHE:
            raise ConfigError(
                f"the packed images would take {needed / 1e9:.0f} GB of the cache folder: "
                "set cached=false to render on reading, or a subset, or fewer steps"
            )
        return self

    def load(self) -> DataSet:
        """The data set; no image is rendered before it is read."""
        choice, draw, tint = map(np.random.default_rng, np.random.SeedSequence(self.seed).spawn(3))
        bits: _Grid | _Drawn
        if self.continuous:
            values, tones = self._draw(draw)
            bits, rows = _Drawn(self.shapes, values, self.resolution), np.arange(self.size)
            note = f"{self.size} images with factors drawn at random (seed {self.seed}), rendered on reading"
        else:
            total = self._grid_size()
            chosen = (
                np.arange(total) if self.subset is None else np.sort(choice.choice(total, self.subset, replace=False))
            )
            bits = self._grid()
            # In the published order, where `color` has one value, the colour changes slowest.
            tones, rows = np.divmod(chosen, len(bits))
            values, note = bits.classes(rows), bits.note()

        pose: FactorKind = "continuous" if self.continuous else "discrete"
        names: tuple[str, ...] = ("shape", *_POSE)
        kinds: tuple[FactorKind, ...] = ("discrete", pose, pose, pose, pose)
        labels: tuple[tuple[str, ...] | None, ...] = (self.shapes, None, None, None, None)
        rgb: np.ndarray | None = None
        if self.colour == "palette":
            rgb = np.array([_RGB[colour] for colour in self.palette], dtype=np.float32)[tones]
            values = np.column_stack([tones, values])
            names, kinds, labels = ("colour", *names), ("discrete", *kinds), (self.palette, *labels)
        elif self.colour == "rgb":
            # Not below a half, so that no sprite is lost in the black ground.
            rgb = tint.uniform(0.5, 1.0, size=(len(rows), 3)).astype(np.float32)
            values = np.column_stack([rgb, values])
            names, labels = ("red", "green", "blue", *names), (None, None, None, *labels)
            kinds = ("continuous", "continuous", "continuous", *kinds)
        shape = (1 if rgb is None else 3, self.resolution, self.resolution)
        return DataSet(
            name=self.name,
            spec=DataSpec(shape, "unit" if self.colour == "rgb" else "binary", len(rows)),
            read=_Read(bits, rows, rgb),
            factors=Factors(names, values, kinds, labels),
            notes=(note,),
        )

    def _draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(N, 5) number of the shape and real scale, orientation, x, y; and (N,) number of the colour."""
        low, high = np.array(_ranges(self.orientations)).T
        shape = rng.integers(len(self.shapes), size=self.size)
        pose = rng.uniform(low, high, size=(self.size, 4))
        return np.column_stack([shape, pose]), rng.integers(len(self.palette), size=self.size)

    def _grid(self) -> _Grid:
        return _Grid(self.shapes, self.steps, self.orientations, self.resolution, self.cached, self.subset is None)

    def _grid_size(self) -> int:
        return len(self._grid()) * (len(self.palette) if self.colour == "palette" else 1)


def _ranges(orientations: tuple[float, float]) -> tuple[tuple[float, float], ...]:
    """Lowest and highest scale, orientation (in radians), x and y."""
    first, last = np.radians(orientations).tolist()
    return (0.5, 1.0), (first, last), (0.0, 1.0), (0.0, 1.0)


@dataclass
class _Read:
    """rows (n,) -> (n, C, H, W) float32.

    bits: packed pictures of sprites by number
    rows: (N,) the number of each row's sprite
    rgb:  (N, 3) colours, or None for one white channel
    """

    bits: _Grid | _Drawn
    rows: np.ndarray
    rgb: np.ndarray | None

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        white = unpack(self.bits(self.rows[rows]), self.bits.resolution)[:, None]
        if self.rgb is None:
            return white.astype(np.float32)
        return white * self.rgb[rows][:, :, None, None]


@dataclass
class _Drawn:
    """Packed pictures of sprites with factors (N, 5): number of the shape, scale, orientation, x, y."""

    shapes: tuple[Shape, ...]
    factors: np.ndarray
    resolution: int

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return pack_sprites(self.shapes, *self.factors[rows].T, resolution=self.resolution)


@dataclass
class _Grid:
    """Packed pictures of all combinations of factors, from the cache file or rendered on the spot.

    In the published order x and y change fastest:
    row = (((shape * scales + scale) * orientations + orientation) * xs + x) * ys + y
    """

    shapes: tuple[Shape, ...]
    steps: tuple[int, int, int, int]
    orientations: tuple[float, float]
    resolution: int
    cached: bool
    whole: bool
    _packed: np.ndarray | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return math.prod((len(self.shapes), *self.steps))

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self), self.resolution, row_bytes(self.resolution)

    @property
    def bytes(self) -> int:
        return math.prod(self.shape)

    @property
    def path(self) -> Path:
        steps = "x".join(map(str, self.steps))
        turn = "" if self.orientations == _FULL_TURN else "_{:g}to{:g}deg".format(*self.orientations)
        return cache_dir() / "dsprites" / f"{'-'.join(self.shapes)}_{steps}{turn}_{self.resolution}px_v{_VERSION}.npy"

    def levels(self) -> list[np.ndarray]:
        """The real values of scale, orientation, x and y on the grid."""
        ranges = _ranges(self.orientations)
        return [np.linspace(low, high, count) for (low, high), count in zip(ranges, self.steps, strict=True)]

    def classes(self, rows: np.ndarray) -> np.ndarray:
        """(n, 5) numbers of shape, scale, orientation, x and y of these rows."""
        return np.stack(np.unravel_index(rows, (len(self.shapes), *self.steps)), axis=1)

    def note(self) -> str:
        if not self.cached:
            return "images are rendered from their formulas on reading"
        if self.path.exists() or self.whole:
            when = "read from" if self.path.exists() else "rendered on first reading into"
            return f"packed images are {when} {self.path} ({self.bytes / 1e6:.0f} MB)"
        return "a subset: images are rendered from their formulas on reading"

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        packed = self._open()
        if packed is not None:
            return packed[rows]
        which, *pose = self.classes(rows).T
        real = [level[number] for level, number in zip(self.levels(), pose, strict=True)]
        return pack_sprites(self.shapes, which, *real, resolution=self.resolution)

    def __getstate__(self) -> dict[str, Any]:
        # A worker process maps the file itself instead of being sent its contents.
        return {**self.__dict__, "_packed": None}

    def _open(self) -> np.ndarray | None:
        if self._packed is None and self.cached:
            path = self.path
            if not path.exists():
                if not self.whole:
                    return None
                _write(path, self.shape, self._render)
            self._packed = _map(path, self.shape)
        return self._packed

    def _render(self) -> Iterator[np.ndarray]:
        """All pictures in order, those of one shape, scale and orientation at a time."""
        from tqdm import tqdm

        scales, orientations, xs, ys = self.levels()
        sprites = [(shape, scale, angle) for shape in self.shapes for scale in scales for angle in orientations]
        # disable=None: a bar on a terminal, nothing in log files.
        for shape, scale, angle in tqdm(sprites, desc="rendering dSprites", unit="sprite", disable=None):
            yield pack_grid(shape, scale, angle, xs, ys, resolution=self.resolution)


def _write(path: Path, shape: tuple[int, ...], blocks: Callable[[], Iterator[np.ndarray]]) -> None:
    """An .npy file with a stamp beside it: the checksum of the whole, and the size and time of change that go with it.

    Written as an ordinary file: on a full disk a memory map would end the process, a write raises an error.
    """
    digest = hashlib.sha256()
    with atomic_write(path) as temporary:
        with temporary.open("wb") as stream:
            header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(stream, header)
            for block in blocks():
                data = np.ascontiguousarray(block).data
                digest.update(data)
                stream.write(data)
        status = temporary.stat()
        with atomic_write(_stamp(path)) as stamp:
            content = {"sha256": digest.hexdigest(), "bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
            stamp.write_text(json.dumps(content))


def _map(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """The packed pictures, memory-mapped, after the cheap check; the whole is only read when the file was touched."""
    remedy = "delete it, and it is rendered again"
    try:
        packed = np.load(path, mmap_mode="r", allow_pickle=False)
        stamp = json.loads(_stamp(path).read_text())
        checksum, known = stamp["sha256"], (stamp["bytes"], stamp["mtime_ns"])
        status = path.stat()
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} or the .json beside it cannot be read ({error}): {remedy}") from error
    if packed.shape != shape or packed.dtype != np.uint8:
        raise DataError(f"{path} holds {packed.dtype} {packed.shape} instead of uint8 {shape}: {remedy}")
    touched = known != (status.st_size, status.st_mtime_ns)
    if touched and checksum != hashlib.sha256(packed.data).hexdigest():
        raise DataError(f"{path} is damaged (its checksum is not the one in the .json beside it): {remedy}")
    return packed


def _stamp(path: Path) -> Path:
    return path.with_suffix(".json")
