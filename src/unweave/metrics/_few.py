"""Whether rows are enough for the scores asked: what chance alone would look like."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unweave.core.factors import Factors
from unweave.metrics.discretise import discretise_factors, entropy, resolution

CHANCE = 0.1
"""Share of what there is to know, and mean absolute correlation, that chance alone may look like."""
_NAMED = 3


def chance_shares(factors: Factors) -> dict[str, tuple[float, int]]:
    """For each factor what share of its entropy a code that knows nothing seems to know, and the rows for CHANCE of it.

    The plug-in information of a code in B bins about V values is too high by (B - 1)(V - 1) / 2N nats, of H in all: a
    share (B - 1)(V - 1) / 2NH. Bins are those of `mig`; continuous factors count with their bins as values. Classifiers
    and trees meet the same lack: a few rows of each value.
    """
    discrete = np.array([kind == "discrete" for kind in factors.kinds], dtype=bool)
    numbers, bins = discretise_factors(factors.values, discrete), resolution(factors.values, discrete)
    found = {}
    for name, column, fine in zip(factors.names, numbers.T, bins, strict=True):
        present = column[column >= 0]
        nats = (fine - 1) * (len(np.unique(present)) - 1) / (2 * entropy(present))
        found[name] = nats / len(present), int(np.ceil(nats / CHANCE))
    return found


def few_rows(rows: int, factors: Factors | None, needs: Sequence[str]) -> str:
    """One line where the rows are too few for scores with these needs; empty where they are enough.

    factors: those that are scored, each with at least two values
    """
    told, wanted = [], 0
    if factors is not None and "codes+factors" in needs:
        shares = {name: found for name, found in chance_shares(factors).items() if found[0] > CHANCE}
        worst = sorted(shares, key=lambda name: -shares[name][0])
        if worst:
            named = [f"{_percent(shares[name][0])} of {name}" for name in worst[:_NAMED]]
            more = f" and of {len(worst) - _NAMED} more" if len(worst) > _NAMED else ""
            told.append(f"to know {', '.join(named)}{more}")
            wanted = max(shares[name][1] for name in worst)
    correlation = float(np.sqrt(2 / (np.pi * rows)))  # mean of |r| of independent normal columns
    if correlation > CHANCE and "codes" in needs:
        told.append(f"to correlate by {correlation:.2f}")
        wanted = max(wanted, int(np.ceil(2 / (np.pi * CHANCE**2))))
    if not told:
        return ""
    return (
        f"{rows} rows are few: chance alone makes codes seem {' and '.join(told)}, which intervals do not show; "
        f"score about {_rounded_up(wanted):,} rows or more"
    )


def _percent(share: float) -> str:
    return "all" if share >= 1 else f"{100 * share:.0f} %"


def _rounded_up(number: int) -> int:
    """To two digits: 173 is 180."""
    unit = 10 ** max(0, len(str(number)) - 2)
    return -(-number // unit) * unit
