"""Explicitness of Ridgeway and Mozer (2018): can a linear classifier read a factor's values from the codes?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.core.card import Card
from unweave.core.errors import MetricError
from unweave.core.factors import FactorKind
from unweave.core.score import Score
from unweave.metrics._discretise import BINS, discretise_factors
from unweave.metrics._inputs import check
from unweave.metrics._interval import generator, repeat_interval
from unweave.metrics._metric import metric
from unweave.metrics._rows_by_value import RowsByValue

BIBTEX = """@inproceedings{ridgeway2018learning,
  title = {Learning Deep Disentangled Embeddings with the {F}-Statistic Loss},
  author = {Ridgeway, Karl and Mozer, Michael C.},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2018}
}"""


@metric(
    Card(
        "how well a linear classifier tells each value of a factor from the others (ROC area, 0 is chance)",
        "Ridgeway and Mozer, Learning Deep Disentangled Embeddings with the F-Statistic Loss, NeurIPS 2018",
        BIBTEX,
        "codes and factors",
    ),
    bounds=(-1.0, 1.0),
)
def explicitness(
    codes: Any,
    factors: Any,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | None = None,
    rng: int | np.random.Generator = 0,
    bins: int = BINS,
    inverse_penalty: float = 1.0,
    repeats: int = 5,
) -> Score:
    """Section 3 of the paper. Value 1 is best, 0 is chance (on few rows a little below 0 can happen).

        explicitness = 1/K sum_k 1/V_k sum_v ( AUC_kv - 1/2 ) / (1/2)

    AUC_kv: area under the ROC curve, on rows held out, of a logistic regression from all D codes to v_k = v against
    v_k != v. Half of the rows of each value train, the other half test; a value with a single row is left out.

    codes:           (N, D) array or `Codes`
    factors:         (N, K) array, mapping or `Factors`; NaN where missing (the row is left out for that factor)
    bins:            equal-width bins that serve as the values of a continuous factor
    inverse_penalty: C of the ridge penalty |w|^2 / 2C on standardised codes
    repeats:         new halves each time; the value is the mean
    """
    from threadpoolctl import threadpool_limits

    checked = check(codes, factors, names, kinds)
    if repeats < 2:
        raise MetricError(f"repeats = {repeats}: an interval needs at least 2")
    draws, seed = generator(rng)
    numbers = discretise_factors(checked.factors, checked.discrete, bins)
    with threadpool_limits(limits=1):  # threads only wait for each other on vectors this short
        areas = [
            np.stack([_areas(checked.codes, rows, draws, inverse_penalty) for _ in range(repeats)])
            for rows in (RowsByValue(numbers[:, k], name) for k, name in enumerate(checked.names))
        ]  # K arrays (R, V_k)
    per_factor = np.stack([2 * area.mean(axis=1) - 1 for area in areas], axis=1)  # (R, K)
    values = per_factor.mean(axis=1)
    parts = {
        "factors": checked.names,
        "explicitness_per_factor": per_factor.mean(axis=0),
        "area_per_value": {name: area.mean(axis=0) for name, area in zip(checked.names, areas, strict=True)},
        "values": values,
    }
    settings = {
        "bins": bins,
        "inverse_penalty": inverse_penalty,
        "repeats": repeats,
        "seed": seed,
        "factors": checked.names,
    }
    return Score("explicitness", float(values.mean()), repeat_interval(values, bounds=(-1.0, 1.0)), parts, settings)


def _areas(codes: np.ndarray, rows: RowsByValue, rng: np.random.Generator, inverse_penalty: float) -> np.ndarray:
    """(V,) ROC areas on the held-out half of the values that have at least two rows."""
    from sklearn.linear_model import LogisticRegression

    train, test = _halves(rows, rng)
    numbers = rows.numbers
    values = np.unique(numbers[test])
    if len(values) < 2:
        raise MetricError(
            f"factor {rows.name!r} has fewer than two values with two rows each: give more rows, "
            "or kind 'continuous' to bin its values"
        )
    centre, scale = codes[train].mean(axis=0), codes[train].std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(np.abs(centre), 1e-300), scale, 1.0)
    train_x, test_x = (codes[train] - centre) / scale, (codes[test] - centre) / scale
    areas = np.empty(len(values))
    for place, value in enumerate(values):
        model = LogisticRegression(C=inverse_penalty, max_iter=2000).fit(train_x, numbers[train] == value)
        areas[place] = roc_area(model.decision_function(test_x), numbers[test] == value)
    return areas


def _halves(rows: RowsByValue, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train and to test on: a random half each of the rows of every value, an odd one to train."""
    shuffled = rows.order[np.lexsort((rng.random(len(rows.order)), rows.numbers[rows.order]))]
    even = (np.arange(len(shuffled)) - rows.start) % 2 == 0
    return shuffled[even], shuffled[~even]


def roc_area(scores: np.ndarray, positive: np.ndarray) -> float:
    """P(score of a positive > score of a negative) + P(equal) / 2, from (N,) scores and (N,) booleans."""
    scores = np.round(scores, 9)  # equal codes give scores equal but for rounding; they are ties
    negatives, of_positives = np.sort(scores[~positive]), scores[positive]
    below = np.searchsorted(negatives, of_positives, side="left") + np.searchsorted(
        negatives, of_positives, side="right"
    )
    return float(below.mean() / (2 * len(negatives)))
