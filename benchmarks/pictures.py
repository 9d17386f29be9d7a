"""A folder as a user has one: 600 colour pictures of 48 x 48 of twenty figures, with a table of who and what is shown.

python benchmarks/pictures.py FOLDER    # FOLDER/*.png and FOLDER/factors.csv
"""

from __future__ import annotations

import colorsys
import sys
from pathlib import Path

import numpy as np
from PIL import Image

SIDE, PEOPLE, EACH = 48, 20, 30
SHAPES = ("disc", "square", "triangle")
_FINE = 2  # pixels are means over 2 x 2 points


def make_folder(folder: Path, people: int = PEOPLE, each: int = EACH, side: int = SIDE, seed: int = 0) -> Path:
    """Write people * each pictures and the table factors.csv with the columns file, person and shape.

    A person is a colour, a shape and the place of two eyes. Place, size, light and background are drawn for each
    picture, and every pixel has some noise, so that nothing but the person is shared by a person's pictures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    lines = ["file,person,shape"]
    for person in range(people):
        hue, shape, apart = person * 0.618 % 1, person % len(SHAPES), rng.uniform(0.25, 0.5)
        for number in range(each):
            picture = draw(rng, colorsys.hsv_to_rgb(hue, 0.8, 1.0), shape, apart, side)
            name = f"{person:02}-{number:02}.png"
            Image.fromarray(picture).save(folder / name)
            lines.append(f"{name},p{person:02},{SHAPES[shape]}")
    (folder / "factors.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def draw(
    rng: np.random.Generator, colour: tuple[float, float, float], shape: int, apart: float, side: int
) -> np.ndarray:
    """(side, side, 3) bytes of a figure at a place, of a size, in a light and before a background of its own."""
    points = (np.arange(side * _FINE) + 0.5) / (side * _FINE)
    radius, light = rng.uniform(0.15, 0.3), rng.uniform(0.5, 1.0)
    across, down = rng.uniform(radius, 1 - radius, 2)
    x, y = (points[None, :] - across) / radius, (points[:, None] - down) / radius
    inside = (
        x**2 + y**2 < 1,
        np.maximum(abs(x), abs(y)) < 0.85,
        (y < 0.8) & (y > 1.8 * abs(x) - 0.9),
    )[shape]
    eyes = (abs(x) - apart) ** 2 + y**2 < 0.03
    ends = rng.uniform(0, 0.5, (2, 3))  # of a background that changes from top to bottom
    canvas = ends[0] + points[:, None, None] * (ends[1] - ends[0]) + np.zeros((len(points), len(points), 3))
    canvas[inside] = light * np.array(colour)
    canvas[inside & eyes] = 0.05
    pixels = canvas.reshape(side, _FINE, side, _FINE, 3).mean(axis=(1, 3)) + 0.02 * rng.normal(size=(side, side, 3))
    return np.round(255 * pixels.clip(0, 1)).astype(np.uint8)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name the folder to write to: python benchmarks/pictures.py FOLDER")
    print(make_folder(Path(sys.argv[1])))
