"""Semi-supervised deep generative models (Siddharth et al. 2017): section 3.1 on MNIST, figures 2 and 3.

Errors are of the class with the greatest q(y|x) on MNIST's 10,000 test digits. Labelled rows are drawn anew for each
seed, as many of each digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unweave.studies.reproductions._reproduction import (
    Claim,
    Figure,
    Lab,
    PlannedRun,
    Reproduction,
    Scale,
    at_least,
    at_most,
)

LABELS = (100, 600, 1000, 3000)  # M
PUBLISHED = {100: 9.71, 600: 3.84, 1000: 2.88, 3000: 1.57}  # figure 3, this system
M2 = {100: 11.97, 600: 4.94, 1000: 3.60, 3000: 3.92}  # figure 3, Kingma et al. 2014
CURVES = (100, 600, 3000)  # M of the curves against rho
SHARES = (0.1, 0.5, 0.9)  # rho besides M / (N + M)
TRAINED = 50_000  # N + M: the other 10,000 of the training file are for choosing settings
CURVE_SEEDS = 3

PRESETS: dict[Scale, str] = {"quick": "mnist", "paper": "paper"}
MNIST: dict[str, Any] = {"data": "mnist", "split": {"train": 5 / 6, "validation": 1 / 6}}


def row_of(labels: int, rho: float | None = None) -> str:
    """M of the table, or M and rho of a curve; rho None stands for the natural share M / (N + M)."""
    return f"m{labels}" if rho is None else f"m{labels}-rho{1000 * rho:g}"


def natural(labels: int) -> float:
    """M / (N + M), gamma = 1."""
    return labels / TRAINED


def shares(labels: int) -> tuple[float, ...]:
    return (natural(labels), *(share for share in SHARES if share > natural(labels)))


def plan(scale: Scale, seeds: Sequence[int]) -> list[PlannedRun]:
    """The table for all seeds, then the curves, shorter and for three seeds at most, then a style of two dimensions."""
    paper = scale == "paper"

    def steps(labels: int) -> int:
        """More labels, more to learn from them."""
        return 100_000 if paper else 3000 if labels >= 3000 else 2000

    # Figure 3 holds alpha while rho changes; preset `paper` would divide it by rho.
    curve_settings, short = ({"alpha": 50.0}, 100_000) if paper else ({}, 400)

    def planned(row: str, seed: int, length: int, **settings: Any) -> PlannedRun:
        changes = {"label_seed": seed, "training.steps": length, **settings}
        if not paper:
            changes["training.optimiser.lr"] = f"cosine(0.001, 0, {length})"
        return PlannedRun(row=row, system="structured", seed=seed, preset=PRESETS[scale], settings=changes, **MNIST)

    table = [planned(row_of(m), seed, steps(m), labels=m) for seed in seeds for m in LABELS]
    curves = [
        planned(row_of(m, rho), seed, short, labels=m, rho=rho, **curve_settings)
        for seed in seeds[:CURVE_SEEDS]
        for m in CURVES
        for rho in shares(m)
    ]
    sweep = [planned("style2", seed, steps(1000), labels=1000, latent=2) for seed in seeds[:1]]
    return [*table, *curves, *sweep]


# Measurements --------------------------------------------------------------------------------------------------------


def error(lab: Lab, row: str, seed: int) -> float:
    """Per cent of the test digits whose likeliest class is another."""

    def make() -> float:
        import torch

        from unweave.core.batch import Batch

        system = lab.run(row, seed).system()
        label = system.blocks[0].name
        data = lab.held_out(row, seed, "mnist", split="test")
        assert data.factors is not None
        guesses = []
        for start in range(0, len(data), 1000):
            x = data.observations(np.arange(start, min(start + 1000, len(data))))
            guesses.append(system.encode(Batch.of(torch.from_numpy(x)))[label].argmax(axis=1))
        return float(100 * np.mean(np.concatenate(guesses) != data.factors.column(label)))

    return float(lab.kept(f"error-{row}-{seed}", make))


def error_with(labels: int) -> Callable[[Lab, int], float]:
    return lambda lab, seed: error(lab, row_of(labels), seed)


def curve(lab: Lab, labels: int) -> np.ndarray:
    """(rho, seeds) errors in per cent."""
    return np.array(
        [[error(lab, row_of(labels, rho), seed) for seed in lab.seeds[:CURVE_SEEDS]] for rho in shares(labels)]
    )


def best_over_natural(lab: Lab, _: int) -> float:
    """The best rho of the mean curve with the fewest labels, divided by M / (N + M)."""
    labels = CURVES[0]
    return shares(labels)[int(curve(lab, labels).mean(axis=1).argmin())] / natural(labels)


def gain(lab: Lab, _: int) -> float:
    """By how many points the best rho is better than M / (N + M), with the fewest labels."""
    means = curve(lab, CURVES[0]).mean(axis=1)
    return float(means[0] - means.min())


# Figures -------------------------------------------------------------------------------------------------------------


def draw_analogies(lab: Lab, path: Path) -> None:
    from unweave.media.pictures import save_png

    run = lab.run(row_of(100), lab.seeds[0])
    factors = run.dataset().factors
    assert factors is not None
    digits = factors.column("digit")
    rows = [int(row) for digit in range(10) for row in run.split_rows()["validation"] if digits[row] == digit]
    first = {int(digits[row]): row for row in reversed(rows)}
    save_png(run.operate("traverse", [first[digit] for digit in range(10)], dims="digit"), path, run.dataset().spec)


def draw_sweep(lab: Lab, path: Path) -> None:
    from unweave.media.pictures import save_png

    run = lab.run("style2", lab.seeds[0])
    factors = run.dataset().factors
    assert factors is not None
    rows = run.split_rows()["validation"]
    seven = int(rows[factors.column("digit")[rows] == 7][0])
    save_png(run.operate("sweep", [seven], steps=11), path, run.dataset().spec)


def _bars(values: np.ndarray) -> np.ndarray | None:
    """Standard deviations over seeds, the last axis; none of a single seed."""
    return values.std(axis=1, ddof=1) if values.shape[1] > 1 else None


def draw_errors(lab: Lab, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(8, 3.2), layout="constrained")
    FigureCanvasAgg(canvas)
    left, right = canvas.subplots(1, 2)
    for labels in CURVES:
        values = curve(lab, labels)
        left.errorbar(shares(labels), values.mean(1), _bars(values), marker="o", ms=3, label=f"M = {labels}")
        left.plot(natural(labels), values.mean(1)[0], "ks", ms=4)
    left.set(xscale="log", yscale="log", xlabel="supervision rate rho", ylabel="test error (%)")
    left.legend(fontsize=7)
    ours = np.array([[error(lab, row_of(m), seed) for seed in lab.seeds] for m in LABELS])
    right.errorbar(LABELS, ours.mean(1), _bars(ours), marker="o", ms=4, label="ours")
    right.plot(LABELS, [PUBLISHED[m] for m in LABELS], "s--", ms=4, label="published")
    right.plot(LABELS, [M2[m] for m in LABELS], "^:", ms=4, label="M2, published")
    right.set(xscale="log", yscale="log", xlabel="labels M", ylabel="test error (%)")
    right.legend(fontsize=7)
    canvas.savefig(path, dpi=100, format="png")


NOTES = """
- Objective, graph and factorisation are the paper's: q(y|x) q(z|x,y), eq. 1 without a label and eq. 8 with one,
  Concrete relaxation of y, alpha = 50 as in figure 3, a style of 10 dimensions.
- What the classifier is made of is ours, chosen on 10,000 digits of the training file that are not trained on: two
  convolutions with layer normalisation and dropout, and images moved by up to two pixels before the classifier sees
  them. The paper has dense networks on MNIST and moves nothing; it reports no other details. About a dozen settings
  were tried on those digits. Moving images carried most of it: without, the error with 100 labels was far above the
  published one there. So our errors are those of this model, not of the paper's network.
- Half of each batch is labelled in the table (rho = 0.5), from the same choice. The paper mostly takes M / (N + M).
- Quick scale: 2,000 batches of 128 (3,000 with 3,000 labels), about three epochs of the unlabelled digits; the curves
  of figure 3 have 400 batches and three seeds. At a supervision rate of M / (N + M) = 0.002 these show 102 labelled
  digits in all, each about once: part of what a greater rate gains here is that labels are seen more often. The
  analogies are blurred: after so few steps the style still holds part of the shape of its digit.
"""

REPRODUCTION = Reproduction(
    name="structured",
    summary="digits and styles from few labels on MNIST",
    needs=("mnist",),
    tests=(("mnist", {"split": "test"}),),
    plan=plan,
    claims=(
        *(
            Claim(
                f"error-{labels}",
                f"With {labels} labels the error on test digits is at most the published one.",
                f"{PUBLISHED[labels]:.2f} %; M2 {M2[labels]:.2f} %",
                "%",
                error_with(labels),
                at_most(PUBLISHED[labels]),
                (row_of(labels),),
            )
            for labels in LABELS
        ),
        Claim(
            "best-rho",
            "With 100 labels the best supervision rate is above M / (N + M).",
            "figure 3: over-representing sparse labels helps",
            "times",
            best_over_natural,
            at_least(1.01),
            tuple(row_of(CURVES[0], rho) for rho in shares(CURVES[0])),
            per_seed=False,
        ),
        Claim(
            "gain-of-rho",
            "With 100 labels the best supervision rate is at least a point better than M / (N + M).",
            "figure 3, by eye",
            "points",
            gain,
            at_least(1),
            tuple(row_of(CURVES[0], rho) for rho in shares(CURVES[0])),
            per_seed=False,
        ),
    ),
    figures=(
        Figure(
            "analogies",
            "Figure 2a: ten digits that were not trained on, the style of each with every label; 100 labels in all.",
            draw_analogies,
            (row_of(100),),
        ),
        Figure(
            "sweep",
            "Figure 2b: a seven, its style of two dimensions moved along both.",
            draw_sweep,
            ("style2",),
        ),
        Figure(
            "errors",
            "Figure 3: error against supervision rate (squares: M / (N + M)), and against the number of labels. "
            "Bars are standard deviations over seeds.",
            draw_errors,
            (*map(row_of, LABELS), *(row_of(m, rho) for m in CURVES for rho in shares(m))),
        ),
    ),
    notes=NOTES,
)
