"""Make the pictures of the pages of real data: `python docs/data/make_real_pictures.py` (needs their files)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from unweave.data import load

IMAGES = Path(__file__).parent / "images"
COLUMNS = 10


def sheet(name: str, zoom: int, **settings: str) -> None:
    """One column per value of the label, three examples of each, one under the other."""
    data = load(name, **settings)
    assert data.factors is not None
    label = data.factors.values[:, 0]
    rows = np.stack([np.flatnonzero(label == value)[:3] for value in range(COLUMNS)], axis=1)  # (3, COLUMNS)
    size = data.spec.shape[1] * zoom
    picture = Image.new("L", (COLUMNS * (size + 2) - 2, 3 * (size + 2) - 2), 255)
    for (line, column), row in np.ndenumerate(rows):
        pixels = (255 * data.observations([row])[0, 0]).round().astype(np.uint8)
        picture.paste(
            Image.fromarray(np.kron(pixels, np.ones((zoom, zoom), np.uint8))), (column * (size + 2), line * (size + 2))
        )
    picture.quantize(32).save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    sheet("digits", zoom=6)
    sheet("mnist", zoom=2, split="test")
    sheet("fashion_mnist", zoom=2, split="test")
