"""A picture of anyone's as an observation of given data: the one way, for files, uploads and pictures in memory.

Size and colours are made those of the data as the data's own source makes them, and what was done is told in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.base.errors import DataError
from unweave.core.dataspec import DataSpec
from unweave.data._fitting import middle

if TYPE_CHECKING:
    from unweave.data._dataset import DataSource

PLAIN_MODES = ("L", "LA", "RGB", "RGBA")  # modes of Pillow whose bytes are the channels
_MODE_OF = dict(enumerate(PLAIN_MODES, start=1))
_COLOURS = {1: "grey", 2: "grey with transparency", 3: "RGB", 4: "RGB with transparency"}


def check_takes_pictures(spec: DataSpec) -> None:
    """Raise DataError unless an observation can be made of a picture."""
    if not spec.is_image:
        raise DataError(
            f"this run was trained on observations of shape {spec.shape}, not on images: only images can be pictures; "
            "give an array"
        )
    if spec.values not in ("unit", "binary") and not (spec.values == "levels" and spec.levels == 256):
        raise DataError(
            f"this run was trained on {spec.values} values: only images of grey or colour can be pictures; give an "
            "array, scaled as the training data were"
        )
    if spec.shape[0] not in _MODE_OF:
        raise DataError(
            f"this run was trained on images of {spec.shape[0]} channels: a picture has 1 to 4; give an array"
        )


@contextmanager
def opened(file: Path) -> Iterator[Any]:
    """The image of Pillow in a file; one line where it cannot be read, also when that shows later."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            yield image
    except (DataError, MemoryError):
        raise
    except FileNotFoundError:
        raise DataError(f"image {file} does not exist: check the path") from None
    except Exception as error:  # decoders raise almost anything on a damaged file
        raise DataError(f"image {file} is damaged or cannot be read ({_reason(error)}): repair or remove it") from error


def remedy(mode: str) -> str:
    """What to do with a picture whose bytes are not its channels."""
    if mode.startswith(("I", "F")):
        return "more than 8 bits per channel would be lost; save it with 8 bits, or load it as an array"
    return "set channels='grey' or channels='rgb' to convert it"


def observed(picture: Any, spec: DataSpec, source: DataSource | None, where: str) -> tuple[np.ndarray, list[str]]:
    """(C, H, W) float32 of an image of Pillow, and what was done to it in words."""
    channels = spec.shape[0]
    if picture.mode.startswith(("I", "F")):
        raise DataError(f"{where} has the pixel format {picture.mode!r}: {remedy(picture.mode)}")
    own = None if source is None else source.mode(picture.mode)
    if own in PLAIN_MODES and len(own) == channels:  # what the data's own reader does, bit for bit
        notes = [] if own == picture.mode or picture.mode in ("P", "1") else [f"made {_COLOURS[channels]}"]
        seen = picture.convert(own)
    else:
        seen, notes = _coloured(_upright(picture), channels)
    pixels = np.asarray(seen).reshape(seen.height, seen.width, channels)
    sized, more = resized(pixels, spec, source)
    array, scaled = in_range(np.moveaxis(sized, -1, 0), spec)
    return array, [*notes, *more, *scaled]


def resized(pixels: np.ndarray, spec: DataSpec, source: DataSource | None) -> tuple[np.ndarray, list[str]]:
    """(H, W, C) of the size of the data from (h, w, C) bytes or floats, channel by channel."""
    from PIL import Image

    height, width = spec.shape[-2:]
    if pixels.shape[:2] == (height, width):
        return pixels, []
    fit = middle if source is None else source.fit
    kind = np.uint8 if pixels.dtype == np.uint8 else np.float32
    planes, how = [], ""
    for channel in range(pixels.shape[2]):
        plane, how = fit(Image.fromarray(np.ascontiguousarray(pixels[:, :, channel], dtype=kind)), height, width)
        planes.append(np.asarray(plane))
    result = np.stack(planes, axis=-1)
    if kind is np.float32 and spec.values in ("unit", "binary"):
        result = np.clip(result, 0, 1)  # sharp edges overshoot
    return result, [f"resized {pixels.shape[0]} x {pixels.shape[1]} to {height} x {width} ({how})"]


def in_range(values: np.ndarray, spec: DataSpec) -> tuple[np.ndarray, list[str]]:
    """float32 of bytes, or of numbers that were checked, in the range of the data."""
    notes: list[str] = []
    if values.dtype == np.uint8 and spec.values in ("unit", "binary"):
        notes = ["bytes 0..255 divided by 255"]
        values = values.astype(np.float32) / np.float32(255)
    values = values.astype(np.float32)
    if spec.values == "binary" and not np.isin(values, (0, 1)).all():
        values, notes = (values >= 0.5).astype(np.float32), ["0 or 1 by the threshold 0.5"]
    return np.ascontiguousarray(values), notes


def _upright(picture: Any) -> Any:
    """The picture as viewers show it: cameras store it as the sensor lay, and beside it how to turn it."""
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(picture)
    except Exception:  # damaged metadata are no reason to refuse the picture
        return picture


def _coloured(picture: Any, channels: int) -> tuple[Any, list[str]]:
    """The first frame with so many channels; what is transparent lies on black, the background of most data."""
    from PIL import Image

    mode = _MODE_OF[channels]
    if picture.mode == mode:
        return picture, []
    notes = []
    seen = picture.convert("RGBA")
    if channels in (1, 3):
        if seen.getextrema()[3][0] < 255:
            notes = ["what is transparent on black"]
        seen = Image.alpha_composite(Image.new("RGBA", seen.size, (0, 0, 0, 255)), seen)
    plain = {"1": "L", "I;16": "L"}.get(picture.mode, picture.mode)
    same = (
        plain == mode
        or (plain == "P" and channels == 3)
        or (plain in ("LA", "RGBA") and notes and len(plain) - 1 == channels)
    )
    return seen.convert(mode), notes if same else [*notes, f"made {_COLOURS[channels]}"]


def _reason(error: Exception) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    return " ".join(str(error).split()) or type(error).__name__
