"""Scores of a run's codes, with which rows they are of: how many, of which split, and what to do where they are few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unweave.base.shell import command_line
from unweave.core.codes import Codes
from unweave.runs.progress import score_bar
from unweave.runs.recognised import NAME, with_pictures

if TYPE_CHECKING:
    from unweave.metrics import Evaluation
    from unweave.runs.run import Run

REFERENCE_ROWS = 10_000
"""Rows of a split that are encoded and scored, at most."""
_SPLITS = {"train": "training", "validation": "validation", "test": "test", "held_out": "held-out"}


def score_rows(
    run: Run, codes: Codes, rows: np.ndarray, split: str, scores: Sequence[str] | None, progress: bool
) -> tuple[Evaluation, Evaluation]:
    """The scores that were asked, and these with all others there are of the same rows.

    codes: (n,) of these rows of the data, which are of this split
    """
    from unweave.metrics import check_names, evaluate, warning_of

    dataset = run.dataset()
    factors = None if dataset.factors is None else dataset.factors.take(rows)
    with score_bar(show=progress) as callback:
        of_codes = scores if scores is None else [name for name in check_names(scores) if name != NAME]
        result = evaluate(codes, factors, scores=of_codes, rng=run.manifest.seed, progress=callback)
    result = with_pictures(run, result, scores)
    before = run.scores()
    kept = result if scores is None or before is None else merged(before, result)
    about = told_of_rows(dataset.name, len(dataset), run.split_rows(), split, len(rows))
    most, hint = min(len(dataset), REFERENCE_ROWS), ""
    if split != "all" and most > len(rows):
        command = command_line("unweave", "evaluate", run.path, "--split", "all")
        hint = f": `{command}` scores {most:,} (rows trained on among them)"
    asked, every = (_with_rows(of, warning_of(of, len(rows), factors), about, hint) for of in (result, kept))
    return asked, every


def told_of_rows(data: str, size: int, splits: Mapping[str, np.ndarray], split: str, scored: int) -> str:
    """`the 60 test rows of photos, which has 600 rows`.

    size:   rows of the data in all
    splits: the rows of each split
    scored: how many rows of the split were scored
    """
    if split == "all" and scored == size:
        trained = len(splits.get("train", ()))
        return f"all {size:,} rows of {data}" + (f", {trained:,} of them trained on" if trained else "")
    if split == "all":
        return f"{scored:,} of the {size:,} rows of {data}, at random, those trained on among them"
    whole, kind = len(splits[split]), _SPLITS.get(split, split)
    count = f"the {scored:,}" if scored == whole else f"{scored:,} of the {whole:,}"
    return f"{count} {kind} rows of {data}, which has {size:,} rows"


def merged(before: Evaluation, result: Evaluation) -> Evaluation:
    """Scores of the same rows in one: the new ones in place of those of their names, all others kept."""
    from unweave.metrics import Evaluation

    scores = {**before, **result}
    skipped = {name: why for name, why in {**before.skipped, **result.skipped}.items() if name not in result}
    old = [note for note in before.notes if note.partition(":")[0] not in result]
    notes = list(dict.fromkeys((*old, *result.notes)))
    return Evaluation(scores, skipped, notes, about=result.about)


def _with_rows(result: Evaluation, warning: str, about: str, hint: str) -> Evaluation:
    from unweave.metrics import Evaluation

    more = hint if warning else ""
    return Evaluation(result, result.skipped, result.notes, result.seconds, about, warning + more)
