"""Prediction: a clip continued beyond what the system was shown of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pydantic

from unweave.base.config import Config
from unweave.base.errors import ConfigError, ShapeError
from unweave.core.capabilities import Predicts
from unweave.media import Shown
from unweave.operations._operation import Inputs, operation


class PredictParams(Config):
    """How much is shown and how far it goes on."""

    steps: pydantic.PositiveInt = 10
    """Frames to predict."""
    given: pydantic.NonNegativeInt = 0
    """Frames of the clip that the system sees; the others are there to compare. 0: all of them."""


@operation(PredictParams, needs=(Predicts,), inputs=1, default_inputs=2, clips=True)
def predict(system: Any, inputs: Inputs, params: PredictParams) -> Shown:
    """Continues a clip beyond the frames it was given.

    The upper row of each pair is the clip, as far as it goes; the lower is what the system makes of the given frames
    and then of its own predictions. Columns are time; those after the given frames are +1, +2, ...
    """
    import torch

    from unweave.core.batch import Batch

    clips = np.asarray(inputs.observations, dtype=np.float32)  # (n, T, C, H, W)
    count, length = clips.shape[:2]
    if params.given > length:
        raise ConfigError(f"given={params.given} is more than the {length} frames of the clips: give fewer")
    given = params.given or length
    predicted = np.asarray(system.predict(Batch.of(torch.from_numpy(clips[:, :given].copy())), params.steps))
    expected = (count, given + params.steps, *clips.shape[2:])
    if predicted.shape != expected:
        raise ShapeError(f"predict gave frames of shape {predicted.shape}: expected {expected}, those given first")
    width = max(length, given + params.steps)
    images = np.full((count, 2, width, *clips.shape[2:]), np.nan, dtype=np.float32)
    images[:, 0, :length], images[:, 1, : given + params.steps] = clips, predicted
    several = len(inputs.rows) > 1
    rows = [f"{name} #{row}" if several else name for row in inputs.rows for name in ("clip", "predicted")]
    return Shown(
        f"{given} frames given, {params.steps} predicted",
        images.reshape(2 * count, *images.shape[2:]),
        tuple(rows),
        tuple(str(step) if step < given else f"+{step - given + 1}" for step in range(width)),
        moves="forward",
    )
