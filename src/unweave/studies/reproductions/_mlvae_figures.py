"""The figures of the ML-VAE reproduction: swapping, interpolation, generation, accumulation, accuracy against k."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unweave.studies.reproductions._mlvae_measures import MOST, curves
from unweave.studies.reproductions._reproduction import Lab


def accuracy_picture(lab: Lab, path: Path, rows: tuple[str, str]) -> None:
    """Figure 7: accuracy and bits against k, a faint line for each seed and a strong one for their mean."""
    from matplotlib.figure import Figure as Canvas

    lines = {
        "content": (rows[0], "content", "#2b6cb0", "-"),
        "VAE": (rows[1], "z", "#3f8f5f", "-"),
        "style, accumulated": (rows[0], "style", "#c8553d", "-"),
        "style of one image": (rows[0], "style_own", "#c8553d", ":"),
        "VAE, one image, K = 1": (rows[1], "z_own", "#3f8f5f", ":"),
        "content, one image, K = 1": (rows[0], "content_own", "#2b6cb0", ":"),
    }
    canvas = Canvas(figsize=(8, 3.2), layout="constrained")
    for axes, what, unit in zip(
        canvas.subplots(1, 2), ("accuracy", "entropy"), ("accuracy (%)", "conditional entropy (bits)"), strict=True
    ):
        for name, (row, code, colour, style) in lines.items():
            found = [curves(lab, row, seed)[code] for seed in lab.seeds]
            values = np.array([one[what] for one in found]) * (100 if what == "accuracy" else 1)
            k = found[0]["members"]
            axes.plot(k, values.T, color=colour, linewidth=0.5, alpha=0.4, linestyle=style)
            axes.plot(k, values.mean(0), color=colour, linewidth=1.8, label=name, linestyle=style)
        axes.set_xlabel("k, images accumulated", fontsize=8)
        axes.set_ylabel(unit, fontsize=8)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    canvas.axes[1].legend(fontsize=7, frameon=False)
    canvas.savefig(path, dpi=90)


def digit_inputs(lab: Lab, count: int, each: int = 1, grouped: bool = True) -> tuple[Any, Any]:
    """The system of the first seed and, for `count` digits, `each` test images whose content ten images made (or one).

    Strategy 2 of the paper accumulates ten images of a digit; the images shown are the first ones of these.
    """
    from unweave.operations import Inputs

    data = lab.held_out("mlvae", lab.seeds[0], "mnist", split="test")
    run = lab.run("mlvae", lab.seeds[0])
    assert data.factors is not None
    digit = data.factors.values[:, 0]
    rows = np.concatenate([np.flatnonzero(digit == value)[:MOST] for value in range(count)])
    codes = run.encode(data.observations(rows), groups=digit[rows] if grouped else None)
    shown = np.concatenate([np.flatnonzero(digit[rows] == value)[:each] for value in range(count)])
    chosen = rows[shown]
    inputs = Inputs(data.observations(chosen), codes.take(shown), codes, chosen, digit[chosen])
    return run.system(), inputs


def save(shown: Any, system: Any, path: Path) -> None:
    """A compact picture of a grid, without names: the caption says what is where."""
    from PIL import Image

    from unweave.media.pictures import as_pictures, enlarge, montage

    pictures = as_pictures(shown.images, system.spec)
    sheet = montage(enlarge(pictures.grid, 42), pictures.full, 2)
    Image.fromarray(sheet).quantize(48).save(path, "PNG", optimize=True)


def swapping(lab: Lab, path: Path) -> None:
    from unweave.operations import OPERATIONS

    system, inputs = digit_inputs(lab, 10)
    operation = OPERATIONS["swap"]
    save(operation(system, inputs, operation.params(blocks=("style",))), system, path)


def interpolation(lab: Lab, path: Path) -> None:
    from unweave.operations import OPERATIONS

    system, inputs = digit_inputs(lab, 10)
    pair = np.array([3, 9])
    ends = type(inputs)(inputs.observations[pair], inputs.codes.take(pair), inputs.reference, inputs.rows[pair])
    operation = OPERATIONS["interpolate"]
    save(operation(system, ends, operation.params(blocks=("content",), across=("style",))), system, path)


def generation(lab: Lab, path: Path) -> None:
    from unweave.operations import OPERATIONS

    system, inputs = digit_inputs(lab, 10, each=4, grouped=False)
    operation = OPERATIONS["generate"]
    save(operation(system, inputs, operation.params(columns=10)), system, path)


def accumulation(lab: Lab, path: Path) -> None:
    """Of three digits the test image whose content lies most clearly nearer to another digit's, with three others."""
    from unweave.operations import OPERATIONS, Inputs

    data = lab.held_out("mlvae", lab.seeds[0], "mnist", split="test")
    run = lab.run("mlvae", lab.seeds[0])
    assert data.factors is not None
    digit = data.factors.values[:, 0].astype(int)
    reference = run.encode(data.observations(np.arange(len(data))))
    content = reference["content"]
    middles = np.stack([content[digit == value].mean(0) for value in np.unique(digit)])
    distance = np.linalg.norm(content[:, None] - middles[None], axis=2)  # (N, classes)
    own = distance[np.arange(len(digit)), digit].copy()
    distance[np.arange(len(digit)), digit] = np.inf
    lack = own - distance.min(1)  # above 0: nearer to another digit
    worst = [int(np.flatnonzero(digit == value)[lack[digit == value].argmax()]) for value in np.unique(digit)]
    worst = sorted(worst, key=lambda row: lack[row])[-3:]
    rows = np.concatenate([[row, *np.setdiff1d(np.flatnonzero(digit == digit[row]), [row])[:3]] for row in worst])
    inputs = Inputs(data.observations(rows), reference.take(rows), reference, rows, digit[rows].astype(float))
    operation = OPERATIONS["accumulate"]
    save(operation(run.system(), inputs, operation.params(most=4)), run.system(), path)
