"""Networks and optimiser of Burgess et al. 2018, appendix A.1: the start of several systems' `paper` presets."""

from __future__ import annotations

BURGESS = {
    "latent": 10,
    "nets.channels": [32, 32, 32, 32],
    "nets.hidden": [256, 256],
    "nets.stem": 2,
    "nets.activation": "relu",
    "training.optimiser.lr": 5e-4,
}
