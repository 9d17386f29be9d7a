"""Observations a person gives: arrays, pictures, files and folders, read as the data of a run were.

The order of the axes is found where the shape leaves one way to read it; sizes, colours and ranges are made those of
the data, and each change is told. What cannot be made so is one line that names what differs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.base.errors import DataError, unknown_name
from unweave.core.dataspec import DataSpec
from unweave.data._arrays import naming_damage
from unweave.data._check import check_observations, first_outside
from unweave.data._picture import check_takes_pictures, in_range, observed, opened, resized
from unweave.data.folder import SUFFIXES, find_images

if TYPE_CHECKING:
    from unweave.data._dataset import DataSource

ARRAYS = (".npy", ".npz")


class Given:
    """N observations as they were given; they are read, and what was done is counted, when rows are asked for.

    names: N file names, "" for what is no file; None where nothing is a file
    """

    def __init__(self, given: Any, spec: DataSpec, source: DataSource | None = None):
        """
        given:  an array (one observation or a batch), an image of Pillow, a path (image, folder, .npy, .npz), or a list
                of these
        spec:   shape and range of the data they are to be like
        source: where these data came from, which knows how a picture becomes one of them
        """
        self.spec, self._done = spec, Counter[str]()
        self._parts = list(_parts(given, spec, source))
        self._ends = list(accumulate(len(part) for part in self._parts))
        named = any(part.names for part in self._parts)
        self.names = tuple(name for part in self._parts for name in part.names or ("",) * len(part)) if named else None

    def __len__(self) -> int:
        return self._ends[-1]

    def observations(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """(n, *shape) float32."""
        return np.stack([self._one(int(row)) for row in rows])

    def _one(self, row: int) -> np.ndarray:
        part = bisect_right(self._ends, row)
        array, notes = self._parts[part].read(row - (self._ends[part - 1] if part else 0))
        self._done.update(notes)
        return array

    @property
    def note(self) -> str:
        """What was done to the rows that were read, on one line; empty when they were taken as they are."""
        kinds: dict[str, list[str]] = {}
        for change in self._done:
            kinds.setdefault(change.split(" ")[0], []).append(change)
        told = []
        for kind, changes in kinds.items():
            count = sum(self._done[change] for change in changes)
            what = changes[0] if len(changes) == 1 else f"{kind} from {len(changes)} sizes, such as: {changes[0]}"
            told.append(what if count == len(self) else f"{what}: {count:,} of {len(self):,}")
        return "; ".join(told)


@dataclass(frozen=True)
class _Files:
    """Image files."""

    files: tuple[Path, ...]
    names: tuple[str, ...]
    spec: DataSpec
    source: DataSource | None

    def __len__(self) -> int:
        return len(self.files)

    def read(self, row: int) -> tuple[np.ndarray, list[str]]:
        with opened(self.files[row]) as image:
            image.load()
        return observed(image, self.spec, self.source, f"image {self.files[row]}")


@dataclass(frozen=True)
class _Picture:
    """An image of Pillow."""

    picture: Any
    spec: DataSpec
    source: DataSource | None
    names: None = None

    def __len__(self) -> int:
        return 1

    def read(self, row: int) -> tuple[np.ndarray, list[str]]:
        return observed(self.picture, self.spec, self.source, "the picture")


@dataclass(frozen=True)
class _Rows:
    """(n, *event) numbers, checked; images may have another size than the data."""

    array: np.ndarray
    spec: DataSpec
    source: DataSource | None
    bits: bool = False  # bytes that are 0 and 1 already
    names: None = None

    def __len__(self) -> int:
        return len(self.array)

    def read(self, row: int) -> tuple[np.ndarray, list[str]]:
        values = np.asarray(self.array[row])
        notes: list[str] = []
        if values.shape != self.spec.shape:
            pixels, notes = resized(np.moveaxis(values, 0, -1), self.spec, self.source)
            values = np.moveaxis(pixels, -1, 0)
        array, scaled = in_range(values.astype(np.float32) if self.bits else values, self.spec)
        return array, [*notes, *scaled]


_Part = _Files | _Picture | _Rows


def _parts(given: Any, spec: DataSpec, source: DataSource | None) -> Iterator[_Part]:
    if _is_picture(given):
        check_takes_pictures(spec)
        yield _Picture(given, spec, source)
    elif isinstance(given, (str, Path)):
        yield _from_path(Path(given).expanduser(), spec, source)
    elif isinstance(given, (list, tuple)) and (not given or not _is_numbers(given)):
        if not given:
            raise DataError("the list is empty: give at least one observation")
        for each in given:
            yield from _parts(each, spec, source)
    else:
        yield _rows(_as_array(given), spec, source, "the array")


def _is_picture(given: Any) -> bool:
    from PIL import Image

    return isinstance(given, Image.Image)


def _is_numbers(given: Sequence[Any]) -> bool:
    """Whether a list is numbers within numbers, in other words an array; one of arrays, paths or pictures is not."""
    first = given[0]
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    return isinstance(first, (bool, int, float, np.number, np.bool_))


def _as_array(given: Any) -> np.ndarray:
    if isinstance(given, np.ma.MaskedArray):
        raise DataError("the array is masked: fill in what is masked, observations have no gaps")
    if hasattr(given, "detach"):  # a tensor of PyTorch, wherever it is
        given = given.detach().cpu()
    try:
        array = np.asarray(given)
    except (ValueError, TypeError) as error:
        raise DataError(f"the observations are no array ({error}): all need one shape") from None
    if array.dtype.kind not in "buif":
        raise DataError(
            f"cannot encode {type(given).__name__} of type {array.dtype}: give an array of numbers, an image of "
            "Pillow, a path, or a list of these"
        )
    return array


def _from_path(path: Path, spec: DataSpec, source: DataSource | None) -> _Part:
    if path.suffix.lower() in ARRAYS and not path.is_dir():
        return _rows(_read_array(path, source), spec, source, f"array {path}")
    if path.is_dir():
        files = tuple(find_images(path))
        names = tuple(file.relative_to(path).as_posix() for file in files)
    elif path.is_file():
        if path.suffix.lower() not in SUFFIXES:
            raise DataError(
                f"{path} is neither an image ({', '.join(SUFFIXES)}) nor an array ({', '.join(ARRAYS)}): convert it"
            )
        files, names = (path,), (path.name,)
    else:
        raise DataError(f"there is no file or folder {path}: check the path")
    check_takes_pictures(spec)
    return _Files(files, names, spec, source)


def _read_array(path: Path, source: DataSource | None) -> np.ndarray:
    """The array of a .npy; of a .npz the only one, or the one of the name that held the training data."""
    if not path.is_file():
        raise DataError(f"there is no file {path}: check the path")
    with naming_damage(path):
        if path.suffix.lower() == ".npy":
            return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
        with np.load(path, allow_pickle=False) as archive:
            key = getattr(source, "key", None)
            if len(archive.files) == 1:
                return np.asarray(archive[archive.files[0]])
            if key is None:
                raise DataError(f"array {path} holds {', '.join(archive.files) or 'no arrays'}: save one alone as .npy")
            if key not in archive.files:
                raise unknown_name(f"array of {path}", key, archive.files)
            return np.asarray(archive[key])


def _rows(array: np.ndarray, spec: DataSpec, source: DataSource | None, where: str) -> _Rows:
    if array.dtype.kind not in "buif":
        raise DataError(f"{where} holds values of type {array.dtype}: observations are numbers")
    rows = _in_order(array, spec, where)
    found = check_observations(rows, where)
    if rows.shape[1:] != spec.shape and spec.values not in ("unit", "binary", "real"):
        raise DataError(
            f"{where} has images of {rows.shape[-2]} x {rows.shape[-1]} and the run was trained on {spec.values} of "
            f"{spec.shape[-2]} x {spec.shape[-1]}, which cannot be resized: give images of this size"
        )
    high = {"unit": 1.0, "binary": 1.0, "real": np.inf, "counts": np.inf}.get(spec.values, (spec.levels or 1) - 1.0)
    low = -np.inf if spec.values == "real" else 0.0
    is_pixels = array.dtype == np.uint8 and spec.values in ("unit", "binary")
    if not is_pixels and (found.low < low or found.high > high):
        row = first_outside(rows, low, high)
        bytes_too = ", or bytes 0 to 255 (type uint8), which are divided by 255" if high == 1 else ""
        raise DataError(
            f"{where} has {array.dtype} values {found.range}, first outside in observation {row}; the run was trained "
            f"on values {low:g} to {high:g}: give the same range{bytes_too}"
        )
    if spec.values in ("levels", "counts", "tokens") and not found.whole:
        raise DataError(f"{where} has fractions ({found.range}); the run was trained on whole numbers: round them")
    return _Rows(rows, spec, source, bits=spec.values == "binary" and found.high <= 1)


def _in_order(array: np.ndarray, spec: DataSpec, where: str) -> np.ndarray:
    """(n, *event) with the axes in the order of the data; the height and width of images may differ from theirs.

    Ways to read a shape, best first: as the data are, with channels last, grey without an axis of channels. A way in
    which all lengths agree wins over one in which an image has another size.
    """
    ways = [way for way in _ways(array, spec) if way.shape[1:] == spec.shape]
    if ways:
        return ways[0]
    loose = [way for way in _ways(array, spec) if spec.is_image and way.shape[1] == spec.shape[0]]
    loose = [way for way in loose if min(way.shape[-2:]) > 1] or loose  # an axis of one is that of the channels
    if not loose:
        raise DataError(f"{where} has shape {array.shape}: {_expected(spec)}")
    if any(way.shape != loose[0].shape for way in loose):
        raise DataError(
            f"{where} has shape {array.shape}, which can be read in two ways: give it as (N, C, H, W), "
            f"in the size {spec.shape[-2]} x {spec.shape[-1]}"
        )
    return loose[0]


def _ways(array: np.ndarray, spec: DataSpec) -> Iterator[np.ndarray]:
    """(n, *event) of each way to read the axes, best first."""
    axes = len(spec.shape)
    pictures = spec.is_image or spec.is_clip
    for whole in (array, array[None]):
        if whole.ndim == axes + 1:
            yield whole
            if pictures and whole.shape[-1] == spec.shape[-3]:
                yield np.moveaxis(whole, -1, -3)
    if pictures and spec.shape[-3] == 1:
        for whole in (array, array[None]):
            if whole.ndim == axes:
                yield np.expand_dims(whole, -3)


def _expected(spec: DataSpec) -> str:
    """What an array would have to be, and what to do when an image has other channels."""
    sizes = ", ".join(map(str, spec.shape))
    told = f"the run was trained on observations of shape ({sizes}); give one of them or a batch (N, {sizes})"
    if not spec.is_image:
        return told
    channels = "1 channel" if spec.shape[0] == 1 else f"{spec.shape[0]} channels"
    return f"{told}, of any height and width with {channels}; pictures (files, Pillow) are converted"
