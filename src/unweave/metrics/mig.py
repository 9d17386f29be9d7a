"""Mutual information gap of Chen et al. (2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.base.card import Card
from unweave.core.factors import FactorKind
from unweave.core.score import Score
from unweave.metrics._inputs import as_variables, check
from unweave.metrics._interval import generator, weighted_bootstrap_interval
from unweave.metrics._metric import metric
from unweave.metrics.discretise import WeightedInformation, binned_pairs, information, resolution

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
    A category of `Codes` is one variable, however many columns it has.

    codes:   (N, D) array or `Codes`
    factors: (N, K) array, mapping or `Factors`; NaN where missing (the row is left out for that factor)
    bins:    bins of codes and of continuous factors; None takes for each factor 20, or as many as a discrete factor
             has values if that is more (at most 100), so that a perfect code reaches 1. 20 is the common choice.
    repeats: bootstrap draws of rows for the interval; bins are kept
    """
    check(codes, factors, names, kinds)  # of the codes as they were given: an error names their columns
    variables, code_names, categories = as_variables(codes)
    checked = check(variables, factors, names, kinds)
    draws, seed = generator(rng)
    per_factor = resolution(checked.factors, checked.discrete) if bins is None else (bins,) * len(checked.names)
    pairs = binned_pairs(checked.codes, checked.factors, checked.discrete, per_factor, categories)
    shape = (checked.codes.shape[1], len(checked.names))

    shared, entropy = np.zeros(shape), np.zeros(shape[1])
    for code_bins, factor_bins, columns in pairs:
        shared[:, columns], entropy[columns] = information(code_bins, factor_bins)
    gap = _gap(shared, entropy)
    value = float(gap.mean())
    weighted = [(WeightedInformation(codes, of_factors), columns) for codes, of_factors, columns in pairs]

    def of_draws(weights: np.ndarray) -> np.ndarray:
        shared, entropy = np.zeros((weights.shape[1], *shape)), np.zeros((weights.shape[1], shape[1]))
        for measure, columns in weighted:
            shared[:, :, columns], entropy[:, columns] = measure(weights)
        return _gap(shared, entropy).mean(axis=-1)

    interval = weighted_bootstrap_interval(
        of_draws, len(checked.codes), draws, repeats, centre=value, bounds=(0.0, 1.0)
    )
    parts = {
        "factors": checked.names,
        "dimensions": checked.code_names if code_names is None else code_names,
        "gap": gap,
        "mutual_information": shared,
        "entropy": entropy,
    }
    settings = {"bins": per_factor, "repeats": repeats, "seed": seed, "factors": checked.names}
    return Score("mig", value, interval, parts, settings)


def _gap(shared: np.ndarray, entropy: np.ndarray) -> np.ndarray:
    """(..., K) normalised gaps from (..., D, K) informations and (..., K) entropies.

    NaN for a factor that is constant in a draw of rows.
    """
    none = np.zeros((*shared.shape[:-2], 1, shared.shape[-1]))
    top = np.sort(np.concatenate([none, shared], axis=-2), axis=-2)[..., -2:, :]
    gap = top[..., 1, :] - top[..., 0, :]
    return np.divide(gap, entropy, out=np.full(entropy.shape, np.nan), where=entropy > 0)
