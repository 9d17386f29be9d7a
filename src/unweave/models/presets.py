"""Settings that the presets of several systems begin with."""

from __future__ import annotations

from unweave.nets.build import BURGESS as NETS

# Settings that train in minutes on two cores: 8 x 8 patches at stride 4 instead of the costly one-channel edge layers.
QUICK = {
    "nets.stem": 4,
    "nets.channels": [32, 32, 32],
    "nets.hidden": [128],
    "training.steps": 6000,
    "training.batch_size": 64,
    "training.optimiser.lr": 1e-3,
}

# Networks and optimiser of Burgess et al. 2018, appendix A.1.
BURGESS = {**{f"nets.{name}": value for name, value in NETS.to_dict().items()}, "training.optimiser.lr": 5e-4}
