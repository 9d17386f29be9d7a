"""Seeds: every random number of a run is a function of the run's seed and of what it is for.

Training seeds PyTorch anew at each step from (run seed, step, process), so that step t draws the same numbers whether
the run was interrupted before or not; no generator state has to be saved.
"""

from __future__ import annotations

import numpy as np


def derive_seed(*parts: int) -> int:
    """A 63-bit seed that is a hash of the given numbers, e.g. `derive_seed(run_seed, step, rank)`."""
    high, low = np.random.SeedSequence([part & 0xFFFFFFFFFFFFFFFF for part in parts]).generate_state(2, np.uint32)
    return (int(high) << 32 | int(low)) >> 1
