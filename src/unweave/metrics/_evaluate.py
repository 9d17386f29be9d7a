"""All scores that apply, in one call, as one table."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from unweave.base.errors import MetricError, unknown_name
from unweave.core.factors import FactorKind, Factors
from unweave.core.score import Score
from unweave.metrics._few import few_rows
from unweave.metrics._inputs import check_codes, check_factors
from unweave.metrics._metric import METRICS, Metric

Progress = Callable[[str, int, int], None]


class Evaluation(Mapping[str, Score]):
    """Scores of one representation by name.

    scores:  name -> Score
    skipped: name -> why the score does not apply to these codes and factors
    notes:   what was left out of the factors, and what a score says about its own reliability
    seconds: name -> how long it took; not kept in `to_dict`
    about:   which rows were scored
    warning: why these rows are few for these scores; empty where they are enough
    """

    def __init__(
        self,
        scores: Mapping[str, Score],
        skipped: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
        seconds: Mapping[str, float] | None = None,
        about: str = "",
        warning: str = "",
    ):
        self._scores = dict(scores)
        self.skipped = dict(skipped or {})
        self.notes = tuple(notes)
        self.seconds = dict(seconds or {})
        self.about, self.warning = about, warning

    def __getitem__(self, name: str) -> Score:
        if name in self.skipped:
            raise MetricError(f"score {name!r} was not computed: {self.skipped[name]}")
        if name not in self._scores:
            raise unknown_name("score", name, self._scores)
        return self._scores[name]

    def __contains__(self, name: object) -> bool:
        return name in self._scores

    def __iter__(self) -> Iterator[str]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)

    def __repr__(self) -> str:
        return f"Evaluation({len(self)} scores: {', '.join(self)})"

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """Plain text: a line for each score with its value, 95 % interval and direction; then what was skipped, and the
        rows that were scored, with a warning where they are few."""
        lines = [("score", "value", "95 % interval", "better")]
        for score in self.values():
            interval = "" if score.interval is None else f"[{score.interval[0]:.3f}, {score.interval[1]:.3f}]"
            lines.append((score.name, f"{score.value:.3f}", interval, DIRECTION[score.higher_is_better]))
        widths = [max(len(line[column]) for line in lines) for column in range(4)]
        rows = [
            f"{name:<{widths[0]}}  {value:>{widths[1]}}  {interval:<{widths[2]}}  {better}".rstrip()
            for name, value, interval, better in lines
        ]
        rows += [f"{name} does not apply: {reason}" for name, reason in self.skipped.items()]
        rows += [f"note: {note}" for note in self.notes]
        rows += [f"scored: {self.about}"] if self.about else []
        rows += [f"warning: {self.warning}"] if self.warning else []
        return "\n".join(rows)

    def to_csv(self) -> str:
        """Comma-separated lines: score, value, low, high, better."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["score", "value", "low", "high", "better"])
        for score in self.values():
            low, high = score.interval or ("", "")
            writer.writerow([score.name, score.value, low, high, DIRECTION[score.higher_is_better]])
        return text.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and strings, for JSON."""
        return {
            "scores": {name: score.to_dict() for name, score in self.items()},
            "skipped": dict(self.skipped),
            "notes": list(self.notes),
            "about": self.about,
            "warning": self.warning,
        }

    @staticmethod
    def from_dict(plain: Mapping[str, Any]) -> Evaluation:
        """What `to_dict` made, also after JSON; lists of numbers become arrays again."""
        scores = {name: _score(score) for name, score in plain["scores"].items()}
        said = {name: plain.get(name, "") for name in ("about", "warning")}
        return Evaluation(scores, plain.get("skipped"), plain.get("notes", ()), **said)


DIRECTION = {True: "higher", False: "lower", None: "-"}


def evaluate(
    codes: Any,
    factors: Any = None,
    *,
    scores: Sequence[str] | None = None,
    spreads: Any = None,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | None = None,
    rng: int | np.random.Generator = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Every score that applies to these codes, or the named ones.

    codes:    (N, D) array or Codes
    factors:  (N, K) array, mapping or Factors; None leaves the scores that need them out
    scores:   names of scores; a named score that does not apply is an error, else it is skipped with its reason
    spreads:  (N, D) posterior standard deviations; not needed for Codes that carry them
    names, kinds: of the columns of `factors`, if that is an array
    rng:      seed given to each score, so `evaluate(..., rng=1)["mig"]` is `mig(..., rng=1)`
    progress: called with name, number and total before each score, and once with number = total at the end

    Factors that are constant or have no value are left out with a note.
    """
    chosen = list(METRICS) if scores is None else [METRICS[name] for name in check_names(scores)]
    seed = int(rng.integers(2**63)) if isinstance(rng, np.random.Generator) else rng
    rows = len(check_codes(codes)[0])
    table, notes = (None, []) if factors is None else _usable(check_factors(factors, names, kinds), rows)
    found: dict[str, Score] = {}
    skipped: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for number, entry in enumerate(chosen):
        if progress is not None:
            progress(entry.name, number, len(chosen))
        begin = time.perf_counter()
        try:
            found[entry.name] = _run(entry, codes, table, spreads, seed)
        except MetricError as error:
            if scores is not None:
                raise
            skipped[entry.name] = str(error)
        seconds[entry.name] = time.perf_counter() - begin
    if progress is not None:
        progress("", len(chosen), len(chosen))
    notes += [f"{name}: {score.settings['note']}" for name, score in found.items() if "note" in score.settings]
    return Evaluation(found, skipped, notes, seconds, f"{rows:,} rows", warning_of(found, rows, table))


def warning_of(scores: Iterable[str], rows: int, factors: Factors | None) -> str:
    """Why so many rows with these factors are few for these scores; empty where they are enough."""
    table = None if factors is None else _usable(factors, rows)[0]
    return few_rows(rows, table, [METRICS[name].needs for name in scores if name in METRICS])


def check_names(scores: Sequence[str]) -> Sequence[str]:
    """The names as they were given; MetricError for one name alone, whose letters would be taken for names."""
    if isinstance(scores, str):
        raise MetricError(f"scores is the text {scores!r}: give a list, [{scores!r}]")
    return scores


def _run(entry: Metric, codes: Any, factors: Factors | None, spreads: Any, seed: int) -> Score:
    if entry.needs == "codes":
        return entry(codes, rng=seed)
    if entry.needs == "posterior":
        return entry(codes, spreads=spreads, rng=seed)
    if factors is None:
        raise MetricError(f"{entry.name} needs factors: give a column for each ground-truth factor")
    return entry(codes, factors, rng=seed)


def _usable(factors: Factors, rows: int) -> tuple[Factors | None, list[str]]:
    """The factors with at least two values (None if there are none), and a note for each that is left out."""
    if len(factors) != rows:
        raise MetricError(
            f"codes have {rows} rows and factors {len(factors)}: both need one row per observation, in the same order"
        )
    kept, notes = [], []
    for name in factors.names:
        values = np.unique(factors.column(name)[~np.isnan(factors.column(name))])
        if len(values) > 1:
            kept.append(name)
        else:
            notes.append(f"factor {name!r} is left out: it {'is constant' if len(values) else 'has no value'}")
    return factors.select(kept) if kept else None, notes


def _score(plain: Mapping[str, Any]) -> Score:
    interval = plain["interval"]
    return Score(
        name=plain["name"],
        value=_number(plain["value"]),
        interval=None if interval is None else (_number(interval[0]), _number(interval[1])),
        parts={name: _array(part) for name, part in plain["parts"].items()},
        settings=dict(plain["settings"]),
        higher_is_better=plain["higher_is_better"],
    )


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _array(value: Any) -> Any:
    """A list (of lists) of numbers as an array, null as NaN; anything else as it is."""
    if isinstance(value, Mapping):
        return {key: _array(item) for key, item in value.items()}
    if value is None:
        return float("nan")
    if not isinstance(value, list) or not value:
        return value
    try:
        array = np.array([_array(item) for item in value])
    except ValueError:  # lists of different lengths
        return value
    return array if array.dtype.kind in "fiub" else value
