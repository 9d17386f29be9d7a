"""An image of the user's own as an observation. It is read in memory, within limits, and never kept."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np

from unweave.core.dataspec import DataSpec
from unweave.core.errors import DataError

MOST_BYTES = 8_000_000
MOST_PIXELS = 20_000_000
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")


def observation(content: bytes, spec: DataSpec) -> np.ndarray:
    """(1, C, H, W) float32 from the bytes of an image file: the middle of it, cut and scaled to the shape of the data.

    A grey system sees the image's brightness; one of two colours sees what is above half of it as 1.
    """
    from PIL import Image, ImageOps

    if not spec.is_image:
        raise DataError(f"this run was trained on observations of shape {spec.shape}: only images can be dropped")
    if spec.values not in ("unit", "binary"):
        raise DataError(f"this run was trained on {spec.values} values: only images of grey or colour can be dropped")
    channels, height, width = spec.shape
    if channels not in (1, 3):
        raise DataError(f"this run was trained on images of {channels} channels: a dropped image has 1 or 3")
    if len(content) > MOST_BYTES:
        raise DataError(f"the image has {len(content):,} bytes: at most {MOST_BYTES:,} are read")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata
            warnings.simplefilter("error", Image.DecompressionBombWarning)  # below the size at which Pillow refuses
            image = Image.open(io.BytesIO(content), formats=FORMATS)
            if image.width * image.height > MOST_PIXELS:
                raise DataError(
                    f"the image has {image.width} x {image.height} pixels: at most {MOST_PIXELS:,} are read; shrink it"
                )
            image.load()
    except DataError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):  # before the size can be asked for
        raise DataError(f"the image has more than {MOST_PIXELS:,} pixels, the most that are read; shrink it") from None
    except Exception:  # the ways in which a damaged file fails are many
        raise DataError(f"this is no image that can be read: give one of {', '.join(FORMATS)}") from None
    fitted = ImageOps.fit(_flat(_upright(image), "L" if channels == 1 else "RGB"), (width, height))
    pixels = np.asarray(fitted, dtype=np.float32).reshape(height, width, channels) / np.float32(255)
    if spec.values == "binary":
        pixels = (pixels >= 0.5).astype(np.float32)
    return np.ascontiguousarray(np.moveaxis(pixels, -1, 0))[None]


def _upright(image: Any) -> Any:
    """The image as viewers show it: cameras store it as the sensor lay, and beside it how to turn it."""
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # damaged metadata are no reason to refuse the picture
        return image


def _flat(image: Any, mode: str) -> Any:
    """The first frame in grey or colour; what is transparent lies on black, the background of most data."""
    from PIL import Image

    seen = image.convert("RGBA")
    below = Image.new("RGBA", seen.size, (0, 0, 0, 255))
    return Image.alpha_composite(below, seen).convert(mode)
