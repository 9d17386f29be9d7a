"""The place where claims are measured: it gives runs and data, and keeps what was computed.

What is kept remembers what it was made from: the scale, the substitute data, the code, the weights of every run that
was opened while it was made and, where they were asked for, the seeds. When any of these is another it is made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unweave.base.errors import DataError, UnweaveError, unknown_name
from unweave.base.files import write_text
from unweave.studies._study import PlannedRun
from unweave.studies.reproductions._digest import code_digest

if TYPE_CHECKING:
    from unweave.data import DataSet
    from unweave.runs import Run


@dataclass
class _Reading:
    """What was read since some computation began.

    rows:  rows of the plan it may read, None for all
    runs:  names of the runs it opened
    seeds: whether it asked for the list of seeds
    """

    rows: tuple[str, ...] | None = None
    runs: set[str] = field(default_factory=set)
    seeds: bool = False


class Lab:
    """Runs, data and kept results of one reproduction at one scale.

    scale:      "quick" or "paper"
    seeds:      seeds of this reproduction
    folder:     where the runs are
    planned:    the runs, trained before anything is measured
    substitute: data set -> what stands in for it
    replaceable: the data set that `--data` takes the place of
    """

    def __init__(
        self,
        scale: str,
        seeds: Sequence[int],
        folder: Path,
        planned: Iterable[PlannedRun] = (),
        substitute: Mapping[str, str] | None = None,
        replaceable: str = "",
    ):
        self.scale, self.folder, self.replaceable = scale, folder, replaceable
        self._seeds = tuple(seeds)
        self._planned = {(run.row, run.seed): run for run in planned}
        self._substitute = dict(substitute or {})
        self._runs: dict[str, Run] = {}
        self._prints: dict[str, str] = {}
        self._data: dict[str, DataSet] = {}
        self._readings: list[_Reading] = []

    @property
    def seeds(self) -> tuple[int, ...]:
        for reading in self._readings:
            reading.seeds = True
        return self._seeds

    def run(self, row: str, seed: int) -> Run:
        """The trained run of a row of the plan, opened once."""
        from unweave.runs import Run

        allowed = self._readings[-1].rows if self._readings else None
        if allowed is not None and row not in allowed:
            raise UnweaveError(f"row {row!r} is read and not declared: add it to rows=... of this claim or figure")
        if (row, seed) not in self._planned:
            known = (f"{row}-{seed}" for row, seed in self._planned)
            raise unknown_name("run of the plan", f"{row}-{seed}", known)
        name = self._planned[row, seed].name
        self._read(name)
        if name not in self._runs:
            self._runs[name] = Run.open(self.folder / name)
        return self._runs[name]

    def data(self, name: str, **settings: Any) -> DataSet:
        """A data set, loaded once; the substitute where one was given."""
        from unweave.data import source

        given, kept = substituted(name, settings, self._substitute)
        chosen = source(given, **kept)
        key = json.dumps([chosen.name, chosen.to_dict()], sort_keys=True)
        if key not in self._data:
            try:
                self._data[key] = chosen.load()
            except DataError as error:
                replaceable = name == self.replaceable and name not in self._substitute
                hint = f"; or `--data NAME` takes another data set in place of {name}" if replaceable else ""
                raise DataError(f"{error}{hint}") from None
        return self._data[key]

    def held_out(self, row: str, seed: int, name: str, **settings: Any) -> DataSet:
        """Observations that a run was not trained on: a data set with settings of its own, such as a test file.

        Of a substitute that has not these settings: the rows that the run's split keeps for testing, else those for
        validation.
        """
        if set(substituted(name, settings, self._substitute)[1]) == set(settings):
            return self.data(name, **settings)
        run = self.run(row, seed)
        for part in ("test", "validation"):
            rows = run.split_rows().get(part, ())
            if len(rows):
                return run.dataset().take(rows)
        raise UnweaveError(
            f"run {row}-{seed} was trained on all of {self._substitute[name]}: nothing is left to test on"
        )

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` gives, as JSON gives it back; computed once and kept in folder/measured/NAME.json."""
        return self.keep(name, make)["value"]

    def keep(self, name: str, make: Callable[[], Any], code: Any = None, **note: Any) -> dict[str, Any]:
        """As `kept`, with the record around the value: value, seconds it took, `reused`, and what `note` adds."""
        if not re.fullmatch(r"[\w.+-]+", name):
            raise UnweaveError(f"kept result {name!r} cannot be a file: use letters, digits and . _ + -")
        path = self.folder / "measured" / f"{name}.json"
        digest = code_digest(make if code is None else code)
        record = self._kept_record(path, digest)
        if record is not None:
            for run in record["from"]["runs"]:
                self._read(run)
            if "seeds" in record["from"]:
                _ = self.seeds
            return {**record, "reused": True}
        with self.reading() as reading:
            clock = time.monotonic()
            value = make()
            seconds = time.monotonic() - clock
        origin: dict[str, Any] = {"scale": self.scale, "substitute": self._substitute, "code": digest}
        origin["runs"] = {run: self._fingerprint(run) for run in sorted(reading.runs)}
        if reading.seeds:
            origin["seeds"] = list(self._seeds)
        record = {"value": value, "seconds": round(seconds, 2), **note, "from": origin}
        try:
            text = json.dumps(record, indent=1, default=_plain)
        except TypeError as error:
            raise UnweaveError(f"kept result {name!r} is not plain data ({error}): give numbers, text, lists") from None
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text + "\n")
        return {**json.loads(text), "reused": False}

    @contextlib.contextmanager
    def reading(self, rows: tuple[str, ...] | None = None) -> Iterator[_Reading]:
        """Watches what is read within; begins with what the computation around it has read, which it may be using."""
        outer = self._readings[-1] if self._readings else _Reading()
        inner = _Reading(outer.rows if rows is None else rows, set(outer.runs), outer.seeds)
        self._readings.append(inner)
        try:
            yield inner
        finally:
            self._readings.pop()

    def _read(self, run: str) -> None:
        for reading in self._readings:
            reading.runs.add(run)

    def _kept_record(self, path: Path, digest: str) -> dict[str, Any] | None:
        """The record of a kept result, None when there is none or it was made from something else."""
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            origin = record["from"]
            same = (origin["scale"], origin["substitute"], origin["code"]) == (self.scale, self._substitute, digest)
            same &= origin.get("seeds", list(self._seeds)) == list(self._seeds)
            same &= all(self._fingerprint(run) == found for run, found in origin["runs"].items())
            return dict(record) if same and "value" in record else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _fingerprint(self, run: str) -> str:
        """Changes with the settings of a run and with its weights."""
        if run not in self._prints:
            files = (self.folder / run / name for name in ("run.json", "weights.safetensors"))
            self._prints[run] = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
        return self._prints[run]


def substituted(name: str, settings: Mapping[str, Any], substitute: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Data set and settings to read instead; the substitute gets those of the settings that it has too."""
    from unweave.data import source

    if name not in substitute:
        return name, dict(settings)
    fields = type(source(substitute[name])).model_fields
    return substitute[name], {key: value for key, value in settings.items() if key in fields and key != "path"}


def _plain(value: Any) -> Any:
    """numpy's numbers and arrays as Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} in it")
