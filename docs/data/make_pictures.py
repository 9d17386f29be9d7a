"""Make the pictures of the data-set pages: `python docs/data/make_pictures.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from unweave.data.blobs import Blobs
from unweave.data.dsprites import DSprites, render_sprites
from unweave.data.gaussians import Gaussians, true_total_correlation

IMAGES = Path(__file__).parent / "images"
COLUMNS = 10


def sheet(rows: dict[str, np.ndarray], path: Path, colours: int) -> None:
    """One labelled row of (n, C, H, W) images in [0, 1] under the other, in so many colours to keep the file small."""
    height = max(images.shape[2] for images in rows.values())
    margin, cell = 78, height + 2
    picture = Image.new("RGB", (margin + COLUMNS * cell, len(rows) * cell), "white")
    draw = ImageDraw.Draw(picture)
    for number, (label, images) in enumerate(rows.items()):
        draw.text((4, number * cell + cell // 2 - 6), label, fill="black")
        for column, image in enumerate(np.broadcast_to(images, (len(images), 3, *images.shape[2:]))):
            tile = Image.fromarray((255 * image.transpose(1, 2, 0)).round().astype(np.uint8))
            picture.paste(tile, (margin + column * cell, number * cell))
    picture.quantize(colours).save(path, optimize=True)


def dsprites() -> None:
    ramp = np.linspace(0, 1, COLUMNS)
    start = {"shape": "heart", "scale": 0.8, "orientation": 0.0, "x": 0.5, "y": 0.5}
    walks = {
        "shape": {"shape": ["square", "ellipse", "heart", "triangle"]},
        "scale": {"scale": 0.5 + 0.5 * ramp},
        "orientation": {"orientation": 2 * np.pi * ramp},
        "x": {"x": ramp},
        "y": {"y": ramp},
    }
    rows = {name: render_sprites(**{**start, **walk})[:, None].astype(float) for name, walk in walks.items()}
    for colour in ("palette", "rgb"):
        settings = DSprites(continuous=True, size=COLUMNS, colour=colour, seed=1)
        rows[f'"{colour}"'] = settings.load().observations(range(COLUMNS))
    sheet(rows, IMAGES / "dsprites.png", colours=32)


def blobs() -> None:
    grid = Blobs(steps=COLUMNS).load()
    x, y = grid.factors.values.T
    rows = {"x": grid.observations(np.flatnonzero(y == 5)), "y": grid.observations(np.flatnonzero(x == 5))}
    rows["continuous"] = Blobs(continuous=True, size=COLUMNS).load().observations(range(COLUMNS))
    sheet(rows, IMAGES / "blobs.png", colours=32)


def gaussians() -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(6, 2.2), sharex=True, sharey=True, layout="constrained")
    for axis, rho in zip(axes, (0.0, 0.5, 0.9), strict=True):
        settings = Gaussians(dims=2, rho=rho, size=400)
        x = settings.load().observations(range(400))
        axis.plot(*x.T, ".", markersize=2, color="black")
        axis.set_title(f"rho = {rho}: TC = {true_total_correlation(settings.covariance()):.3f} nats", fontsize=8)
        axis.set_aspect("equal")
        axis.tick_params(labelsize=7)
    figure.savefig(IMAGES / "gaussians.png", dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for make in (dsprites, blobs, gaussians):
        make()
