"""Linear-classifier score of Higgins et al. in its two protocols: one factor fixed, or one factor changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.base.card import Card
from unweave.base.errors import MetricError
from unweave.core.factors import FactorKind
from unweave.core.score import Score
from unweave.metrics._inputs import Checked, check, check_factors
from unweave.metrics._interval import generator, repeat_interval
from unweave.metrics._metric import metric
from unweave.metrics._rows_by_value import RowsByOthers, RowsByValue, in_chunks, random_half
from unweave.metrics.discretise import BINS, discretise_factors

BIBTEX_2017 = """@inproceedings{higgins2017betavae,
  title = {beta-{VAE}: Learning Basic Visual Concepts with a Constrained Variational Framework},
  author = {Higgins, Irina and Matthey, Loic and Pal, Arka and Burgess, Christopher and Glorot, Xavier and
            Botvinick, Matthew and Mohamed, Shakir and Lerchner, Alexander},
  booktitle = {International Conference on Learning Representations},
  year = {2017}
}"""
BIBTEX_2016 = """@article{higgins2016early,
  title = {Early Visual Concept Learning with Unsupervised Deep Learning},
  author = {Higgins, Irina and Matthey, Loic and Glorot, Xavier and Pal, Arka and Uria, Benigno and
            Blundell, Charles and Mohamed, Shakir and Lerchner, Alexander},
  journal = {arXiv preprint arXiv:1606.05579},
  year = {2016}
}"""
Pairs = RowsByValue | RowsByOthers
# Share of given groups that trains the classifier, and its inverse regularisation on standardised inputs.
TRAIN_SHARE = 2 / 3
INVERSE_PENALTY = 10.0


@dataclass(frozen=True, eq=False)
class Groups:
    """Pairs of codes made by exact interventions, in groups: all L pairs of a group are about the same factor.

    left:   (G, L, D) codes of the first of each pair
    right:  (G, L, D) codes of the second
    factor: (G,) index 0 .. K - 1 of the factor that was fixed, or changed, in all pairs of the group
    """

    left: np.ndarray
    right: np.ndarray
    factor: np.ndarray

    def __post_init__(self) -> None:
        left, right = np.asarray(self.left, dtype=np.float64), np.asarray(self.right, dtype=np.float64)
        factor = np.asarray(self.factor)
        if left.ndim != 3 or left.shape != right.shape or factor.shape != left.shape[:1] or left.size == 0:
            raise MetricError(
                f"groups have left {left.shape}, right {right.shape}, factor {factor.shape}: "
                "expected (groups, pairs, dimensions) twice and (groups,)"
            )
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            raise MetricError("groups hold NaN or infinite codes: score only finite codes")
        if not np.issubdtype(factor.dtype, np.integer) or factor.min() < 0:
            raise MetricError(
                "factor of groups has other values than 0, 1, ...: give the index of the factor of each group"
            )
        for name, value in (("left", left), ("right", right), ("factor", factor.astype(np.int64))):
            object.__setattr__(self, name, value)


@metric(
    Card(
        "accuracy of a linear classifier: which factor pairs share, from the mean absolute difference of sides",
        "Higgins et al., beta-VAE, ICLR 2017",
        BIBTEX_2017,
        "codes and at least two factors, or groups of pairs",
    )
)
def higgins_fixed(
    codes: Any,
    factors: Any,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | None = None,
    rng: int | np.random.Generator = 0,
    groups: Groups | None = None,
    pairs: int = 64,
    train_groups: int = 1000,
    test_groups: int = 500,
    bins: int = BINS,
    repeats: int = 5,
) -> Score:
    """Section 3 of the paper: pairs that share the value of one factor k, the other factors as they come.

    The input of the classifier is the mean over the L pairs of a group, and its target is k:

        x = 1/L sum_l |z_1^l - z_2^l|   (D,),     v_{1,k}^l = v_{2,k}^l.

    Value 1 is best; chance is 1 / K. It reaches 1 when K - 1 of K factors are represented: see `kim`.

    codes:        (N, D) array or `Codes`; None where groups are given
    factors:      (N, K) array, mapping or `Factors`, NaN where missing; None where groups are given
    groups:       pairs made by exact interventions; without them pairs are drawn among the rows
    pairs:        L, pairs per group
    train_groups: groups that train the classifier, shared evenly among the factors
    test_groups:  groups it is scored on, from the other half of the rows
    bins:         equal-width bins whose rows count as sharing the value of a continuous factor
    repeats:      new groups and a new classifier each time (given groups: a new split); the value is the mean
    """

    def prepare(checked: Checked) -> list[Pairs]:
        numbers = discretise_factors(checked.factors, checked.discrete, bins)
        return [RowsByValue(numbers[:, k], name) for k, name in enumerate(checked.names)]

    settings = {"pairs": pairs, "train_groups": train_groups, "test_groups": test_groups, "bins": bins}
    inputs = _Inputs(codes, factors, names, kinds, groups)
    return _higgins("higgins_fixed", inputs, prepare, rng, repeats, settings)


@metric(
    Card(
        "accuracy of a linear classifier: which factor differs in pairs, from the mean absolute difference of sides",
        "Higgins et al., Early Visual Concept Learning with Unsupervised Deep Learning, 2016",
        BIBTEX_2016,
        "codes and at least two factors with rows that differ in one factor alone, or groups of pairs",
    )
)
def higgins_changed(
    codes: Any,
    factors: Any,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | None = None,
    rng: int | np.random.Generator = 0,
    groups: Groups | None = None,
    pairs: int = 64,
    train_groups: int = 1000,
    test_groups: int = 500,
    repeats: int = 5,
) -> Score:
    """Pairs that differ in one factor k and agree in all others; the rest is as in `higgins_fixed`.

        x = 1/L sum_l |z_1^l - z_2^l|   (D,),     v_{1,j}^l = v_{2,j}^l for every j != k,  v_{1,k}^l != v_{2,k}^l.

    Agreement is exact, for continuous factors too: continuous factors usually need `groups`.
    Value 1 is best; chance is 1 / K. Arguments as in `higgins_fixed`.
    """

    def prepare(checked: Checked) -> list[Pairs]:
        numbers = discretise_factors(checked.factors, np.ones(len(checked.names), dtype=bool))
        return [RowsByOthers(numbers, k, name) for k, name in enumerate(checked.names)]

    settings = {"pairs": pairs, "train_groups": train_groups, "test_groups": test_groups}
    inputs = _Inputs(codes, factors, names, kinds, groups)
    return _higgins("higgins_changed", inputs, prepare, rng, repeats, settings)


@dataclass(frozen=True)
class _Inputs:
    codes: Any
    factors: Any
    names: Sequence[str] | None
    kinds: Sequence[FactorKind] | None
    groups: Groups | None


def _higgins(
    name: str,
    inputs: _Inputs,
    prepare: Callable[[Checked], list[Pairs]],
    rng: int | np.random.Generator,
    repeats: int,
    settings: dict[str, Any],
) -> Score:
    """What both protocols share: features of groups, a classifier on some, its accuracy on others, repeated."""
    draws, seed = generator(rng)
    if repeats < 2 or settings["pairs"] < 1:
        raise MetricError(f"repeats = {repeats}, pairs = {settings['pairs']}: expected at least 2 repeats and 1 pair")
    if inputs.groups is None:
        if inputs.codes is None or inputs.factors is None:
            raise MetricError(f"{name} has neither codes with factors nor groups: give one of them")
        checked = check(inputs.codes, inputs.factors, inputs.names, inputs.kinds)
        factor_names, code_names = _at_least_two(name, checked.names), checked.code_names
        seen = len(checked.codes)
        split = _drawn(checked.codes, prepare(checked), draws, settings)
    else:
        factor_names, code_names = _names_of_groups(inputs.groups, inputs.factors, inputs.names)
        split = _given(inputs.groups, len(_at_least_two(name, factor_names)), draws)
        seen = len(inputs.groups.factor)
        settings = {"pairs": inputs.groups.left.shape[1], "groups": seen}

    confusion = np.stack([_confusion(*split(), len(factor_names)) for _ in range(repeats)])  # (R, K, K)
    per_factor = np.einsum("rkk->rk", confusion) / confusion.sum(axis=2)
    values = np.einsum("rkk->r", confusion) / confusion.sum(axis=(1, 2))
    parts = {
        "factors": factor_names,
        "dimensions": code_names,
        "accuracy_per_factor": per_factor.mean(axis=0),
        "confusion": confusion.sum(axis=0) / confusion.sum(axis=(0, 2))[:, None],
        "values": values,
    }
    settings = {**settings, "repeats": repeats, "seed": seed, "factors": factor_names}
    return Score(name, float(values.mean()), repeat_interval(values, seen, bounds=(0.0, 1.0)), parts, settings)


Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _drawn(
    codes: np.ndarray,
    rows: list[Pairs],
    rng: np.random.Generator,
    settings: dict[str, Any],
) -> Callable[[], Split]:
    """A function that draws fresh training and test groups among the rows: x (G, D), y (G,), x, y."""
    number = len(rows)
    if settings["train_groups"] < 2 * number or settings["test_groups"] < number:
        raise MetricError(
            f"{settings['train_groups']} training and {settings['test_groups']} test groups for {number} factors: "
            "each factor needs at least two to train and one to test"
        )

    def features(rows: Sequence[Pairs], groups: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.sort(np.arange(groups) % number)
        pairs = [of.draw_pairs(rng, (int((labels == k).sum()), settings["pairs"])) for k, of in enumerate(rows)]
        left, right = (np.concatenate(side) for side in zip(*pairs, strict=True))
        x = np.empty((groups, codes.shape[1]))
        for part in in_chunks(groups, settings["pairs"] * codes.shape[1]):
            x[part] = np.abs(codes[left[part]] - codes[right[part]]).mean(axis=1)
        return x, labels

    def split() -> Split:
        # No row serves both sides: with few rows the classifier would know the rows, not the factor.
        half = random_half(len(codes), rng)
        train = features([of_factor.within(half) for of_factor in rows], settings["train_groups"])
        return (*train, *features([of_factor.within(~half) for of_factor in rows], settings["test_groups"]))

    return split


def _given(groups: Groups, number: int, rng: np.random.Generator) -> Callable[[], Split]:
    """A function that splits the given groups anew, factor by factor: x (G, D), y (G,), x, y."""
    x, y = np.abs(groups.left - groups.right).mean(axis=1), groups.factor
    counts = np.bincount(y, minlength=number)
    if counts.min() < 3:
        raise MetricError(
            f"there are {counts.tolist()} groups per factor for {number} factors: expected at least 3 of each factor"
        )

    def split() -> Split:
        order = np.lexsort((rng.random(len(y)), y))
        place = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)  # 0, 1, ... within its factor
        train = place < np.ceil(TRAIN_SHARE * counts[y[order]] - 1e-9)
        return x[order[train]], y[order[train]], x[order[~train]], y[order[~train]]

    return split


def _names_of_groups(
    groups: Groups, factors: Any, names: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the factors (those of `factors`, else `names`, else numbers) and of the dimensions."""
    number = int(groups.factor.max()) + 1
    if factors is not None:
        names = check_factors(factors, names).names
    known = tuple(f"factor[{k}]" for k in range(number)) if names is None else tuple(names)
    if len(known) < number:
        raise MetricError(f"groups speak of factor {number - 1} and there are {len(known)} names: name every factor")
    return known, tuple(f"z[{d}]" for d in range(groups.left.shape[2]))


def _at_least_two(name: str, factors: tuple[str, ...]) -> tuple[str, ...]:
    if len(factors) < 2:
        raise MetricError(f"{name} tells factors apart and there is only one: give at least two")
    return factors


def _confusion(
    train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray, number: int
) -> np.ndarray:
    """(K, K) test groups of factor k that multinomial logistic regression takes for factor j."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    # Standardised inputs: the solver converges in few steps and the scale of a dimension does not matter.
    centre, scale = train_x.mean(axis=0), train_x.std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(np.abs(centre), 1e-300), scale, 1.0)
    model = LogisticRegression(C=INVERSE_PENALTY, max_iter=2000)
    with threadpool_limits(limits=1):  # threads only wait for each other on vectors this short
        model.fit((train_x - centre) / scale, train_y)
    predicted = model.predict((test_x - centre) / scale)
    return np.bincount(test_y * number + predicted, minlength=number * number).reshape(number, number)
