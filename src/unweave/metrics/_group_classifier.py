"""Can a classifier tell the class of a group from its code, and does evidence from more members help?

The quantitative evaluation of Bouchacourt, Tomioka and Nowozin (2018), section 4 and figure 7. A neural network r(y|c)
is trained on codes accumulated over K members of a class and tested on codes accumulated over k <= K members. Its test
cross-entropy bounds the conditional entropy of the class given the code from above:

    H(y|c) <= -E[log r(y|c)]                                                                    (eq. 8), here in bits
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from unweave.base.errors import MetricError
from unweave.base.normals import product_of_normals
from unweave.metrics._inputs import check_codes

TRAINING_GROUPS = 20_000
"""Groups of training rows that are drawn for the classifier; it sees each several times."""
STEPS, BATCH, HIDDEN, RATE, DECAY = 1500, 256, 128, 2e-3, 1e-2


@dataclass(frozen=True)
class GroupClassification:
    """What the classifier does with k members; arrays have one entry per k.

    members:  (M,) k, how many members each test code was accumulated over
    accuracy: (M,) share of test groups whose class it names
    entropy:  (M,) mean of -log2 r(y|c) over test groups: bits, an upper bound of H(y|c)
    groups:   (M,) number of test groups
    classes:  number of classes; guessing has accuracy 1 / classes and entropy log2(classes) when all are as frequent
    """

    members: tuple[int, ...]
    accuracy: np.ndarray
    entropy: np.ndarray
    groups: np.ndarray
    classes: int

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, ready for JSON."""
        return {
            "members": list(self.members),
            "accuracy": self.accuracy.tolist(),
            "entropy": self.entropy.tolist(),
            "groups": self.groups.tolist(),
            "classes": self.classes,
        }


def classify_groups(
    means: Any,
    spreads: Any,
    classes: Any,
    *,
    members: Iterable[int] = range(1, 11),
    most: int = 10,
    accumulate: bool = True,
    features: Literal["mean", "draw"] = "mean",
    test_share: float = 0.5,
    seed: int = 0,
) -> GroupClassification:
    """Accuracy and conditional entropy of the class, from codes of k members together, for each k.

    means:      (N, D) posterior means of single observations
    spreads:    (N, D) posterior standard deviations; None weighs all members alike and reads their mean
    classes:    (N,) class of each observation
    members:    the k to test with
    most:       K, members of each code the classifier is trained on
    accumulate: False for codes that belong to single observations, such as style: the classifier is trained and tested
                on one observation at a time, and the result is the same for all k
    features:   what the classifier reads: the mean of the accumulated posterior, or a draw of it. A draw counts the
                noise of the code: means may differ by class where the posterior is far wider than the difference
    test_share: share of the rows of each class that the classifier is tested on; it is trained on the others
    seed:       of the division, the groups and the network
    """
    codes, _ = check_codes(means)
    spread = np.full(codes.shape, np.nan) if spreads is None else np.asarray(spreads, dtype=np.float64)
    members = tuple(int(k) for k in members)
    labels, target = _checked(codes, spread, spreads is not None, classes, members, most, test_share)
    if features not in ("draw", "mean"):
        raise MetricError(f"unknown features {features!r}: choose 'draw' or 'mean'")
    rng = np.random.default_rng(seed)

    def read(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n, D) features of groups of rows (n, k), and the (n, D) posterior variances behind them."""
        mean, std = product_of_normals(codes[groups], spread[groups])
        if spreads is None:
            return mean, np.zeros_like(mean)
        return mean + std * rng.normal(size=mean.shape) if features == "draw" else mean, std**2

    training, testing = _divide(target, len(labels), test_share, rng)
    if accumulate:
        _require_rows(labels, training, testing, most, max(members))
    groups = _training_groups(training, most if accumulate else 1, rng)
    read_for_training, variance = read(groups)
    # In units of the spread of the code itself, draws and all: a dimension that is nearly all noise is not blown up.
    scale = np.sqrt(read_for_training.var(0) + (variance.mean(0) if features == "mean" else 0.0))
    classify = _train(read_for_training, scale, target[groups[:, 0]], len(labels), rng)

    accuracy, entropy, count = [], [], []
    for k in members if accumulate else (1,):
        groups = np.concatenate([_test_groups(rows, k, rng) for rows in testing])
        log_r = classify(read(groups)[0])
        truth = target[groups[:, 0]]
        accuracy.append(float((log_r.argmax(1) == truth).mean()))
        entropy.append(float(-log_r[np.arange(len(truth)), truth].mean() / math.log(2)))
        count.append(len(groups))
    repeats = 1 if accumulate else len(members)
    return GroupClassification(
        members,
        np.array(accuracy * repeats),
        np.array(entropy * repeats),
        np.array(count * repeats),
        len(labels),
    )


def _checked(
    codes: np.ndarray,
    spread: np.ndarray,
    spread_given: bool,
    classes: Any,
    members: tuple[int, ...],
    most: int,
    test_share: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The different classes, and (N,) which of them each row has; one line about what is amiss."""
    values = np.asarray(classes)
    if values.shape != (len(codes),):
        raise MetricError(f"classes have shape {values.shape}: expected ({len(codes)},), one for each row of the codes")
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise MetricError(f"the class of row {int(np.isnan(values).argmax())} is missing: leave such rows out")
    if spread.shape != codes.shape:
        raise MetricError(f"spreads have shape {spread.shape} and means {codes.shape}: give one for each number")
    if spread_given and not (np.isfinite(spread).all() and (spread > 0).all()):
        raise MetricError("spreads must be finite and above 0: give posterior standard deviations, or None")
    if not members or min(members) < 1 or max(members) > most:
        raise MetricError(f"members are {members or 'none'}: give numbers from 1 to most={most}")
    if not 0 < test_share < 1:
        raise MetricError(f"test_share is {test_share}: give a share between 0 and 1")
    labels, target = np.unique(values, return_inverse=True)
    if len(labels) < 2:
        raise MetricError("all rows have one class: there is nothing to tell apart")
    return labels, target


def _divide(
    target: np.ndarray, classes: int, test_share: float, rng: np.random.Generator
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Training and test rows of each class, disjoint."""
    training, testing = [], []
    for number in range(classes):
        rows = rng.permutation(np.flatnonzero(target == number))
        cut = round(test_share * len(rows))
        testing.append(rows[:cut])
        training.append(rows[cut:])
    return training, testing


def _require_rows(
    labels: np.ndarray, training: list[np.ndarray], testing: list[np.ndarray], most: int, largest: int
) -> None:
    for part, needed, name, parts in (("training", most, "most", training), ("test", largest, "members", testing)):
        fewest = int(np.argmin([len(rows) for rows in parts]))
        if len(parts[fewest]) < needed:
            raise MetricError(
                f"class {labels[fewest]} has {len(parts[fewest])} {part} rows and {needed} are to be accumulated: "
                f"set {name} to {len(parts[fewest])} or less, or give more rows of it"
            )


def _training_groups(training: list[np.ndarray], most: int, rng: np.random.Generator) -> np.ndarray:
    """(T, K) rows: each class is cut into groups of K again and again, so that classes keep their frequencies."""
    once = sum(len(rows) // most for rows in training)
    groups = []
    for rows in training:
        for _ in range(max(1, TRAINING_GROUPS // once)):
            whole = len(rows) // most * most
            groups.append(rng.permutation(rows)[:whole].reshape(-1, most))
    return np.concatenate(groups)


def _test_groups(rows: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """(n, k) one group for each row: itself and k - 1 others of its class, without repeats."""
    # Along a circle of the rows in random order, at k - 1 different random distances.
    circle = rng.permutation(rows)
    distance = np.concatenate([[0], 1 + rng.permutation(len(rows) - 1)[: k - 1]])
    return circle[(np.arange(len(rows))[:, None] + distance) % len(rows)]


def _train(features: np.ndarray, scale: np.ndarray, target: np.ndarray, classes: int, rng: np.random.Generator) -> Any:
    """A function from (n, D) codes to (n, C) log r(y|c), by a network with one hidden layer."""
    import torch

    centre, scale = features.mean(0), np.where(scale > 0, scale, 1.0)

    def prepared(values: np.ndarray) -> Any:
        return torch.from_numpy(((values - centre) / scale).astype(np.float32))

    def layer(inputs: int, outputs: int) -> list[Any]:
        weight = rng.normal(size=(inputs, outputs)) * math.sqrt(2 / inputs)
        return [torch.tensor(weight, dtype=torch.float32), torch.zeros(outputs)]

    parameters = [*layer(features.shape[1], HIDDEN), *layer(HIDDEN, classes)]
    for parameter in parameters:
        parameter.requires_grad_(True)

    def log_r(x: Any) -> Any:
        first, bias, second, offset = parameters
        return ((x @ first + bias).relu() @ second + offset).log_softmax(-1)

    x, y = prepared(features), torch.from_numpy(target)
    optimiser = torch.optim.AdamW(parameters, lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        chosen = torch.from_numpy(rng.integers(len(x), size=min(BATCH, len(x))))
        optimiser.zero_grad()
        torch.nn.functional.nll_loss(log_r(x[chosen]), y[chosen]).backward()
        optimiser.step()
        schedule.step()

    def classify(codes: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return log_r(prepared(codes)).double().numpy()

    return classify
