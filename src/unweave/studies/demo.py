"""What `unweave demo` trains, and the study that tells how well that goes.

The demo has three minutes on two cores, so it takes a part of dSprites that can be learned in them: 32 x 32 pixels, one
orientation, positions a whole pixel apart, sizes that no two pictures of one shape share. It is told the shape of 300
pictures. Codes that are told nothing were tried: in that time they find position and size, a dimension each, or the
shapes, and not both. A shape is worth few pixels. Where a high price on the KL sorts position and size, the dimensions
that could tell it fall asleep; where none is asked, it is found, but position is spread over all dimensions (rows
`untold` and `vae`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unweave.studies._study import PlannedRun, Study

STEPS = 8000
DATA: Mapping[str, Any] = {"resolution": 32, "steps": [4, 1, 17, 17]}
LABELS: Mapping[str, Any] = {"labels": 300, "rho": 0.25, "alpha": 50.0}
SPLIT: Mapping[str, Any] = {"train": 0.8}
"""More test rows than usual, since there are few images."""

_NETS: Mapping[str, Any] = {
    # Patches of 8 x 8 pixels, cheap and quick to sort position; 64 of them, since 32 draw no corners. With 4 x 4 ones
    # shapes were sharper sooner, and position and size stayed mixed.
    "nets.kind": "convolutional",
    "nets.stem": 4,
    "nets.channels": [64, 64, 64],
    "nets.hidden": [256],
}
_CLASSIFIER: Mapping[str, Any] = {
    "classifier.kind": "convolutional",
    "classifier.stem": 2,
    "classifier.channels": [16, 32, 64],
    "classifier.hidden": [64],
    "shift": 4,  # 300 pictures say little about places: each is shown in others too
}


def recipe(seed: int, steps: int = STEPS) -> PlannedRun:
    """The demo. A KL that costs much gives x, y and size a dimension each; then it falls, and they become precise."""
    told = {**_structured(steps), **LABELS, "label_seed": seed}
    return PlannedRun("demo", "structured", "dsprites", seed, "quick", told, DATA, SPLIT)


def _structured(steps: int) -> dict[str, Any]:
    """The model of a shape and three numbers; its schedules are as long as the training."""
    beta = f"exponential(4, 1, {max(1, steps // 2)}, {3 * steps // 8})"
    own = {"label": "shape", "latent": 3, "beta": beta}
    return {**own, **_NETS, **_CLASSIFIER, **_training(steps)}


def _training(steps: int) -> dict[str, Any]:
    return {
        "training.steps": steps,
        "training.batch_size": 64,
        "training.optimiser.lr": f"cosine(0.001, 0.0001, {steps})",
    }


def _untold(seed: int, steps: int) -> PlannedRun:
    """The same, told nothing: no picture keeps its label."""
    untold = {**_structured(steps), "labels": 0, "rho": None}
    return PlannedRun("untold", "structured", "dsprites", seed, "quick", untold, DATA, SPLIT)


def _vae(seed: int, steps: int) -> PlannedRun:
    """A plain VAE with the same networks, data and steps, and a dimension for each factor."""
    plain = {"latent": 4, "likelihood.kind": "auto", **_NETS, **_training(steps)}
    return PlannedRun("vae", "vae", "dsprites", seed, None, plain, DATA, SPLIT)


def _whole(seed: int, steps: int) -> PlannedRun:
    """The recipe on all of dSprites: 64 x 64 pixels, 40 orientations, and a dimension more for these."""
    larger = {**_structured(steps), **LABELS, "label_seed": seed, "latent": 4, "shift": 8}
    return PlannedRun("whole", "structured", "dsprites", seed, "quick", larger)


def plan(seeds: int, steps: int) -> list[PlannedRun]:
    """Seeds outermost: stopped early, every row has the same seeds."""
    return [row(seed, steps) for seed in range(seeds) for row in (recipe, _untold, _vae, _whole)]


DEMO = Study(
    name="demo_seeds",  # runs/demo is the demo itself
    summary="the recipe of `unweave demo`, beside one that is told nothing, a plain VAE, and all of dSprites",
    plan=plan,
    scores=(
        "mig",
        "mig/gap x",
        "mig/gap y",
        "mig/gap scale",
        "mig/gap shape",
        "kim",
        "recognition",
        "recognition/originals",
        "recognition/mean_picture",
    ),
    steps=STEPS,
)
