"""Mutual information gap of Chen et al. (2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.core.card import Card
from unweave.core.factors import FactorKind
from unweave.core.score import Score
from unweave.metrics._discretise import binned_pairs, information, resolution
from unweave.metrics._inputs import check
from unweave.metrics._interval import bootstrap_interval, generator
from unweave.metrics._metric import metric

BIBTEX = """@inproceedings{chen2018isolating,
  title = {Isolating Sources of Disentanglement in Variational Autoencoders},
  author = {Chen, Ricky T. Q. and Li, Xuechen and Grosse, Roger and Duvenaud, David},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2018}
}"""


@metric(
    Card(
        "gap between the two dimensions that know most about a factor, as a share of the factor's entropy",
        "Chen et al., Isolating Sources of Disentanglement in Variational Autoencoders, NeurIPS 2018",
        BIBTEX,
        "codes and factors",
    )
)
def mig(
    codes: Any,
    factors: Any,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | None = None,
    rng: int | np.random.Generator = 0,
    bins: int | None = None,
    repeats: int = 200,
) -> Score:
    """Equation 6 of the paper. Value 1 is best, 0 worst.

        MIG = 1/K sum_k ( I(z_{j(k)}; v_k) - max_{d != j(k)} I(z_d; v_k) ) / H(v_k),    j(k) = argmax_d I(z_d; v_k)

    z_d are the codes in equal-width bins, I and H plug-in estimates in nats. With one dimension the second term is 0.

    codes:   (N, D) array or `Codes`
    factors: (N, K) array, mapping or `Factors`; NaN where missing (the row is left out for that factor)
    bins:    bins of codes and of continuous factors; None takes for each factor 20, or as many as a discrete factor
             has values if that is more (at most 100), so that a perfect code reaches 1. 20 is the common choice.
    repeats: bootstrap draws of rows for the interval; bins are kept
    """
    checked = check(codes, factors, names, kinds)
    draws, seed = generator(rng)
    per_factor = resolution(checked.factors, checked.discrete) if bins is None else (bins,) * len(checked.names)
    pairs = binned_pairs(checked.codes, checked.factors, checked.discrete, per_factor)
    shape = (checked.codes.shape[1], len(checked.names))

    def measure(rows: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shared, entropy = np.zeros(shape), np.zeros(shape[1])
        for code_bins, factor_bins, columns in pairs:
            shared[:, columns], entropy[columns] = information(code_bins[rows], factor_bins[rows])
        return shared, entropy, _gap(shared, entropy)

    shared, entropy, gap = measure(slice(None))
    value = float(gap.mean())
    interval = bootstrap_interval(
        lambda rows: float(measure(rows)[2].mean()), len(checked.codes), draws, repeats, centre=value, bounds=(0.0, 1.0)
    )
    parts = {
        "factors": checked.names,
        "dimensions": checked.code_names,
        "gap": gap,
        "mutual_information": shared,
        "entropy": entropy,
    }
    settings = {"bins": per_factor, "repeats": repeats, "seed": seed, "factors": checked.names}
    return Score("mig", value, interval, parts, settings)


def _gap(shared: np.ndarray, entropy: np.ndarray) -> np.ndarray:
    """(K,) normalised gaps from (D, K) informations and (K,) entropies; NaN for a factor constant in a draw of rows."""
    top = np.sort(np.vstack([np.zeros((1, shared.shape[1])), shared]), axis=0)[-2:]
    return np.divide(top[1] - top[0], entropy, out=np.full(len(entropy), np.nan), where=entropy > 0)
