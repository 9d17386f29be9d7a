"""Disentanglement, completeness and informativeness (DCI) with three kinds of predictor.

Every factor is predicted from all dimensions; how much each dimension matters for each prediction is the importance
matrix R. The score asks whether each dimension matters for one factor only.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.base.card import Card
from unweave.base.errors import MetricError
from unweave.core.factors import FactorKind
from unweave.core.score import Score
from unweave.metrics._importance import Boosted, Forest, Predictor, disentanglement_completeness, lasso
from unweave.metrics._inputs import Checked, check
from unweave.metrics._interval import generator, unseen
from unweave.metrics._metric import metric

EASTWOOD = Card(
    summary="DCI disentanglement",
    paper="Eastwood, Williams: A Framework for the Quantitative Evaluation of Disentangled Representations, ICLR 2018",
    bibtex="""@inproceedings{eastwood2018framework,
  title = {A Framework for the Quantitative Evaluation of Disentangled Representations},
  author = {Eastwood, Cian and Williams, Christopher K. I.},
  booktitle = {International Conference on Learning Representations},
  year = {2018}
}""",
    needs="codes and factors",
)
LOCATELLO = Card(
    summary="DCI disentanglement, gains of boosted trees: does each dimension matter for one factor only?",
    paper="Locatello, Bauer, Lucic, Rätsch, Gelly, Schölkopf, Bachem: Challenging Common Assumptions in the "
    "Unsupervised Learning of Disentangled Representations, ICML 2019",
    bibtex="""@inproceedings{locatello2019challenging,
  title = {Challenging Common Assumptions in the Unsupervised Learning of Disentangled Representations},
  author = {Locatello, Francesco and Bauer, Stefan and Lucic, Mario and R{\\"a}tsch, Gunnar and Gelly, Sylvain and
            Sch{\\"o}lkopf, Bernhard and Bachem, Olivier},
  booktitle = {International Conference on Machine Learning},
  year = {2019}
}""",
    needs="codes and factors",
)

WORTH_PROCESSES = 5.0  # seconds of work on one core; to start processes takes one or two


def _eastwood(predictor: str) -> Card:
    summary = f"DCI disentanglement, {predictor}: does each dimension matter for one factor only?"
    return Card(summary, EASTWOOD.paper, EASTWOOD.bibtex, EASTWOOD.needs)


@metric(_eastwood("lasso weights"))
def dci_lasso(
    codes: Any,
    factors: Any,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | None = None,
    rng: int | np.random.Generator = 0,
    folds: int = 5,
    jobs: int = -1,
) -> Score:
    """DCI with R_ij = |W_ij|, the weights of a lasso from standardised codes to the standardised factor.

    All factors are regressed, discrete ones by their number. Arguments and parts as in `dci_forest`; the penalty is
    chosen by cross-validation on the training rows, see `unweave.metrics._importance.lasso`.
    """
    return _score("dci_lasso", check(codes, factors, names, kinds), lasso, rng, folds, 0, jobs, {})


@metric(_eastwood("random forest importances"))
def dci_forest(
    codes: Any,
    factors: Any,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | None = None,
    rng: int | np.random.Generator = 0,
    folds: int = 5,
    trees: int = 10,
    most_classes: int = 10,
    jobs: int = -1,
) -> Score:
    """DCI with R_ij the importance of dimension i in a random forest that predicts factor j.

    codes:        (N, D) array or Codes
    factors:      (N, K) array, mapping or Factors; NaN where missing
    folds:        parts of the rows; each predictor is trained on all but one and tested on that one
    trees:        trees in each forest (10 in the paper)
    most_classes: a discrete factor with more values than this is regressed as the number it is
    jobs:         threads, or processes where there is much to do; -1 takes all cores. The result does not depend on it

    value: disentanglement, with an interval from the folds (delete-a-group jackknife)
    parts: factors (K,), dimensions (D,)   their names
           importance (D, K)               R, the mean over folds
           completeness, informativeness   informativeness is 1 - mean of error_per_factor
           disentanglement_per_dimension (D,), weight_per_dimension (D,), completeness_per_factor (K,)
           error_per_factor (K,)           on rows not trained on: nrmse if regressed, 1 - accuracy if classified
           nrmse, accuracy                 the same as {factor: value}, for regressed and for classified factors
    """
    checked, settings = check(codes, factors, names, kinds), {"trees": trees, "most_classes": most_classes}
    return _score("dci_forest", checked, Forest(trees), rng, folds, most_classes, jobs, settings)


@metric(LOCATELLO)
def dci_boosted(
    codes: Any,
    factors: Any,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | None = None,
    rng: int | np.random.Generator = 0,
    folds: int = 5,
    trees: int = 100,
    most_classes: int = 10,
    jobs: int = -1,
) -> Score:
    """DCI with R_ij the share of dimension i in the gain of all splits of boosted trees that predict factor j.

    trees: boosting rounds; each adds one tree of depth 3, for a factor of C > 2 classes C trees. Other arguments and
    parts as in `dci_forest`.
    """
    checked, settings = check(codes, factors, names, kinds), {"trees": trees, "most_classes": most_classes}
    return _score("dci_boosted", checked, Boosted(trees), rng, folds, most_classes, jobs, settings)


def _score(
    name: str,
    checked: Checked,
    predictor: Predictor,
    rng: int | np.random.Generator,
    folds: int,
    most_classes: int,
    jobs: int,
    settings: dict[str, Any],
) -> Score:
    random, seed = generator(rng)
    importances, error, classify = _predict(checked, predictor, random, folds, most_classes, jobs)
    shares = disentanglement_completeness(importances.mean(axis=0))
    settings = {**settings, "folds": folds, "rows": len(checked.codes), "seed": seed, "factors": checked.names}
    predicted = [n for n, of in zip(checked.names, importances.mean(axis=0).sum(axis=0), strict=True) if of > 0]
    if len(predicted) < 2 <= len(checked.names):
        only = f"only {predicted[0]!r}" if predicted else "none"
        settings["note"] = f"{only} of {len(checked.names)} factors is predicted: no dimension can matter for two"
    return Score(
        name,
        shares.disentanglement,
        _jackknife(
            [disentanglement_completeness(one).disentanglement for one in importances],
            shares.disentanglement,
            len(checked.codes),
        ),
        parts={
            "factors": checked.names,
            "dimensions": checked.code_names,
            "completeness": shares.completeness,
            "informativeness": float(1.0 - error.mean()),
            "importance": importances.mean(axis=0),
            "disentanglement_per_dimension": shares.per_dimension,
            "weight_per_dimension": shares.weights,
            "completeness_per_factor": shares.per_factor,
            "error_per_factor": error,
            "nrmse": {n: float(e) for n, e, c in zip(checked.names, error, classify, strict=True) if not c},
            "accuracy": {n: float(1 - e) for n, e, c in zip(checked.names, error, classify, strict=True) if c},
        },
        settings=settings,
    )


def _predict(
    checked: Checked, predictor: Predictor, random: np.random.Generator, folds: int, most_classes: int, jobs: int
) -> tuple[np.ndarray, np.ndarray, list[bool]]:
    """Every factor predicted without the rows of each fold in turn.

    Returns (folds, D, K) importances, (K,) errors on the rows left out, and for each factor whether it was classified.
    """
    import joblib
    from threadpoolctl import threadpool_limits

    (rows, dimensions), factors = checked.codes.shape, checked.factors.shape[1]
    present = ~np.isnan(checked.factors)
    if folds < 2:
        raise MetricError(f"folds = {folds}: expected at least 2, one to test on and one to train on")
    for k in np.flatnonzero(present.sum(axis=0) < 2 * folds):
        raise MetricError(
            f"factor {checked.names[k]!r} has {present[:, k].sum()} values: {folds} folds need at least {2 * folds}"
        )
    fold = random.permutation(rows) % folds
    seeds = random.integers(2**31, size=(folds, factors))
    values = [np.unique(checked.factors[present[:, k], k]) for k in range(factors)]
    classify = [bool(checked.discrete[k]) and len(values[k]) <= most_classes for k in range(factors)]

    def task(g: int, k: int) -> Any:
        train, test = present[:, k] & (fold != g), present[:, k] & (fold == g)
        target, truth = checked.factors[train, k], checked.factors[test, k]
        if classify[k]:  # classes by number, whatever their values
            target, truth = np.searchsorted(values[k], target), np.searchsorted(values[k], truth)
        rows = checked.codes[train], checked.codes[test]
        return joblib.delayed(_fit)(predictor, *rows, target, truth, classify[k], int(seeds[g, k]))

    classes = [len(v) if c else 0 for v, c in zip(values, classify, strict=True)]
    # The slowest fits first, so that no core waits for one of them at the end.
    order = sorted(np.ndindex(folds, factors), key=lambda gk: -classes[gk[1]])
    seconds = 0.0
    if isinstance(predictor, (Forest, Boosted)):
        seconds = folds * sum(predictor.seconds(rows, dimensions, number) for number in classes)
    # Fits of many short steps wait for each other's threads: only processes use several cores. A process that is not to
    # have children cannot start any.
    processes = seconds > WORTH_PROCESSES and not multiprocessing.current_process().daemon
    with threadpool_limits(limits=1):  # the fits already share the cores
        parallel = joblib.Parallel(jobs, prefer="processes" if processes else "threads", max_nbytes=None)
        fits = parallel(task(g, k) for g, k in order)
    importances, losses = np.zeros((folds, dimensions, factors)), np.zeros((factors, 2))
    for (g, k), (importance, loss) in zip(order, fits, strict=True):
        importances[g, :, k] = importance
        losses[k] += loss
    error = losses[:, 0] / np.where(losses[:, 1] > 0, losses[:, 1], 1.0)
    return importances, np.where(classify, error, np.sqrt(error)), classify


def _fit(
    predictor: Predictor,
    codes: np.ndarray,
    test: np.ndarray,
    target: np.ndarray,
    truth: np.ndarray,
    classify: bool,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """(D,) importances; (2,) summed loss on rows not trained on, with codes and without any.

    codes, test:   (n, D) rows to train on, (m, D) rows to test on
    target, truth: (n,), (m,) their values of the factor

    May run in a process of its own: all that it needs is in its arguments.
    """
    importance, guess = np.zeros(codes.shape[1]), np.full(len(truth), target.mean())
    if len(np.unique(target)) > 1:
        importance, guess = predictor(codes, target, classify, test, seed)
    if classify:
        return importance, np.array([(guess != truth).sum(), len(truth)], dtype=np.float64)
    return importance, np.array([((guess - truth) ** 2).sum(), ((target.mean() - truth) ** 2).sum()])


def _jackknife(values: Sequence[float], centre: float, n_rows: int, level: float = 0.95) -> tuple[float, float]:
    """Student t interval of the delete-a-group jackknife: variance (G - 1) / G sum_g (v_g - mean v)^2, cut to [0, 1].

    values: the score without the rows of group g, for each of G groups; where all agree the interval is `unseen`'s
    """
    from scipy import special

    groups = len(values)
    deviation = np.sqrt((groups - 1) * np.var(values))
    reach = special.stdtrit(groups - 1, (1 + level) / 2) * deviation
    interval = max(0.0, float(centre - reach)), min(1.0, float(centre + reach))
    return unseen(interval, n_rows, level, (0.0, 1.0))
