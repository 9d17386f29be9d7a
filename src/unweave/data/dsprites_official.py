"""The published dSprites file, for those who have it; `dsprites` renders the same images without it."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar

import numpy as np
from pydantic import field_validator

from unweave.base.card import Card
from unweave.base.errors import DataError
from unweave.core.dataspec import DataSpec
from unweave.core.factors import FactorKind, Factors
from unweave.data._arrays import naming_damage, without_constant
from unweave.data._cache import atomic_write, cache_dir, fetch
from unweave.data._dataset import DataSet, DataSource

FILE = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
URLS = (
    f"https://github.com/google-deepmind/dsprites-dataset/raw/master/{FILE}",
    f"https://raw.githubusercontent.com/google-deepmind/dsprites-dataset/master/{FILE}",
)
CHECKSUM = "md5:7da33b31b13a06f4b04a70402ce90c2e"
NAMES = ("color", "shape", "scale", "orientation", "x", "y")  # columns of latents_classes; posX and posY in the file
SHAPES = ("square", "ellipse", "heart")

_CHUNK = 4096  # images unpacked at a time


class DSpritesOfficial(DataSource):
    """The official `.npz`. Its `metadata` is a pickle and stays unread."""

    name: ClassVar[str] = "dsprites_official"
    card: ClassVar[Card] = Card(
        summary="dSprites from its published file: 737,280 binary images 64 x 64 with five factors",
        paper="Matthey, Higgins, Hassabis, Lerchner: dSprites: Disentanglement testing Sprites dataset, 2017",
        bibtex="""@misc{dsprites17,
  author       = {Matthey, Loic and Higgins, Irina and Hassabis, Demis and Lerchner, Alexander},
  title        = {{dSprites}: Disentanglement testing {Sprites} dataset},
  howpublished = {https://github.com/deepmind/dsprites-dataset/},
  year         = {2017},
}""",
        needs="the official file: downloaded once, in the cache folder or at `path`; writes 377 MB to the cache folder",
    )

    path: Path | None = None
    """The file, or another one of the same layout; none looks in the cache folder and then downloads."""

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return None if path is None else path.expanduser().absolute()

    def load(self) -> DataSet:
        path = self.path if self.path is not None else fetch(FILE, "dsprites_official", URLS, CHECKSUM)
        if not path.is_file():
            raise DataError(f"dSprites file {path} does not exist: check the path, or leave it out to download it")
        with naming_damage(path):
            factors, notes = _factors(path)
            packed, (height, width), how = _packed(path)
        if len(factors) != len(packed):
            raise DataError(f"{path} has {len(packed)} images and {len(factors)} rows of factors: copy it again")
        spec = DataSpec((1, height, width), "binary", len(packed))
        return DataSet(self.name, spec, _Read(packed, height, width), factors, ("pixels 0 and 1", how, *notes))


@dataclass(frozen=True)
class _Read:
    """rows (n,) -> (n, 1, H, W) float32 from one bit per pixel."""

    packed: np.ndarray
    height: int
    width: int

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        bits = np.unpackbits(self.packed[rows], axis=1, count=self.height * self.width)
        return bits.reshape(-1, 1, self.height, self.width).astype(np.float32)


def _factors(path: Path) -> tuple[Factors, tuple[str, ...]]:
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
        for name in ("imgs", "latents_classes"):
            if name not in archive.files:
                raise DataError(
                    f"{path} has no array {name!r} (it has {', '.join(archive.files)}): is it the dSprites file?"
                )
        classes = archive["latents_classes"]
    if classes.ndim != 2 or classes.shape[1] != len(NAMES) or classes.dtype.kind not in "iu":
        raise DataError(
            f"latents_classes of {path} holds {classes.dtype} of shape {classes.shape}: "
            f"expected whole numbers of shape (N, {len(NAMES)})"
        )
    labels = tuple(SHAPES if name == "shape" else None for name in NAMES)
    discrete: FactorKind = "discrete"
    return without_constant(Factors(NAMES, classes, (discrete,) * len(NAMES), labels))


def _packed(path: Path) -> tuple[np.ndarray, tuple[int, int], str]:
    """(N, bytes) images with one bit per pixel, their height and width, and where they are kept.

    All pixels as bytes would take 3 GB. They are read in pieces and packed, once, into the cache folder; the file there
    is named after the checksum that the archive gives its images.
    """
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("imgs.npy")
        with archive.open(entry) as stream:
            count, height, width = _header(path, stream)
        target = cache_dir() / "dsprites_official" / f"packed-{entry.CRC:08x}-{count}x{height}x{width}.npy"
        shape = (count, -(-height * width // 8))
        if not target.is_file():
            try:
                with atomic_write(target) as temporary, archive.open(entry) as stream, temporary.open("wb") as out:
                    np.lib.format.write_array_header_1_0(out, {"descr": "|u1", "fortran_order": False, "shape": shape})
                    for chunk in _pieces(path, stream):
                        out.write(chunk.data)
            except DataError as error:
                if not isinstance(error.__cause__, OSError):
                    raise
                # A cache folder that cannot be written is no reason to stop: the images fit in memory when packed.
                with archive.open(entry) as stream:
                    return np.concatenate(list(_pieces(path, stream))), (height, width), "packed in memory"
    with naming_damage(target):
        packed = np.load(target, mmap_mode="r", allow_pickle=False)
    if packed.shape != shape or packed.dtype != np.uint8:
        raise DataError(f"{target} holds {packed.dtype} of shape {packed.shape}, not uint8 {shape}: delete it")
    return packed, (height, width), f"packed, one bit per pixel, in {target}"


def _header(path: Path, stream: IO[bytes]) -> tuple[int, int, int]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if len(shape) != 3 or dtype not in (np.uint8, np.bool_) or fortran:
        raise DataError(f"imgs of {path} holds {dtype} of shape {shape}: expected uint8 of shape (N, height, width)")
    count, height, width = shape
    if not count:
        raise DataError(f"imgs of {path} is empty: there is nothing to learn from")
    return count, height, width


def _pieces(path: Path, stream: IO[bytes]) -> Iterator[np.ndarray]:
    """(n, bytes) packed images, some thousands at a time; raises when a pixel is neither 0 nor 1."""
    from tqdm import tqdm

    count, height, width = _header(path, stream)
    # disable=None: a bar on a terminal, nothing in log files.
    for start in tqdm(range(0, count, _CHUNK), desc="packing dSprites", disable=None):
        number = min(_CHUNK, count - start)
        content = stream.read(number * height * width)
        if len(content) < number * height * width:
            raise DataError(
                f"{path} is truncated: image {start + len(content) // (height * width)} is missing; copy it again"
            )
        pixels = np.frombuffer(content, dtype=np.uint8).reshape(number, height * width)
        if pixels.max() > 1:
            raise DataError(f"imgs of {path} has the pixel value {pixels.max()}: expected 0 and 1 only")
        yield np.packbits(pixels, axis=1)
    stream.read()  # reaching the end makes zipfile compare the checksum
