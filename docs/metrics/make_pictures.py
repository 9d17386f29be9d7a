"""Draw how each score answers when a perfect representation gets worse in two ways: mixed, or noisy.

    python docs/metrics/make_pictures.py

Four independent factors of five values are the perfect code. *Mixed*: each pair of dimensions is rotated, from 0 to 45
degrees. *Noisy*: normal noise is added, from none to twice the factors' own standard deviation. Posterior spreads, for
the scores that need them, are 0.1 plus the noise. 1,500 observations, seed 0; bands are 95 % intervals.

`recognition` judges pictures and not codes: dSprites of 32 x 32 pixels, blurred by 0 to 2 pixels, and
discs in their place.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from scipy.ndimage import gaussian_filter

from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.data.dsprites import DSprites
from unweave.metrics import METRICS, evaluate, recognition

OUT = Path(__file__).parent / "images"
LEVELS = np.linspace(0, 1, 7)
BLUE, RED = "#2b6cb0", "#c8553d"


def worlds() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors (N, 4), perfect codes (N, 4) of unit variance, and noise of the same shape."""
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 5, size=(1500, 4))
    codes = (factors - factors.mean(0)) / factors.std(0)
    return factors, codes, rng.normal(size=codes.shape)


def mixed(codes: np.ndarray, level: float) -> np.ndarray:
    angle = level * np.pi / 4
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return codes @ np.kron(np.eye(2), turn)


def as_codes(values: np.ndarray, spread: float) -> Codes:
    return Codes([Block("z", (4,))], {"z": values}, {"z": np.full(values.shape, spread)})


def main() -> None:
    factors, perfect, noise = worlds()
    curves = {
        "mixed: rotated by 0 to 45 degrees": (BLUE, [as_codes(mixed(perfect, level), 0.1) for level in LEVELS]),
        "noisy: noise of 0 to 2 deviations": (RED, [as_codes(perfect + 2 * t * noise, 0.1 + 2 * t) for t in LEVELS]),
    }
    names = METRICS.names()
    scored = {label: [evaluate(codes, factors) for codes in family] for label, (_, family) in curves.items()}
    OUT.mkdir(exist_ok=True)
    for name in names:
        figure = Figure(figsize=(4.6, 2.4), layout="constrained")
        axes = figure.subplots()
        for label, (colour, _) in curves.items():
            results = [
                (level, result[name]) for level, result in zip(LEVELS, scored[label], strict=True) if name in result
            ]
            x, scores = [level for level, _ in results], [score for _, score in results]
            axes.plot(x, [score.value for score in scores], color=colour, marker="o", markersize=3, label=label)
            low, high = zip(*(score.interval or (score.value, score.value) for score in scores), strict=True)
            axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
        low, high = METRICS[name].bounds
        if np.isfinite(low) and np.isfinite(high):
            axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        axes.set(xlabel="how much", ylabel=name)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=7)
        save(figure, name)
    recognised()


def save(figure: Figure, name: str) -> None:
    figure.savefig(OUT / f"{name}.png", dpi=110)
    with Image.open(OUT / f"{name}.png") as picture:  # a palette of 32 colours: a fifth of the size
        small = picture.convert("RGB").convert("P", palette=Image.Palette.ADAPTIVE, colors=32)
    small.save(OUT / f"{name}.png", optimize=True)


def recognised() -> None:
    """Sprites that lose their shape in two ways, and the share that is recognised."""
    data = DSprites(resolution=32, cached=False).load()
    rows = np.random.default_rng(0).permutation(len(data))[:12_000]
    images, shapes = data.observations(rows), data.factors.column("shape")[rows].astype(int)
    unseen = images[10_000:]
    blurs = np.linspace(0, 2, 9)
    worse = [gaussian_filter(unseen, (0, 0, blur, blur)) if blur else unseen for blur in blurs]
    worse.append(discs(unseen))
    scores = [
        recognition(
            pictures,
            shapes[10_000:],
            originals=unseen,
            training=images[:10_000],
            training_labels=shapes[:10_000],
        )
        for pictures in worse
    ]
    figure = Figure(figsize=(7.4, 2.4), layout="constrained")
    left, axes = figure.subplots(1, 2, width_ratios=(1, 1))
    examples = [int(np.flatnonzero((shapes[10_000:] == shape) & (unseen.sum((1, 2, 3)) > 50))[0]) for shape in range(3)]
    grid = [[worse[level][example, 0] for level in (0, 2, 4, 6, 8, 9)] for example in examples]
    left.imshow(np.block([[np.pad(1 - cell, 1, constant_values=0.8) for cell in line] for line in grid]), cmap="gray")
    left.set_xticks(34 * np.arange(6) + 17, ["0", "0.5", "1", "1.5", "2", "disc"], fontsize=7)
    left.set_yticks([])
    left.set_xlabel("blur in pixels", fontsize=8)
    left.spines[:].set_visible(False)
    axes.plot(blurs, [score.value for score in scores[:-1]], color=BLUE, marker="o", markersize=3, label="recognition")
    low, high = zip(*(score.interval or (score.value, score.value) for score in scores[:-1]), strict=True)
    axes.fill_between(blurs, low, high, color=BLUE, alpha=0.2, linewidth=0)
    for value, word, style in (
        (scores[0].parts["originals"], "originals", ":"),
        (scores[-1].value, "discs", "-"),
        (scores[0].parts["exchanged"], "exchanged", "--"),
    ):
        axes.axhline(value, color=RED, linewidth=1, linestyle=style, label=word)
    axes.set(xlabel="blur in pixels", ylabel="recognised", ylim=(0, 1.05))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=7, loc="lower left")
    save(figure, "recognition")


def discs(images: np.ndarray) -> np.ndarray:
    """Discs with the place and the area of what is white in each image."""
    images = images[:, 0]
    height, width = np.mgrid[: images.shape[1], : images.shape[2]]
    area = images.sum(axis=(1, 2))
    y, x = ((images * axis).sum(axis=(1, 2)) / area for axis in (height, width))
    far = np.hypot(height - y[:, None, None], width - x[:, None, None])
    return np.clip(np.sqrt(area / np.pi)[:, None, None] + 0.5 - far, 0, 1)[:, None].astype(np.float32)


if __name__ == "__main__":
    main()
