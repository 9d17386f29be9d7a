"""Settings that the presets of several systems begin with, and what makes a weight fit the size of a picture."""

from __future__ import annotations

import math

from unweave.core.dataspec import DataSpec
from unweave.nets.build import BURGESS as NETS

# Settings that train in minutes on two cores: 8 x 8 patches at stride 4 instead of the costly one-channel edge layers.
QUICK = {
    "nets.stem": 4,
    "nets.channels": [32, 32, 32],
    "nets.hidden": [128],
    "nets.activation": "relu",
    "training.steps": 6000,
    "training.batch_size": 64,
    "training.optimiser.lr": 1e-3,
}

# Networks and optimiser of Burgess et al. 2018, appendix A.1.
BURGESS = {**{f"nets.{name}": value for name, value in NETS.to_dict().items()}, "training.optimiser.lr": 5e-4}


def share_of_picture(spec: DataSpec) -> float:
    """How many values an observation has as a share of a grey picture of 64 x 64, at most 1.

    Published weights of a code's cost were found on such pictures. A smaller one has fewer nats of reconstruction to
    set against them, and its code collapses. Higgins et al. 2017 divide beta by the number of values for that reason.
    """
    return min(1.0, math.prod(spec.shape) / 64**2)
