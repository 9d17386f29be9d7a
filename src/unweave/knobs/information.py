"""How much each knob of a representation knows about the data: a quick estimate, for putting knobs in order only.

For a Gaussian posterior with means m_n and standard deviations s_n of N observations, as if the marginal q(z_d) were
Gaussian as well,

    I(x; z_d)  <=  1/2 log( var_n(m_n) + mean_n(s_n^2) )  -  mean_n( log s_n ),

because no density of that variance has a greater entropy than the Gaussian. It is zero for an unused dimension (all
m_n equal, all s_n equal) and right to rounding for a Gaussian channel. The scores of `unweave.metrics` estimate
I(x; z_d) itself.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unweave.core.codes import Codes
from unweave.knobs.knob import Knob, knobs

TINY = 1e-12


def information(reference: Codes) -> dict[str, float]:
    """Knob name -> nats it knows about the data, estimated from codes of a sample of the data.

    A real dimension has the bound above. One without spreads knows infinitely much or nothing; it gets
    1/2 log(1 + var_n(m_n)), the information through noise of deviation one. A simplex has the mutual information of its
    category, H(mean_n p_n) - mean_n H(p_n), and a whole number the entropy of the values it takes. A knob of several
    steps has the mean over its steps.
    """
    values, _ = reference.flat()
    spreads = reference.flat_spread()
    return {
        knob.name: float(np.mean([_information(knob, values[:, step], spreads[:, step]) for step in knob.by_step]))
        for knob in knobs(reference.blocks)
    }


def in_order(chosen: Iterable[Knob], reference: Codes) -> tuple[Knob, ...]:
    """The knobs, most informative first; equal ones keep their order."""
    known = information(reference)
    return tuple(sorted(chosen, key=lambda knob: -known[knob.name]))


def _information(knob: Knob, values: np.ndarray, spreads: np.ndarray) -> float:
    """Of one knob: values and spreads are (N, its columns)."""
    if not len(values):
        return 0.0
    if knob.block.kind == "simplex":
        return max(0.0, float(_entropy(values.mean(axis=0)) - _entropy(values).mean()))
    if knob.block.kind == "discrete":
        return float(_entropy(np.unique(values, return_counts=True)[1] / len(values)))
    between = float(values.astype(np.float64).var())
    if np.isnan(spreads).any():
        return 0.5 * float(np.log1p(between))
    spreads = np.maximum(spreads.astype(np.float64), TINY)
    return max(0.0, float(0.5 * np.log(between + np.mean(spreads**2)) - np.mean(np.log(spreads))))


def _entropy(probabilities: np.ndarray) -> np.ndarray:
    """-sum_c p_c log p_c over the last axis, 0 log 0 = 0."""
    kept = np.maximum(probabilities.astype(np.float64), TINY)
    return -(kept * np.log(kept)).sum(axis=-1)
