"""What is measured on the runs of the ML-VAE reproduction: accuracy and bits of each code against k."""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.studies.reproductions._reproduction import Lab

MOST = 10
DIGITS, FACES = ("mlvae", "vae"), ("faces-mlvae", "faces-vae")


def codes_of(lab: Lab, row: str, seed: int) -> tuple[Any, np.ndarray]:
    """Codes of single test observations (strategy 1) and their classes; faces are of people not trained on."""
    run = lab.run(row, seed)
    if row in FACES:
        data, rows, factor = run.dataset(), run.split_rows()["test"], "subject"
        codes = run.encode_rows(rows)
    else:
        data, factor = lab.held_out(row, seed, "mnist", split="test"), "digit"
        rows = np.arange(len(data))
        codes = run.encode(data.observations(rows))
    assert data.factors is not None
    name = factor if factor in data.factors.names else data.factors.names[0]  # a substitute has its own
    return codes, data.factors.column(name)[rows]


def curves(lab: Lab, row: str, seed: int) -> dict[str, dict[str, list[float]]]:
    """Accuracy and bits for k = 1 .. 10, of each code of a run. All are computed once and kept.

    content, style, z:             accumulated over k images; the classifier is trained on K = 10
    content_own, style_own, z_own: of one image by itself; the classifier is trained on such codes, K = 1
    """

    def make() -> dict[str, Any]:
        from unweave.metrics import classify_groups

        codes, classes = codes_of(lab, row, seed)
        told: dict[str, Any] = {}
        for name in codes:
            values, spreads = codes[name], codes.spread(name)
            told[name] = classify_groups(values, spreads, classes, most=MOST, seed=seed).to_dict()
            single = classify_groups(values, spreads, classes, most=MOST, accumulate=False, seed=seed)
            told[f"{name}_own"] = single.to_dict()
        return told

    return dict(lab.kept(f"curves-{row}-{seed}", make))


def value(lab: Lab, row: str, seed: int, code: str, k: int, what: str = "accuracy") -> float:
    """Accuracy in points, or conditional entropy in bits, of a code accumulated over k images."""
    found = curves(lab, row, seed)[code]
    number = float(found[what][found["members"].index(k)])
    return 100 * number if what == "accuracy" else number


def over_vae(lab: Lab, seed: int, rows: tuple[str, str]) -> float:
    return value(lab, rows[0], seed, "content", 1) - value(lab, rows[1], seed, "z", 1)


def rise(lab: Lab, seed: int, row: str) -> float:
    return value(lab, row, seed, "content", MOST) - value(lab, row, seed, "content", 1)


def worst_step(lab: Lab, seed: int, row: str) -> float:
    """The smallest change of accuracy from one k to the next; below 0 where more images made it worse."""
    accuracy = np.array(curves(lab, row, seed)["content"]["accuracy"])
    return float(100 * np.diff(accuracy).min())


def over_style(lab: Lab, seed: int, row: str) -> float:
    """Content minus style of one image, each read by a classifier that was trained on such codes of single images."""
    return value(lab, row, seed, "content_own", 1) - value(lab, row, seed, "style_own", 1)


def style_rise(lab: Lab, seed: int, row: str) -> float:
    """How much more accurate accumulated style is with k = 10 than with one image."""
    return value(lab, row, seed, "style", MOST) - value(lab, row, seed, "style", 1)


def bits_under_vae(lab: Lab, seed: int, rows: tuple[str, str]) -> float:
    """Conditional entropy at k = 1 of the VAE's code minus that of content."""
    return value(lab, rows[1], seed, "z", 1, "entropy") - value(lab, rows[0], seed, "content", 1, "entropy")


def corrected(lab: Lab, seed: int) -> float:
    """Part of the errors at k = 1 that four images together undo, in %."""
    wrong = 100 - np.array([value(lab, "mlvae", seed, "content", k) for k in (1, 4)])
    return float(100 * (1 - wrong[1] / wrong[0])) if wrong[0] else 0.0  # nothing to undo


def variance_shrinks(lab: Lab, seed: int) -> float:
    """Largest relative difference of the variance of k equal posteriors' product from 1/k of one's, k = 1 .. 100."""
    from unweave.base.normals import product_of_normals

    spread = np.array([1e-3, 0.1, 1.0, 30.0])
    worst = 0.0
    for k in range(1, 101):
        together = product_of_normals(np.zeros((k, 4)), np.tile(spread, (k, 1)))[1]
        worst = max(worst, float(np.abs(together**2 * k / spread**2 - 1).max()))
    return worst
