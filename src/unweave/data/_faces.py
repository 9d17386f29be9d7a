"""Faces in one `.npz` of our own layout: looked for in the data folder, checked, and made smaller by area averaging.

The sets of faces have no public file with a fixed address and checksum, so nothing is downloaded. An error says which
arrays the file must hold, and each set's page how to make it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unweave.base.errors import DataError
from unweave.data._arrays import naming_damage
from unweave.data._cache import cache_dir


@dataclass(frozen=True)
class FacesFile:
    """A file of N grey pictures with a number of columns.

    filename: its name, in the data folder or in the sub-folder `folder` of it
    arrays:   name -> what it holds, for each array that must be there; `images` is (N, H, W) uint8, others (N,) numbers
    checksum: sha256 of the file that our figures were made with
    """

    folder: str
    filename: str
    arrays: Mapping[str, str]
    checksum: str

    def find(self) -> Path:
        places = (cache_dir() / self.folder / self.filename, cache_dir() / self.filename)
        for place in places:
            if place.is_file():
                return place
        raise DataError(
            f"{self.filename} was not found: it is neither {places[0]} nor {places[1]}, and there is no public address "
            f"to download it from; set UNWEAVE_DATA to the folder it is in, or make it ({self._layout()}; "
            f"docs/data/{self.folder}.md says how)"
        )

    def _layout(self) -> str:
        return "an .npz with " + ", ".join(f"{name}: {words}" for name, words in self.arrays.items())

    def read(self) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
        """The arrays, checked against one another, and a note where the file is another one than ours."""
        path = self.find()
        with naming_damage(path), path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            missing = [name for name in self.arrays if name not in archive.files]
            if missing:
                raise DataError(
                    f"{path} has no array {missing[0]!r} (it has {', '.join(archive.files)}): expected {self._layout()}"
                )
            found = {name: archive[name] for name in self.arrays}
        images = found["images"]
        if images.dtype != np.uint8 or images.ndim != 3 or not images.size:
            raise DataError(f"images of {path} holds {images.dtype} of shape {images.shape}: expected uint8 (N, H, W)")
        for name, column in found.items():
            if name != "images" and (column.shape != (len(images),) or column.dtype.kind not in "iu"):
                raise DataError(
                    f"{name} of {path} holds {column.dtype} of shape {column.shape}: expected {len(images)} whole "
                    "numbers, one for each picture"
                )
        # Another file of this layout is welcome (someone else's copy of the same faces), but figures may differ.
        same = hashlib.sha256(path.read_bytes()).hexdigest() == self.checksum
        return found, () if same else (f"{path} has another sha256 than the file our figures were made with",)


def area_average(images: np.ndarray, height: int, width: int) -> np.ndarray:
    """(N, height, width) float32: each new pixel is the mean of the area of (N, H, W) `images` (0..255) it covers.

    A pixel that lies on a border counts by the part that is inside, so that the mean brightness is kept.
    """
    rows, columns = _cover(images.shape[1], height), _cover(images.shape[2], width)
    means = np.einsum("ih,nhw,jw->nij", rows, images.astype(np.float32), columns, optimize=True)
    return np.clip(means, 0, 255).astype(np.float32)  # weights that add up to 1 may round to above it


def _cover(before: int, after: int) -> np.ndarray:
    """(after, before) float32: how much of each old pixel lies in each new one; every row adds up to 1."""
    step = before / after
    left = np.arange(after)[:, None] * step
    pixels = np.arange(before)[None]
    overlap = np.minimum(left + step, pixels + 1) - np.maximum(left, pixels)
    return (np.clip(overlap, 0, None) / step).astype(np.float32)


def squared(images: np.ndarray, how: str) -> np.ndarray:
    """(N, S, S) from (N, H, W): the middle of the longer side, or black bars beside the shorter one."""
    height, width = images.shape[1:]
    side = min(height, width) if how == "crop" else max(height, width)
    for axis, length in ((1, height), (2, width)):
        if length > side:
            start = (length - side) // 2
            images = np.take(images, np.arange(start, start + side), axis=axis)
        elif length < side:
            bars = [(0, 0), (0, 0), (0, 0)]
            bars[axis] = ((side - length) // 2, side - length - (side - length) // 2)
            images = np.pad(images, bars)
    return images


@dataclass(frozen=True)
class ReadFaces:
    """rows (n,) -> (n, 1, H, W) float32 in 0..1 from (N, H, W) brightness 0..255."""

    images: np.ndarray

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return self.images[rows][:, None].astype(np.float32) / np.float32(255)
