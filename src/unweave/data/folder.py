"""The user's own folder of images, with a factor table or sub-folders as a factor where there are any."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from unweave.base.card import Card
from unweave.base.errors import DataError
from unweave.core.dataspec import DataSpec
from unweave.core.factors import FactorKind, Factors
from unweave.data._arrays import build
from unweave.data._dataset import DataSet, DataSource
from unweave.data._fitting import Fitted, middle, stretched
from unweave.data._picture import PLAIN_MODES, opened, remedy
from unweave.data._table import factors_from_columns, read_table

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp")
Channels = Literal["keep", "grey", "rgb"]
Pixels = Annotated[int, Field(ge=1, le=4096)]

_MOST_BYTES = 1 << 31  # decoded images up to 2 GB are kept in memory, more are decoded when they are read


class Folder(DataSource):
    """Images in a folder and its sub-folders, sorted by path."""

    name: ClassVar[str] = "folder"
    card: ClassVar[Card] = Card(
        summary="your own images in a folder: PNG, JPEG, GIF (first frame), BMP, WebP",
        needs="path to the folder; optional factor table",
    )

    path: Path
    """The folder; sub-folders are searched too, names that begin with a dot are not."""
    factors: Path | None = None
    """CSV or Parquet table with a row for each image: in the order of the sorted paths, or with a column `file`."""
    factor_names: tuple[str, ...] | None = None
    """Columns of the table to use; all when none."""
    factor_kinds: dict[str, FactorKind] = Field(default_factory=dict)
    """Kinds of factors that should not be judged by their values, for example {"age": "continuous"}."""
    folder_factor: str | None = None
    """Name of a further factor: the first sub-folder an image lies in."""
    channels: Channels = "keep"
    """grey and rgb convert every image; keep wants all images to have the same channels."""
    resize: Pixels | tuple[Pixels, Pixels] | None = None
    """Make every image this high and wide (height, width, or one number for both); proportions are not kept."""

    @field_validator("factor_names", mode="before")
    @classmethod
    def _listed(cls, names: Any) -> Any:
        return [name.strip() for name in names.split(",")] if isinstance(names, str) else names

    @field_validator("path", "factors")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return None if path is None else path.expanduser().absolute()

    def fit(self, picture: Any, height: int, width: int) -> Fitted:
        return middle(picture, height, width) if self.resize is None else stretched(picture, height, width)

    def mode(self, mode: str) -> str:
        if self.channels != "keep":
            return {"grey": "L", "rgb": "RGB"}[self.channels]
        # A palette is a way of storing colours and one bit a way of storing grey; the picture is the same.
        return {"P": "RGB", "1": "L"}.get(mode, mode)

    def load(self) -> DataSet:
        files = find_images(self.path)
        names = [file.relative_to(self.path).as_posix() for file in files]
        decode = _Decode(self)
        shape = _one_shape(files, names, decode)  # (H, W, C)
        factors, factor_notes = self._factors(names)
        notes = (f"{len(files)} images, {names[0]} to {names[-1]}", *decode.notes(), *factor_notes)
        if len(files) * int(np.prod(shape)) > _MOST_BYTES:
            height, width, count = shape
            spec = DataSpec((count, height, width), "unit", len(files))
            found = ("pixels 0..255 divided by 255", "too large for the memory: images are decoded when they are read")
            return DataSet(self.path.name, spec, _Lazy(tuple(files), decode), factors, (*found, *notes))
        pixels = np.stack([decode(file) for file in files])
        dataset = build(pixels, factors, "auto", "NHWC", self.path.name, f"folder {self.path}")
        return replace(dataset, notes=(dataset.notes[0], *notes))

    def _factors(self, names: Sequence[str]) -> tuple[Factors | None, tuple[str, ...]]:
        found: list[Factors] = []
        notes: tuple[str, ...] = ()
        if self.folder_factor is not None:
            for name in names:
                if "/" not in name:
                    raise DataError(
                        f"image {self.path / name} is in no sub-folder: folder_factor={self.folder_factor!r} needs one"
                    )
            column = np.array([name.split("/")[0] for name in names], dtype=object)
            for inner in sorted(self.path.iterdir()):
                if inner.is_dir() and not inner.name.startswith(".") and inner.name not in column:
                    raise DataError(
                        f"sub-folder {inner} has no images: folder_factor={self.folder_factor!r} makes an empty group "
                        "of it; put images into it or remove it"
                    )
            here, notes = factors_from_columns(
                {self.folder_factor: column}, f"folder {self.path}", (self.folder_factor,)
            )
            found.append(here)
        if self.factors is not None:
            table, more = read_table(self.factors, len(names), self.factor_names, self.factor_kinds, names)
            found, notes = [*found, table], notes + more
        if not found:
            return None, notes
        return (
            Factors(
                tuple(name for factors in found for name in factors.names),
                np.concatenate([factors.values for factors in found], axis=1),
                tuple(kind for factors in found for kind in factors.kinds),
                tuple(labels for factors in found for labels in factors.labels),
            ),
            notes,
        )


@dataclass(frozen=True)
class _Decode:
    """A file's pixels, (H, W, C) uint8."""

    source: Folder

    def __call__(self, file: Path) -> np.ndarray:
        with opened(file) as image:
            picture = image.convert(self.source.mode(image.mode))
        if self.size is not None:
            picture = self.source.fit(picture, *self.size)[0]
        pixels = np.asarray(picture)
        return pixels[:, :, None] if pixels.ndim == 2 else pixels

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) that every image is made, None where they keep the one they have."""
        resize = self.source.resize
        return (resize, resize) if isinstance(resize, int) else resize

    def notes(self) -> tuple[str, ...]:
        channels = self.source.channels
        changed = () if channels == "keep" else (f"every image converted to {channels}",)
        if self.size is None:
            return changed
        return (*changed, f"every image resized to {self.size[0]} x {self.size[1]} (bilinear)")


@dataclass(frozen=True)
class _Lazy:
    """rows (n,) -> (n, C, H, W) float32, decoded on reading."""

    files: tuple[Path, ...]
    decode: _Decode

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        pixels = np.stack([self.decode(self.files[row]) for row in rows]).transpose(0, 3, 1, 2)
        return np.ascontiguousarray(pixels, dtype=np.float32) / np.float32(255)


def find_images(folder: Path) -> list[Path]:
    """All image files, sorted by path."""
    if not folder.is_dir():
        raise DataError(f"folder {folder} does not exist or is not a folder: check the path")

    def refuse(error: OSError) -> None:
        raise DataError(f"folder {error.filename} cannot be read ({error.strerror}): check its permissions") from error

    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(parent, name) for name in names if name.lower().endswith(SUFFIXES) and not name.startswith(".")]
    if not files:
        raise DataError(f"folder {folder} has no images: expected files ending in {', '.join(SUFFIXES)}")
    return sorted(files, key=lambda file: file.relative_to(folder).parts)


def _one_shape(files: Sequence[Path], names: Sequence[str], decode: _Decode) -> tuple[int, int, int]:
    """The (H, W, C) that all images have after `decode`; the headers alone are read."""
    first: tuple[tuple[int, int], str] | None = None
    for file in files:
        with opened(file) as image:
            size = decode.size or (image.height, image.width)
            mode, stored = decode.source.mode(image.mode), image.mode
        if mode not in PLAIN_MODES or stored.startswith(("I", "F")):
            raise DataError(f"image {file} has the pixel format {stored!r}: {remedy(stored)}")
        if first is None:
            first = (size, mode)
        if size != first[0]:
            raise DataError(
                f"image {file} is {size[0]} x {size[1]} and {names[0]} {first[0][0]} x {first[0][1]} (height x width): "
                "all images need one size; set resize=64 or another number to make them so"
            )
        if mode != first[1]:
            raise DataError(
                f"image {file} has channels {mode} and {names[0]} {first[1]}: "
                "all images need the same; set channels='grey' or channels='rgb' to convert them"
            )
    assert first is not None
    return (*first[0], len(first[1]))
