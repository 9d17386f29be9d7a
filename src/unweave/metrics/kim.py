"""Majority-vote score of Kim and Mnih (2018), also called the FactorVAE score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.base.card import Card
from unweave.base.errors import MetricError
from unweave.core.factors import FactorKind
from unweave.core.score import Score
from unweave.metrics._inputs import check
from unweave.metrics._interval import generator, repeat_interval
from unweave.metrics._metric import metric
from unweave.metrics._rows_by_value import RowsByValue, in_chunks, random_half
from unweave.metrics.discretise import BINS, discretise_factors

BIBTEX = """@inproceedings{kim2018disentangling,
  title = {Disentangling by Factorising},
  author = {Kim, Hyunjik and Mnih, Andriy},
  booktitle = {International Conference on Machine Learning},
  year = {2018}
}"""


@metric(
    Card(
        "accuracy of a majority vote: which factor was held fixed, from the dimension that varied least",
        "Kim and Mnih, Disentangling by Factorising, ICML 2018",
        BIBTEX,
        "codes and at least two factors",
    )
)
def kim(
    codes: Any,
    factors: Any,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | None = None,
    rng: int | np.random.Generator = 0,
    rows_per_vote: int = 100,
    train_votes: int = 800,
    eval_votes: int = 800,
    threshold: float = 0.0,
    bins: int = BINS,
    repeats: int = 10,
) -> Score:
    """Section 4 of the paper (figure 1, bottom). Value 1 is best; chance is 1 / K.

    A vote: choose a factor k, draw L rows that share a value of it, and take the dimension

        d* = argmin_d Var_l(z_d^l) / s_d^2,     s_d^2 = variance of z_d over all rows.

    The votes (d*, k) train the classifier C(d) = argmax_k (votes of k on d); the value is its accuracy on new votes,
    drawn from the other half of the rows.

    codes:         (N, D) array or `Codes`
    factors:       (N, K) array, mapping or `Factors`; NaN where missing (no vote on that factor uses the row)
    rows_per_vote: L
    train_votes:   votes that train the classifier, shared evenly among the factors
    eval_votes:    votes it is scored on
    threshold:     a dimension whose standard deviation is not above this is left out, and so is a constant one
    bins:          equal-width bins whose rows count as sharing the value of a continuous factor
    repeats:       repeats with new halves of the rows and new votes; the value is the mean
    """
    checked = check(codes, factors, names, kinds)
    if len(checked.names) < 2:
        raise MetricError("kim tells factors apart and there is only one: give at least two")
    if min(train_votes, eval_votes) < len(checked.names):
        raise MetricError(
            f"{train_votes} training and {eval_votes} evaluation votes for {len(checked.names)} factors: "
            "each factor needs at least one of both"
        )
    if rows_per_vote < 2 or repeats < 2:
        raise MetricError(f"rows_per_vote = {rows_per_vote}, repeats = {repeats}: both need to be at least 2")
    draws, seed = generator(rng)

    scale = checked.codes.std(axis=0, ddof=1) if len(checked.codes) > 1 else np.zeros(checked.codes.shape[1])
    # A constant column can have a deviation of rounding size; nothing about it may be divided by that.
    active = scale > np.maximum(threshold, 1e-12 * np.abs(checked.codes).max(axis=0))
    settings = {
        "rows_per_vote": rows_per_vote,
        "train_votes": train_votes,
        "eval_votes": eval_votes,
        "threshold": threshold,
        "bins": bins,
        "repeats": repeats,
        "seed": seed,
        "factors": checked.names,
    }
    shape = (len(active), len(checked.names))
    parts: dict[str, Any] = {"factors": checked.names, "dimensions": checked.code_names, "active": active}
    if not active.any():
        # Codes that never vary tell nothing: as the reference implementation does, that is a score of 0, not an error.
        nothing = {"votes": np.zeros(shape), "accuracy_per_factor": np.zeros(shape[1])}
        return Score("kim", 0.0, (0.0, 0.0), {**parts, **nothing}, settings)

    z = checked.codes[:, active] / scale[active]
    numbers = discretise_factors(checked.factors, checked.discrete, bins)
    rows = [RowsByValue(numbers[:, k], name) for k, name in enumerate(checked.names)]
    votes = np.zeros((active.sum(), shape[1]))
    accuracy = np.zeros((repeats, shape[1]))
    values = np.zeros(repeats)
    for repeat in range(repeats):
        half = random_half(len(z), draws)
        train = _votes(z, [of_factor.within(half) for of_factor in rows], draws, train_votes, rows_per_vote)
        test = _votes(z, [of_factor.within(~half) for of_factor in rows], draws, eval_votes, rows_per_vote)
        winner = np.where(train.any(axis=1), train.argmax(axis=1), -1)  # a dimension without votes is always wrong
        right = np.where(winner[:, None] == np.arange(shape[1]), test, 0)
        accuracy[repeat] = right.sum(axis=0) / test.sum(axis=0)
        values[repeat] = right.sum() / test.sum()
        votes += train
    all_votes = np.zeros(shape)
    all_votes[active] = votes / repeats
    parts.update(votes=all_votes, accuracy_per_factor=accuracy.mean(axis=0), values=values)
    return Score(
        "kim", float(values.mean()), repeat_interval(values, len(checked.codes), bounds=(0.0, 1.0)), parts, settings
    )


def _votes(z: np.ndarray, rows: Sequence[RowsByValue], rng: np.random.Generator, number: int, size: int) -> np.ndarray:
    """(D, K) how often dimension d varied least when factor k was fixed; z (N, D) has unit variance."""
    votes = np.zeros((z.shape[1], len(rows)), dtype=np.int64)
    for k, (of_factor, share) in enumerate(zip(rows, np.array_split(np.arange(number), len(rows)), strict=True)):
        drawn = of_factor.draw(rng, len(share), size)
        for part in in_chunks(len(share), size * z.shape[1]):
            least = z[drawn[part]].var(axis=1, ddof=1).argmin(axis=1)
            votes[:, k] += np.bincount(least, minlength=z.shape[1])
    return votes
