"""A picture of any size as one of the size of the data. Pictures are images of Pillow, of bytes or of floats."""

from __future__ import annotations

from typing import Any

Fitted = tuple[Any, str]  # the picture, and what was done in words


def middle(picture: Any, height: int, width: int, averaged: bool = False) -> Fitted:
    """The largest part in the middle that has the wanted proportions, scaled: nothing is squashed.

    averaged: each new pixel is the mean of the area it covers, where the data were made smaller like that
    """
    from PIL import Image, ImageOps

    method = Image.Resampling.BOX if averaged else Image.Resampling.BICUBIC
    return ImageOps.fit(picture, (width, height), method), "the middle, scaled"


def stretched(picture: Any, height: int, width: int) -> Fitted:
    """All of it, scaled by bilinear interpolation; proportions are not kept."""
    from PIL import Image

    return picture.resize((width, height), Image.Resampling.BILINEAR), "bilinear, proportions not kept"


def with_bars(picture: Any, height: int, width: int) -> Fitted:
    """All of it in the middle of black bars, averaged to the size."""
    from PIL import Image

    side = max(picture.size)
    square = Image.new(picture.mode, (side, side))
    square.paste(picture, ((side - picture.width) // 2, (side - picture.height) // 2))
    return square.resize((width, height), Image.Resampling.BOX), "with black bars, averaged"


def with_margin(picture: Any, height: int, width: int, inner: int) -> Fitted:
    """Scaled to `inner` pixels, which are the whole picture but for a black margin."""
    from PIL import Image

    seen = picture if picture.size == (inner, inner) else middle(picture, inner, inner)[0]
    whole = Image.new(picture.mode, (width, height))
    whole.paste(seen, ((width - inner) // 2, (height - inner) // 2))
    return whole, "with a black margin"
