"""Explicitness of Ridgeway and Mozer (2018): can a linear classifier read a factor's values from the codes?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from unweave.base.card import Card
from unweave.base.errors import MetricError
from unweave.core.factors import FactorKind
from unweave.core.score import Score
from unweave.metrics._inputs import check
from unweave.metrics._interval import generator, repeat_interval
from unweave.metrics._metric import metric
from unweave.metrics._rows_by_value import RowsByValue
from unweave.metrics.discretise import BINS, discretise_factors

BIBTEX = """@inproceedings{ridgeway2018learning,
  title = {Learning Deep Disentangled Embeddings with the {F}-Statistic Loss},
  author = {Ridgeway, Karl and Mozer, Michael C.},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2018}
}"""

MOST_STEPS, MOST_HALVINGS = 100, 30
PROMISE = 1e-3  # twice what the last step gains: nats over all rows, or a share of the loss where that is less than 1
MOST_SHARES = 2**16  # numbers of a part of the shares: 512 kB
MOST_KEPT = 2**22
MOST_DIMENSIONS = 100


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
    jobs: int = -1,
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
    jobs:            threads; -1 takes all cores. The result does not depend on it
    """
    import joblib
    from threadpoolctl import threadpool_limits

    checked = check(codes, factors, names, kinds)
    if repeats < 2:
        raise MetricError(f"repeats = {repeats}: an interval needs at least 2")
    draws, seed = generator(rng)
    numbers = discretise_factors(checked.factors, checked.discrete, bins)
    by_value = [RowsByValue(numbers[:, k], name) for k, name in enumerate(checked.names)]
    halves = [(rows, *_halves(rows, draws)) for rows in by_value for _ in range(repeats)]
    # Factors with many values first, so that no core waits for one of them at the end.
    order = sorted(range(len(halves)), key=lambda task: -int(halves[task][0].numbers.max()))
    with threadpool_limits(limits=1):  # the factors already share the cores
        found = joblib.Parallel(jobs, prefer="threads")(
            joblib.delayed(_areas)(checked.codes, *halves[task], inverse_penalty) for task in order
        )
    by_task = dict(zip(order, found, strict=True))
    areas = [
        np.stack([by_task[k * repeats + repeat] for repeat in range(repeats)]) for k in range(len(by_value))
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
    interval = repeat_interval(values, len(checked.codes), bounds=(-1.0, 1.0))
    return Score("explicitness", float(values.mean()), interval, parts, settings)


def _areas(
    codes: np.ndarray, rows: RowsByValue, train: np.ndarray, test: np.ndarray, inverse_penalty: float
) -> np.ndarray:
    """(V,) ROC areas on the held-out half of the values that have at least two rows."""
    numbers = rows.numbers
    values, place = np.unique(numbers[train], return_inverse=True)
    if len(values) < 2:
        raise MetricError(
            f"factor {rows.name!r} has fewer than two values with two rows each: give more rows, "
            "or kind 'continuous' to bin its values"
        )
    train_x, test_x = codes[train], codes[test]
    centre, scale = train_x.mean(axis=0), train_x.std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(np.abs(centre), 1e-300), scale, 1.0)
    weights = one_against_rest((train_x - centre) / scale, place, inverse_penalty)
    said = weights[:, :-1] @ ((test_x - centre) / scale).T  # (V, M); an intercept changes no order
    truth = numbers[test]
    return np.array([roc_area(scores, truth == value) for scores, value in zip(said, values, strict=True)])


def one_against_rest(x: np.ndarray, place: np.ndarray, inverse_penalty: float) -> np.ndarray:
    """(V, D + 1) weights, intercept last, of the V logistic regressions that tell one value from all others.

        argmin_w  sum_n log(1 + exp(w x_n + b)) - sum_{n: v_n = v} (w x_n + b)  +  |w|^2 / 2C

    x:               (N, D) standardised
    place:           (N,) value of each row, 0 .. V - 1
    inverse_penalty: C

    Newton's method for all values at once. A step needs for every value the gradient and the D + 1 by D + 1 matrix
    sum_n p_n (1 - p_n) x_n x_n^T: one product each of the (V, N) shares p, or p (1 - p), with the rows and with the
    products of their columns, made for a part of the rows at a time. The loss is convex; a step that does not lower it
    enough is halved.
    """
    if x.shape[1] > MOST_DIMENSIONS:
        return _one_by_one(x, place, inverse_penalty)
    columns = np.concatenate([x.T, np.ones((1, len(x)))])  # (D + 1, N)
    of_value = np.stack([np.bincount(place, weights=column) for column in columns], axis=1)  # (V, D + 1) sums over rows
    penalty = np.append(np.full(x.shape[1], 1 / inverse_penalty), 0.0)
    products = _Products(columns, len(of_value))
    # At zero weights every row has the share of the value, so that the first step needs no pass over the rows.
    share = of_value[:, -1] / len(x)
    weights = np.zeros(of_value.shape)
    weights[:, -1] = np.log(share / (1 - share))
    loss = -len(x) * (share * np.log(share) + (1 - share) * np.log(1 - share))
    slope = share[:, None] * columns.sum(axis=1) - of_value
    bend = (share * (1 - share))[:, None, None] * (columns @ columns.T) + np.diag(penalty)
    going = np.arange(len(weights))
    for _ in range(MOST_STEPS):
        # What rounding may leave singular (a large C, values that are told apart entirely) is kept solvable.
        sturdy = bend + 1e-12 * np.einsum("vdd->v", bend)[:, None, None] * np.eye(len(columns))
        step = -np.linalg.solve(sturdy, slope[:, :, None])[:, :, 0]
        promise = -(slope * step).sum(axis=1)  # twice what a quadratic loss would fall by
        last = promise <= PROMISE * np.minimum(
            loss, 1
        )  # so near the minimum the whole step is right, and what it leaves is of its square
        weights[going[last]] += step[last]
        going, loss, slope, bend, step, promise = (part[~last] for part in (going, loss, slope, bend, step, promise))
        if not len(going):
            break
        size, waiting = np.ones(len(going)), np.arange(len(going))
        for _ in range(MOST_HALVINGS):
            trial = weights[going[waiting]] + size[waiting, None] * step[waiting]
            found = _logistic(products, trial, of_value[going[waiting]], penalty)
            enough = found[0] <= loss[waiting] - 1e-4 * size[waiting] * promise[waiting]
            kept = waiting[enough]
            weights[going[kept]] = trial[enough]
            loss[kept], slope[kept], bend[kept] = (part[enough] for part in found)
            waiting = waiting[~enough]
            size[waiting] /= 2
            if not len(waiting):
                break
    return weights


def _one_by_one(x: np.ndarray, place: np.ndarray, inverse_penalty: float) -> np.ndarray:
    """The same weights without second derivatives, whose cost grows with the square of the dimensions."""
    from sklearn.linear_model import LogisticRegression

    models = [
        LogisticRegression(C=inverse_penalty, max_iter=2000).fit(x, place == value) for value in range(place.max() + 1)
    ]
    return np.stack([np.append(model.coef_[0], model.intercept_) for model in models])


class _Products:
    """Parts (D + 1, n) of the columns and (Q, n) products of two of them; kept where they are few, else made anew.

    All parts share one array: memory given back in small pieces is taken from the system page by page each time.
    """

    def __init__(self, columns: np.ndarray, values: int):
        self.number, rows = columns.shape
        self.left, self.right = np.triu_indices(self.number)
        pairs = len(self.left)
        step = max(128, MOST_SHARES // max(values, pairs))
        self.parts = [columns[:, start : start + step] for start in range(0, rows, step)]
        self.keep = rows * pairs <= MOST_KEPT
        self.room = np.empty((len(self.parts) if self.keep else 1, pairs * step))
        self.scratch = np.empty((3, values * step))
        if self.keep:
            for number in range(len(self.parts)):
                self._make(number, number)

    def _make(self, part: int, room: int) -> np.ndarray:
        columns, products = self.parts[part], self._kept(part, room)
        for d in range(self.number):  # in the order of `left`, `right`
            start = d * self.number - d * (d - 1) // 2
            np.multiply(columns[d], columns[d:], out=products[start : start + self.number - d])
        return products

    def _kept(self, part: int, room: int) -> np.ndarray:
        length = self.parts[part].shape[1]
        return self.room[room, : len(self.left) * length].reshape(-1, length)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for number, part in enumerate(self.parts):
            yield part, self._kept(number, number) if self.keep else self._make(number, 0)


def _logistic(
    products: _Products, weights: np.ndarray, of_value: np.ndarray, penalty: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loss (V,), gradient (V, D + 1) and matrix of second derivatives (V, D + 1, D + 1) at weights (V, D + 1)."""
    loss = (penalty * weights**2).sum(axis=1) / 2 - (weights * of_value).sum(axis=1)
    slope = penalty * weights - of_value
    upper = np.zeros((len(weights), len(products.left)))
    for part, pairs in products:
        shape = len(weights), part.shape[1]
        margin, small, share = (room[: shape[0] * shape[1]].reshape(shape) for room in products.scratch)
        np.matmul(weights, part, out=margin)
        np.abs(margin, out=small)
        np.exp(np.negative(small, out=small), out=small)
        np.add(1, small, out=share)
        np.reciprocal(share, out=share)  # of the likelier side
        small *= share
        small *= share
        upper += small @ pairs.T
        loss += np.maximum(margin, 0, out=small).sum(axis=1)
        loss -= np.log(share, out=small).sum(axis=1)
        np.subtract(1, share, out=small)
        np.copyto(small, share, where=margin > 0)
        slope += small @ part.T
    bend = np.empty((len(weights), products.number, products.number))
    bend[:, products.left, products.right] = bend[:, products.right, products.left] = upper
    bend += np.diag(penalty)
    return loss, slope, bend


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
