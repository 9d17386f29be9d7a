"""Extended Yale B, cropped: 38 people under 64 lights."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from unweave.base.card import Card
from unweave.base.errors import DataError
from unweave.base.files import replacing
from unweave.core.dataspec import DataSpec
from unweave.core.factors import Factors
from unweave.data._dataset import DataSet, DataSource
from unweave.data._faces import FacesFile, ReadFaces, area_average, squared
from unweave.data._fitting import Fitted, middle, with_bars

FILE = FacesFile(
    folder="yaleb",
    filename="yaleb_cropped_96x84.npz",
    arrays={
        "images": "uint8 (N, 96, 84)",
        "subject": "the person 1 to 39",
        "azimuth": "of the light, degrees",
        "elevation": "of the light, degrees",
    },
    checksum="aba6473eeee5fa3a01987c2f4cfaf4feef1e7b02d6c92a13caabd56fc2b79d49",
)

_NAME = re.compile(r"yaleB(?P<subject>\d\d)_P00A(?P<azimuth>[+-]\d{3})E(?P<elevation>[+-]\d\d)\.pgm")


class YaleB(DataSource):
    """Faces with the factors `subject`, `azimuth` and `elevation`."""

    name: ClassVar[str] = "yaleb"
    card: ClassVar[Card] = Card(
        summary="Extended Yale B, cropped: 2,414 faces, 38 people under 64 lights, with the direction of the light",
        paper="Georghiades, Belhumeur, Kriegman: From few to many: illumination cone models for face recognition "
        "under variable lighting and pose, 2001",
        bibtex="""@article{georghiades2001few,
  author  = {Georghiades, Athinodoros S. and Belhumeur, Peter N. and Kriegman, David J.},
  title   = {From few to many: illumination cone models for face recognition under variable lighting and pose},
  journal = {{IEEE} Transactions on Pattern Analysis and Machine Intelligence},
  volume  = {23},
  number  = {6},
  pages   = {643--660},
  year    = {2001},
}""",
        needs="the file yaleb_cropped_96x84.npz in the folder UNWEAVE_DATA; its page says how to make it",
    )

    size: int | None = Field(default=64, ge=8, le=96)
    """Height and width after area averaging; none keeps the 96 x 84 pixels of the file."""
    square: Literal["crop", "pad"] = "crop"
    """How 96 x 84 becomes square. crop: the middle 84 rows; pad: black columns beside it. Unused without a size."""
    subjects: str = ""
    """Which people: numbers and ranges such as 1-13,20. All when empty; there is no number 14."""

    @field_validator("subjects", mode="before")
    @classmethod
    def _text(cls, value: object) -> object:
        return str(value) if isinstance(value, int) else value

    @field_validator("subjects")
    @classmethod
    def _readable(cls, value: str) -> str:
        parse_ranges(value)
        return value.strip()

    def fit(self, picture: Any, height: int, width: int) -> Fitted:
        bars = self.size is not None and self.square == "pad"
        return with_bars(picture, height, width) if bars else middle(picture, height, width, averaged=True)

    def load(self) -> DataSet:
        arrays, notes = FILE.read()
        people = chosen(self.subjects, np.unique(arrays["subject"]))
        kept = np.flatnonzero(np.isin(arrays["subject"], people))
        arrays = {name: array[kept] for name, array in arrays.items()}
        images, how = self._pictures(arrays["images"])
        factors = Factors(
            ("subject", "azimuth", "elevation"),
            np.stack(
                [np.searchsorted(people, arrays["subject"]), arrays["azimuth"], arrays["elevation"]], axis=1
            ).astype(np.float64),
            ("discrete", "continuous", "continuous"),
            (tuple(str(number) for number in people), None, None),
        )
        spec = DataSpec((1, *images.shape[1:]), "unit", len(images))
        told = ("pixels 0..255 divided by 255", how, f"{len(people)} people")
        return DataSet(self.name, spec, ReadFaces(images), factors, (*told, *notes))

    def _pictures(self, images: np.ndarray) -> tuple[np.ndarray, str]:
        if self.size is None:
            return images, f"{images.shape[1]} x {images.shape[2]} pixels, as in the file"
        square = squared(images, self.square)
        side = square.shape[1]
        if self.size > side:
            raise DataError(f"size={self.size} is larger than the {side} pixels of the squared pictures: choose less")
        way = f"the middle {side} rows" if self.square == "crop" else f"padded with black to {side} x {side}"
        return area_average(square, self.size, self.size), f"{way}, averaged to {self.size} x {self.size}"


def parse_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """First and last number of each part of "1-3,7": (1, 3) and (7, 7); none for an empty text."""
    ranges = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(\d+)(?:\s*-\s*(\d+))?", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise DataError(f"cannot read {part!r} in the numbers {text!r}: write numbers and ranges such as 1-13,20")
        ranges.append((int(match[1]), int(match[2] or match[1])))
    return tuple(ranges)


def chosen(text: str, people: np.ndarray) -> np.ndarray:
    """Those of the sorted numbers `people` that the text names, all when it is empty; a range may run over a gap."""
    ranges = parse_ranges(text)
    for low, high in ranges:
        if not ((people >= low) & (people <= high)).any():
            told = str(low) if low == high else f"{low} to {high}"
            raise DataError(f"yaleb has no subject {told}: it has {', '.join(str(number) for number in people)}")
    named = np.array([any(low <= number <= high for low, high in ranges) or not ranges for number in people])
    if named.sum() < 2:
        raise DataError(f"subjects={text!r} is one person: choose at least two")
    return people[named]


def pack(folder: str | Path, target: str | Path) -> Path:
    """Make the file from the published folder of pictures (CroppedYale/yaleB01/*.pgm, 192 x 168 each).

    Each pixel of the file is the mean of 2 x 2 pixels. Pictures with ambient light and damaged ones (.pgm.bad) are left
    out.
    """
    from PIL import Image

    found = {path: match for path in sorted(Path(folder).rglob("*.pgm")) if (match := _NAME.fullmatch(path.name))}
    if not found:
        raise DataError(f"{folder} has no pictures such as yaleB01/yaleB01_P00A+000E+00.pgm: give the folder of them")
    images, columns = [], []
    for path, match in found.items():
        try:
            with Image.open(path) as image:
                pixels = np.asarray(image.convert("L"))
        except OSError as error:
            raise DataError(f"picture {path} cannot be read ({error}): copy it again") from error
        if pixels.shape != (192, 168):
            raise DataError(f"picture {path} is {pixels.shape[0]} x {pixels.shape[1]}: expected 192 x 168, the cropped")
        images.append(np.rint(pixels.reshape(96, 2, 84, 2).mean(axis=(1, 3))).astype(np.uint8))
        columns.append([int(match[key]) for key in ("subject", "azimuth", "elevation")])
    subject, azimuth, elevation = np.array(columns).T
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    with replacing(Path(target)) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(
            stream,
            images=np.stack(images),
            subject=subject.astype(np.uint8),
            azimuth=azimuth.astype(np.int16),
            elevation=elevation.astype(np.int16),
        )
    return Path(target)
