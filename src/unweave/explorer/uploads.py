"""An image of the user's own as an observation. It is read in memory, within limits, and never kept."""

from __future__ import annotations

import io
import warnings

import numpy as np

from unweave.base.errors import DataError
from unweave.core.dataspec import DataSpec
from unweave.data import DataSource, check_takes_pictures, observed

MOST_BYTES = 8_000_000
MOST_PIXELS = 20_000_000
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")


def observation(content: bytes, spec: DataSpec, source: DataSource | None = None) -> np.ndarray:
    """(1, C, H, W) float32 from the bytes of an image file, as `run.encode` reads one of a file."""
    from PIL import Image

    check_takes_pictures(spec)
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
    return observed(image, spec, source, "the image")[0][None]
