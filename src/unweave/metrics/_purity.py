"""What the categories of a code hold: the most frequent label of each, and the purity of a clustering.

With n_kl the number of observations of category k that have label l (Manning, Raghavan and Schütze 2008, section 16.3):

    purity = 1/N sum_k max_l n_kl

It needs no match between categories and labels, so several categories may hold one label. It rises with the number of
categories, and is 1 when each observation has a category of its own: compare it at one number of categories only, and
with `chance`, what the same categories reach with shuffled labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.base.errors import MetricError
from unweave.metrics._interval import generator, weighted_bootstrap_interval

SHUFFLES = 20


@dataclass(frozen=True, eq=False)
class CategoryPurity:
    """Arrays have one entry for each of the K categories, in their order; float(...) is the purity.

    purity:     share of the observations whose label is the most frequent one of their category
    interval:   95 % interval over resampled observations
    chance:     mean purity of the same categories when labels are shuffled
    categories: (K,) the categories; of probabilities the numbers 0 to K - 1, used or not
    rows:       (K,) observations in each
    labels:     (K,) the most frequent label of each, the smallest of several as frequent; NaN in an empty category
    shares:     (K,) share of the category's observations that have it; NaN in an empty category
    """

    purity: float
    interval: tuple[float, float]
    chance: float
    categories: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    shares: np.ndarray

    def __float__(self) -> float:
        return self.purity

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, ready for JSON; null for NaN."""
        return {
            "purity": self.purity,
            "interval": list(self.interval),
            "chance": self.chance,
            "categories": self.categories.tolist(),
            "rows": self.rows.tolist(),
            "labels": [None if np.isnan(label) else float(label) for label in self.labels],
            "shares": [None if np.isnan(share) else float(share) for share in self.shares],
        }


def category_purity(
    categories: Any, labels: Any, *, repeats: int = 200, rng: int | np.random.Generator = 0
) -> CategoryPurity:
    """How far the categories of observations agree with their labels, and the most frequent label of each category.

    categories: (N,) category of each observation, or (N, K) probabilities, of which the largest counts
    labels:     (N,) numbers; NaN where missing (the observation is left out)
    repeats:    bootstrap draws of observations for the interval; draws repeat observations, which makes categories look
                purer, so the replicates are shifted such that their median is the purity
    rng:        seed or generator of draws and shuffles
    """
    draws, _ = generator(rng)
    own, names = _categories(categories)
    truth = np.asarray(labels)
    if truth.shape != own.shape:
        raise MetricError(
            f"labels have shape {truth.shape}: expected ({len(own)},), one for each observation that has a category"
        )
    if not (np.issubdtype(truth.dtype, np.number) or truth.dtype == bool):
        raise MetricError(f"labels have type {truth.dtype}: expected numbers; number the names 0, 1, ...")
    truth = truth.astype(np.float64)
    known = ~np.isnan(truth)
    if not known.any():
        raise MetricError("no observation has a label: there is nothing to compare categories with")
    own, truth = own[known], truth[known]
    values, number = np.unique(truth, return_inverse=True)
    pair = own * len(values) + number
    shape = (len(names), len(values))

    def table(of: np.ndarray) -> np.ndarray:
        """(K, L) how many observations of each category have each label."""
        return np.bincount(of, minlength=shape[0] * shape[1]).reshape(shape)

    def of_draws(weights: np.ndarray) -> np.ndarray:
        """(R,) purities of (N, R) weights."""
        counted = [np.bincount(pair, column, shape[0] * shape[1]).reshape(shape) for column in weights.T]
        return np.array([counts.max(axis=1).sum() for counts in counted]) / len(pair)

    counts = table(pair)
    rows, most = counts.sum(axis=1), counts.max(axis=1)
    purity = float(most.sum() / len(pair))
    shuffled = [table(own * len(values) + draws.permutation(number)) for _ in range(SHUFFLES)]
    used = rows > 0
    return CategoryPurity(
        purity=purity,
        interval=weighted_bootstrap_interval(of_draws, len(pair), draws, repeats, centre=purity, bounds=(0.0, 1.0)),
        chance=float(np.mean([counts.max(axis=1).sum() for counts in shuffled]) / len(pair)),
        categories=names,
        rows=rows,
        labels=np.where(used, values[counts.argmax(axis=1)], np.nan),
        shares=np.where(used, most / np.maximum(rows, 1), np.nan),
    )


def _categories(given: Any) -> tuple[np.ndarray, np.ndarray]:
    """(N,) number of each observation's category, and (K,) the categories themselves."""
    found = np.asarray(given)
    if found.ndim not in (1, 2) or found.size == 0:
        raise MetricError(
            f"categories have shape {found.shape}: expected (N,) categories or (N, K) probabilities of them"
        )
    if not (np.issubdtype(found.dtype, np.number) or found.dtype == bool):
        raise MetricError(f"categories have type {found.dtype}: expected numbers")
    if not np.isfinite(found).all():
        raise MetricError("categories are NaN or infinite: score only finite codes")
    if found.ndim == 2:
        return found.argmax(axis=1), np.arange(found.shape[1])
    names, own = np.unique(found, return_inverse=True)
    return own, names
