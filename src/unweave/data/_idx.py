"""The IDX format of MNIST and its kin, and the data sets that are four such files."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from unweave.base.errors import DataError
from unweave.core.dataspec import DataSpec
from unweave.core.factors import Factors
from unweave.data._cache import fetch
from unweave.data._dataset import DataSet

IdxSplit = Literal["train", "test", "all"]
IdxValues = Literal["unit", "binary"]
SIDE = 28  # pixels of a picture, high and wide

# The third byte of the file says the type of the values; numbers are big-endian.
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path) -> np.ndarray:
    """The array in an IDX file, gzipped or not: bytes 0, 0, type, rank; one 4-byte length per axis; the values."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read or is damaged ({error}): copy it again from its source") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise DataError(f"{path} is not an IDX file (it begins with {content[:4].hex() or 'nothing'}): check the file")
    dtype, start = np.dtype(_TYPES[content[2]]), 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4))
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise DataError(
            f"{path} is truncated or damaged: its header says {' x '.join(map(str, shape))} values, {expected} bytes, "
            f"and it has {len(content)}; copy it again from its source"
        )
    return np.frombuffer(content, dtype=dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


@dataclass(frozen=True)
class IdxFiles:
    """A data set of 28 x 28 pictures in two pairs of files, as MNIST was published.

    folder:    sub-folder of the cache
    mirrors:   addresses of the folder with the files, the first that answers is used
    checksums: sha256 of each file name
    factor:    name of the label, with the names of its values in `labels`
    """

    folder: str
    mirrors: Sequence[str]
    checksums: Mapping[str, str]
    factor: str
    labels: tuple[str, ...]

    def load(self, split: IdxSplit, values: IdxValues, size: int) -> DataSet:
        parts = {"train": ("train",), "test": ("t10k",), "all": ("train", "t10k")}[split]
        images = np.concatenate([self._file(f"{part}-images-idx3-ubyte.gz", rank=3) for part in parts])
        labels = np.concatenate([self._file(f"{part}-labels-idx1-ubyte.gz", rank=1) for part in parts])
        if len(images) != len(labels):
            raise DataError(f"{self.folder} has {len(images)} images and {len(labels)} labels: copy its files again")
        if labels.max(initial=0) >= len(self.labels):
            raise DataError(f"{self.folder} has the label {labels.max()}: expected 0 to {len(self.labels) - 1}")
        notes = [f"pixels {images.min()}..{images.max()} divided by 255"]
        if values == "binary":
            notes.append("binary by the fixed threshold 0.5: pixels of 128 and above are 1, others 0")
        margin = (size - images.shape[1]) // 2
        if margin:
            notes.append(f"padded with {margin} black pixels on each side to {size} x {size}")
        return DataSet(
            self.folder,
            DataSpec((1, size, size), values, len(images)),
            _Read(images, values == "binary", margin),
            Factors((self.factor,), labels[:, None], ("discrete",), (self.labels,)),
            tuple(notes),
        )

    def _file(self, name: str, rank: int) -> np.ndarray:
        path = fetch(name, self.folder, [mirror + name for mirror in self.mirrors], self.checksums[name])
        array = read_idx(path)
        if array.ndim != rank or array.dtype != np.uint8:
            raise DataError(
                f"{path} holds {array.dtype} values of shape {array.shape}: it is another file; copy it again"
            )
        return array


@dataclass(frozen=True)
class _Read:
    """rows (n,) -> (n, 1, size, size) float32."""

    images: np.ndarray  # (N, H, W) uint8
    binary: bool
    margin: int

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        pixels = self.images[rows][:, None]
        unit = (pixels >= 128).astype(np.float32) if self.binary else pixels.astype(np.float32) / np.float32(255)
        sides = (self.margin, self.margin)
        return np.pad(unit, ((0, 0), (0, 0), sides, sides)) if self.margin else unit
