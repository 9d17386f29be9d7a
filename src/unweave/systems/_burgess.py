"""Networks and optimiser of Burgess et al. 2018, appendix A.1: the start of several systems' `paper` presets."""

from __future__ import annotations

from unweave.nets.build import BURGESS as NETS

BURGESS = {**{f"nets.{name}": value for name, value in NETS.to_dict().items()}, "training.optimiser.lr": 5e-4}
