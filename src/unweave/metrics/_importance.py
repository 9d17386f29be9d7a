"""How much each dimension matters for predicting each factor: lasso weights, forest and boosted-tree importances.

Each predictor is a function of training rows and test rows of one factor:

    predictor(codes, target, classify, test, seed) -> importance (D,), predictions for the test rows

codes:    (n, D) training codes
target:   (n,) training values of the factor, at least two different ones
classify: whether the values are classes; if not they are numbers to regress
test:     (m, D) codes to predict for
seed:     of everything random in the fit

scikit-learn is imported when a predictor runs, not when this file is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unweave.base.errors import MetricError
from unweave.metrics._forest import grow, outputs

Predictor = Callable[[np.ndarray, np.ndarray, bool, np.ndarray, int], tuple[np.ndarray, np.ndarray]]

# Penalties of standardised codes and targets: at 1 no weight is left, at 0.001 a weight of 1 shrinks to 0.999.
PENALTIES = np.geomspace(1.0, 1e-3, 31)
INNER_FOLDS = 5
# Importances are relative: one chance weight in a matrix of zeros would score 1. So a factor counts as predicted only
# if chance would do as well less than about once in ten thousand times.
CHANCE = 1e-4
STANDARD_ERRORS = 4.0
MOST_BINS = 255


class Shares(NamedTuple):
    """What an importance matrix says, in [0, 1]: two averages and what they average."""

    disentanglement: float
    completeness: float
    per_dimension: np.ndarray  # (D,) D_i
    per_factor: np.ndarray  # (K,) C_j
    weights: np.ndarray  # (D,) relative importance of each dimension; sums to 1, or 0 if nothing is important


def disentanglement_completeness(importance: np.ndarray) -> Shares:
    """Disentanglement and completeness of a (D, K) matrix R of importances (Eastwood and Williams, section 2).

    D_i = 1 - H_K(P_i),  P_ij = R_ij / sum_j R_ij      does dimension i matter for one factor only?
    C_j = 1 - H_D(P~_j), P~_ij = R_ij / sum_i R_ij     does one dimension only matter for factor j?

    H_K is the entropy in base K, H_D in base D. Disentanglement is the average of D_i weighted with
    sum_j R_ij / sum_ij R_ij, completeness the plain average of C_j. A dimension or factor whose importances are all
    zero scores 0. With one factor (one dimension) there is nothing to confuse and D_i (C_j) is 1.
    """
    importance = np.asarray(importance, dtype=np.float64)
    if importance.ndim != 2 or importance.size == 0:
        raise MetricError(f"importances have shape {importance.shape}: expected two axes (dimensions, factors)")
    if not np.isfinite(importance).all() or (importance < 0).any():
        raise MetricError("importances are negative, NaN or infinite: expected numbers of at least 0")
    per_dimension, per_factor = _concentration(importance), _concentration(importance.T)
    total = importance.sum()
    weights = importance.sum(axis=1) / (total if total > 0 else 1.0)
    return Shares(float(weights @ per_dimension), float(per_factor.mean()), per_dimension, per_factor, weights)


def _concentration(rows: np.ndarray) -> np.ndarray:
    """(R,) 1 - entropy of each row of (R, C) shares, in base C; 0 for a row of zeros."""
    totals = rows.sum(axis=1, keepdims=True)
    shares = rows / np.where(totals > 0, totals, 1.0)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1)
    base = np.log(rows.shape[1]) if rows.shape[1] > 1 else 1.0
    return np.where(totals[:, 0] > 0, np.clip(1.0 - entropy / base, 0.0, 1.0), 0.0)


def lasso(
    codes: np.ndarray, target: np.ndarray, classify: bool, test: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Magnitudes of lasso weights |W_i| between standardised codes and the standardised value of the factor.

    Classes are regressed as the numbers they are. The penalty is the largest one whose cross-validated error on the
    training rows is within one standard error of the best. All weights are zero if least squares on the training rows
    explains no more than chance (F test).
    """
    from sklearn.linear_model import Lasso, LassoCV
    from sklearn.model_selection import KFold

    centre, scale = codes.mean(axis=0), codes.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    middle, spread = target.mean(), target.std()
    inputs, output = (codes - centre) / scale, (target - middle) / spread
    if not _explains(inputs, output):
        return np.zeros(codes.shape[1]), np.full(len(test), middle)
    folds = KFold(min(INNER_FOLDS, len(codes)), shuffle=True, random_state=seed)
    path = LassoCV(alphas=PENALTIES, cv=folds, precompute=True, tol=1e-7, max_iter=10_000).fit(inputs, output)
    errors = path.mse_path_.mean(axis=1)  # in the order of path.alphas_: largest penalty first
    best = errors.argmin()
    allowed = errors[best] + path.mse_path_[best].std(ddof=1) / np.sqrt(path.mse_path_.shape[1])
    penalty = path.alphas_[np.flatnonzero(errors <= allowed)[0]]
    model = Lasso(penalty, precompute=True, tol=1e-7, max_iter=10_000).fit(inputs, output)
    return np.abs(model.coef_), model.predict((test - centre) / scale) * spread + middle


def _explains(inputs: np.ndarray, output: np.ndarray) -> bool:
    """F test of the least squares regression of an (n,) output on (n, D) inputs, both with mean zero."""
    from scipy import special

    weights, _, rank, _ = np.linalg.lstsq(inputs, output, rcond=None)
    free = len(output) - rank - 1
    if rank == 0 or free < 1:
        return rank > 0
    left = ((output - inputs @ weights) ** 2).sum() / free
    explained = ((inputs @ weights) ** 2).sum() / rank
    return left <= 0 or bool(special.fdtrc(rank, free, explained / left) < CHANCE)


@dataclass(frozen=True)
class Forest:
    """Predictor: a random forest whose depth is chosen on the rows each tree has not seen.

    Trees see the number of the bin that a code is in, of at most 255 of each dimension: nodes are split by counts of
    bins or, where they have few rows, by rows in the order of bins, which a split keeps.
    """

    trees: int

    def __call__(
        self, codes: np.ndarray, target: np.ndarray, classify: bool, test: np.ndarray, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        edges = [bin_edges(column) for column in codes.T]
        random, rows = np.random.default_rng(seed), len(codes)
        # (trees, rows) how often each tree draws each row
        weights = np.stack([np.bincount(random.integers(rows, size=rows), minlength=rows) for _ in range(self.trees)])
        values, place = np.unique(target, return_inverse=True) if classify else (target[:0], target)
        trees, losses = grow(to_bins(codes, edges), place, len(values), weights, random)
        depth = _best_depth(losses)
        said = outputs(trees, to_bins(test, edges), depth)
        importance = np.concatenate([some.importance(depth) for some in trees]).mean(axis=0)
        return importance, values[said.argmax(axis=1)] if classify else said[:, 0]

    def seconds(self, rows: int, dimensions: int, classes: int) -> float:
        """About what a fit takes on one core."""
        return 3e-7 * self.trees * rows * dimensions


def _best_depth(losses: np.ndarray) -> int:
    """The least depth whose out-of-bag error is within one standard error of the best.

    0, no split at all, if that is not better than depth 0 by four standard errors of their difference.

    losses: (depths, n) errors of rows
    """
    if losses.shape[1] < 2:
        return 0
    errors, root = losses.mean(axis=1), np.sqrt(losses.shape[1])
    best = errors.argmin()
    depth = int(np.flatnonzero(errors <= errors[best] + losses[best].std() / root)[0])
    lead = losses[0] - losses[depth]
    return depth if lead.mean() > STANDARD_ERRORS * lead.std() / root else 0


def bin_edges(column: np.ndarray, most: int = MOST_BINS) -> np.ndarray:
    """At most 254 ascending numbers that cut an (n,) column into bins: between neighbours, or as many quantiles."""
    values = np.unique(column)
    if len(values) > most:
        values = np.unique(np.quantile(column, np.linspace(0, 1, most + 1)[1:-1], method="higher"))
        return np.nextafter(values, -np.inf)  # the value at a quantile begins a bin
    return values[:-1] / 2 + values[1:] / 2


def to_bins(codes: np.ndarray, edges: Sequence[np.ndarray]) -> np.ndarray:
    """(n, D) numbers of bins from (n, D) codes and the edges of each dimension."""
    binned = np.empty(codes.shape, dtype=np.uint8)
    for d, cuts in enumerate(edges):
        binned[:, d] = np.searchsorted(cuts, codes[:, d])
    return binned


@dataclass(frozen=True)
class Boosted:
    """Predictor: gradient boosting of small trees. The importance of a dimension is its share in all gains.

    The histogram version is about twenty times as fast as the exact one that Locatello et al. used. scikit-learn gives
    its gains only in `_predictors`; permutation importances would be public, but on codes that know nothing they are
    a few chance numbers around zero, which normalise to a high score.
    """

    trees: int

    def __call__(
        self, codes: np.ndarray, target: np.ndarray, classify: bool, test: np.ndarray, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
        from threadpoolctl import threadpool_limits

        model: Any = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
        model = model(
            max_iter=self.trees,
            max_depth=3,
            min_samples_leaf=5,
            early_stopping=False,
            max_leaf_nodes=None,
            random_state=seed,
        )
        with threadpool_limits(1, user_api="openmp"):  # the fits already share the cores
            model.fit(codes, target)
            return gains(model), model.predict(test)

    def seconds(self, rows: int, dimensions: int, classes: int) -> float:
        """About what a fit takes on one core; of more than two classes every one has its trees."""
        return self.trees * (classes if classes > 2 else 1) * (4e-4 + 9e-9 * rows * dimensions)


def gains(model: Any) -> np.ndarray:
    """(D,) share of each input in the gain of all splits of a fitted histogram gradient boosting model."""
    importance = np.zeros(model.n_features_in_)
    for predictor in (tree for iteration in model._predictors for tree in iteration):
        split = predictor.nodes[predictor.nodes["is_leaf"] == 0]
        importance += np.bincount(split["feature_idx"], split["gain"], minlength=len(importance))
    importance = np.maximum(importance, 0.0)
    return importance / (importance.sum() or 1.0)
