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


def lights() -> None:
    """Where the light of `yaleb` stands; of the people themselves no picture is shown."""
    from matplotlib.figure import Figure

    data = load("yaleb", size=8)
    assert data.factors is not None
    azimuth, elevation = np.unique(data.factors.values[:, 1:], axis=0).T
    figure = Figure(figsize=(5, 2.4), layout="constrained")
    axes = figure.subplots()
    axes.scatter(azimuth, elevation, s=14, color="#2b6cb0")
    axes.scatter([0], [0], s=70, facecolors="none", edgecolors="#c8553d")
    axes.annotate("at the camera", (0, 0), (14, -14), fontsize=8, color="#c8553d")
    axes.set_xlabel("azimuth of the light (degrees)", fontsize=8)
    axes.set_ylabel("elevation (degrees)", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "yaleb_lights.png", dpi=90)


def moving_digits() -> None:
    """The frames of four clips, one clip below the other; the last two with the digits of scikit-learn."""
    clips = [load("moving_digits", digits=digits).observations([0, 1]) for digits in ("mnist", "sklearn")]
    frames = np.pad(np.concatenate(clips), [(0, 0)] * 3 + [(0, 2)] * 2, constant_values=1)  # (4, T, 3, 66, 66)
    sheet = frames.transpose(0, 3, 1, 4, 2).reshape(4 * 66, COLUMNS * 66, 3)[:-2, :-2]
    Image.fromarray((255 * sheet).round().astype(np.uint8)).quantize(32).save(
        IMAGES / "moving_digits.png", optimize=True
    )


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    sheet("digits", zoom=6)
    sheet("mnist", zoom=2, split="test")
    sheet("fashion_mnist", zoom=2, split="test")
    lights()
    moving_digits()
