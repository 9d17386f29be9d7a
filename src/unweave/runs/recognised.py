"""Whether what is in a run's pictures is recognised after they were encoded and decoded: the score of `recognition`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unweave.base.errors import MetricError
from unweave.core.capabilities import Decodes, Encodes
from unweave.core.factors import Factors
from unweave.core.score import Score

if TYPE_CHECKING:
    from unweave.metrics import Evaluation
    from unweave.runs.run import Run

NAME = "recognition"
JUDGED = 2_000
"""Rows whose reconstructions are judged, at most."""
KNOWN = 10_000
"""Training rows that the classifier knows, at most."""
FAIR = 0.9
"""Share of unseen originals that the classifier must name rightly to judge anything."""


def recognise(run: Run, factor: str | None = None) -> Score:
    """Share of reconstructions in which the classifier of training originals still sees the original's class.

    factor: whose values are the classes; the first discrete one whose values have names, when not given

    Judged are kept rows, known to the classifier are training rows that are not judged. Raises MetricError where this
    cannot be said, with the reason.
    """
    from unweave.metrics import recognition

    dataset = run.dataset()
    if not {Encodes, Decodes} <= set(run.system().capabilities()):
        raise MetricError(f"{run.manifest.system} does not reconstruct: there are no pictures to recognise anything in")
    if not dataset.spec.is_image:
        raise MetricError(f"the observations of {dataset.name} are no images")
    if dataset.factors is None:
        raise MetricError(f"{dataset.name} has no factors: recognition needs one whose values are classes of pictures")
    factor = factor or _named(dataset.factors)
    column = dataset.factors.column(factor)
    rng = np.random.default_rng(run.manifest.seed)
    kept, training = run.code_rows(), run.split_rows().get("train", np.zeros(0, np.int64))
    if np.isin(kept, training).any():  # codes of training rows: leave the classifier some
        kept = rng.permutation(kept)[: len(kept) // 2]
    judged = _some(kept, JUDGED, column, rng)
    known = _some(np.setdiff1d(training, judged), KNOWN, column, rng)
    if not len(judged) or not len(known):
        raise MetricError(f"no {'training' if len(judged) else 'judged'} row has a value of {factor}: give more rows")
    score = recognition(
        run.system().render(run.encode_rows(judged)),
        column[judged],
        originals=dataset.observations(judged),
        training=dataset.observations(known),
        training_labels=column[known],
        rng=run.manifest.seed,
    )
    labels = dataset.factors.labels[dataset.factors.position(factor)]
    named = {labels[int(place)] if labels else place: share for place, share in score.parts["per_class"].items()}
    return replace(score, parts={**score.parts, "per_class": named}, settings={**score.settings, "factor": factor})


def with_pictures(run: Run, result: Evaluation, scores: Sequence[str] | None) -> Evaluation:
    """The scores of a run's codes and that of its pictures, where it is among the named ones or can be had."""
    from unweave.metrics import Evaluation

    if scores is not None and NAME not in scores:
        return result
    begin, skipped, found = time.perf_counter(), dict(result.skipped), dict(result)
    try:
        found[NAME] = _fair(recognise(run))
    except MetricError as error:
        if scores is not None:
            raise
        skipped[NAME] = str(error)
    seconds = {**result.seconds, NAME: time.perf_counter() - begin}
    return Evaluation(found, skipped, result.notes, seconds, result.about, result.warning)


def _fair(score: Score) -> Score:
    """The score, unless its classifier is no judge."""
    own, factor = score.parts["originals"], score.settings["factor"]
    if own < FAIR:
        raise MetricError(
            f"the classifier names the {factor} of {100 * own:.0f} % of unseen originals, under {100 * FAIR:.0f} %: it "
            "is no judge of pictures"
        )
    return score


def _named(factors: Factors) -> str:
    for name, kind, labels in zip(factors.names, factors.kinds, factors.labels, strict=True):
        if kind == "discrete" and labels is not None and len(labels) > 1:
            return name
    raise MetricError(
        f"none of {', '.join(factors.names)} has values with names: recognition needs classes of pictures"
    )


def _some(rows: np.ndarray, most: int, column: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Up to `most` of the rows that have a value."""
    rows = rows[~np.isnan(column[rows])]
    return rows if len(rows) <= most else rng.choice(rows, most, replace=False)
