"""A run on the page: what the page shows of it, made when asked for and kept while the weights stay the same.

One thread calls these methods (see server.py), so nothing here is locked; only `render` of a state that is prepared is
called by another, the one for sliders.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unweave.base.errors import DataError, RunError, UnknownNameError, UnweaveError
from unweave.base.shell import quoted
from unweave.core.batch import Batch
from unweave.core.capabilities import Decodes, Encodes, Samples
from unweave.core.codes import Codes
from unweave.core.factors import Factors
from unweave.core.system import System
from unweave.data import DataSet
from unweave.knobs import Knob, at_most_pictures, information, knobs
from unweave.media import Shown
from unweave.media.pictures import as_pictures, value_limits
from unweave.operations import OPERATIONS, Inputs, Operation
from unweave.report.categories import Named, named_categories
from unweave.report.facts import USED, best_known, importances, knowledge
from unweave.runs.manifest import read_manifest
from unweave.runs.run import Run

REFERENCE = 2000
"""Rows whose codes stand for the data: ranges of sliders, what a dimension knows, the scatter."""
KEPT_BYTES = 200_000_000
"""Of the results of operations that a run keeps."""
MOST_PICTURES = 4096
"""Pictures that one operation may make for the page."""


class OpenedRun:
    """One run of the page.

    name: how links and requests call it; no path of the machine
    path: its directory
    """

    def __init__(self, name: str, path: Path):
        self.name, self.path = name, path
        self._state: _State | None = None
        self.prepared: _State | None = None
        """The last state that can render."""

    def state(self) -> _State:
        """The run as it is on disk now; an error says what is missing or damaged."""
        found = _stamp(self.path)
        if self._state is None or self._state.stamp != found:
            manifest = read_manifest(self.path)
            if found is None:
                raise RunError(f"{self.path} has no weights yet: wait for its first checkpoint, or train it")
            before = self._state
            # The data are the same and reading them takes long; a sample does not.
            data = None if before is None or before.run.sampled else before.dataset
            self._state = _State(self.name, Run(self.path, manifest, dataset=data), found)
        return self._state

    def is_prepared(self) -> bool:
        """Whether the weights on disk can render at once."""
        return self.prepared is not None and self.prepared.stamp == _stamp(self.path)

    def prepare(self) -> None:
        """Make ready to render with the weights on disk."""
        state = self.state()
        state.prepare()
        self.prepared = state

    def training(self) -> bool:
        """Whether steps are still to come."""
        return not (self.path / "weights.safetensors").exists()

    def log(self, since: int = -1) -> dict[str, Any]:
        """Terms over training after step `since`, as lists; None where a term has no value."""
        manifest = read_manifest(self.path)
        path = self.path / "log.csv"
        try:
            found = Run(self.path, manifest).log() if path.exists() else {"step": np.zeros(0), "seconds": np.zeros(0)}
            kept, steps = found["step"] > since, int(manifest.settings["training"]["steps"])
        except (ValueError, KeyError, TypeError, csv.Error):
            raise RunError(f"{path} or the settings in run.json are damaged: restore them, or train anew") from None
        columns = {name: [float(v) if np.isfinite(v) else None for v in own[kept]] for name, own in found.items()}
        return {"columns": columns, "steps": steps, "training": self.training()}


def _stamp(path: Path) -> tuple[str, int, int] | None:
    for name in ("state.safetensors", "weights.safetensors"):
        try:
            found = (path / name).stat()
        except FileNotFoundError:
            continue
        return name, found.st_mtime_ns, found.st_size
    return None


class _State:
    """A run with one set of weights."""

    def __init__(self, name: str, run: Run, stamp: object):
        self.name, self.run, self.stamp = name, run, stamp
        self._results: OrderedDict[str, Shown] = OrderedDict()

    @property
    def dataset(self) -> DataSet:
        try:
            return self.run.dataset()
        except DataError as error:  # nothing of the run can be shown, which is more than a mistake of one request
            raise RunError(f"the data of this run cannot be read: {error}") from None

    @property
    def system(self) -> System:
        try:
            return self.run.system()
        except UnknownNameError as error:
            raise RunError(f"this run cannot be opened: {error}") from None

    def prepare(self) -> None:
        """Make all that `render` reads, so that it may run beside the other thread."""
        _ = self.system, self.reference, self.limits

    @cached_property
    def data_id(self) -> str:
        """Equal for two runs when they read the same rows: a digest of some of them and of their number."""
        rows = np.linspace(0, len(self.dataset) - 1, min(32, len(self.dataset))).astype(np.int64)
        some = np.ascontiguousarray(self.dataset.observations(rows))
        return hashlib.sha256(f"{len(self.dataset)} {some.shape} ".encode() + some.tobytes()).hexdigest()[:16]

    @cached_property
    def knobs(self) -> tuple[Knob, ...]:
        return knobs(self.reference.blocks)

    # Inputs ------------------------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> np.ndarray:
        """Row numbers of the reference: test rows where the run has some, in an order without neighbours."""
        rows = self.run.split_rows().get("test", np.arange(len(self.dataset)))
        return np.random.default_rng(self.run.manifest.seed).permutation(rows)[:REFERENCE]

    def check_rows(self, rows: list[int]) -> np.ndarray:
        for row in rows:
            if not 0 <= row < len(self.dataset):
                raise DataError(f"there is no row {row}: the data have rows 0 to {len(self.dataset) - 1}")
        return np.asarray(rows, dtype=np.int64)

    def encode(self, observations: np.ndarray) -> Codes:
        """Codes of (n, *shape) observations."""
        return self.system.encode(Batch.of(torch.from_numpy(np.ascontiguousarray(observations))))

    def input(self, row: int) -> dict[str, Any]:
        """An observation of the data: its code and what is known of it."""
        rows = self.check_rows([row])
        return {"row": row, **self.coded(self.dataset.observations(rows)), "factors": self.factors_of(row)}

    def coded(self, observations: np.ndarray) -> dict[str, Any]:
        """The code of one observation, knob by knob in the order of `flat`."""
        codes = self.encode(observations)
        spread, code = codes.flat_spread()[0], codes.flat()[0][0]
        if not np.isfinite(code).all():
            raise DataError("the code of this observation is not finite: choose another")
        return {
            "code": [float(value) for value in code],
            "spread": [None if np.isnan(value) else float(value) for value in spread],
        }

    def factors_of(self, row: int) -> dict[str, str]:
        factors = self.dataset.factors
        if factors is None:
            return {}
        return {name: _told(factors, number, factors.values[row, number]) for number, name in enumerate(factors.names)}

    @cached_property
    def reference(self) -> Codes:
        """Codes of a sample of the data; a generator without a recognition program has its own draws instead."""
        _ = self.dataset  # first, since its errors are told as the run's
        if isinstance(self.system, Encodes):
            codes = self.run.encode_rows(self.rows)
        else:
            codes = self.system.draw(REFERENCE, seed=self.run.manifest.seed)
        if not np.isfinite(codes.flat()[0]).all():
            raise RunError(f"the codes of {self.run.path} are not finite: its training diverged; train it anew")
        return codes

    # What the page shows -----------------------------------------------------------------------------------------

    @cached_property
    def nats(self) -> dict[str, float]:
        """I(x; z_d): as scored where there are scores, else the quick bound."""
        found = information(self.reference)
        scores = self.scores()
        if scores is not None and "information" in scores:
            measured = dict(scores["information"].parts["per_dimension"])
            found.update({name: float(measured[name]) for name in found if name in measured})
        return found

    def scores(self) -> Any:
        """Scores of these weights, None when there are none."""
        try:
            return self.run.scores()
        except UnweaveError:
            return None

    @property
    def operations(self) -> list[str]:
        """Operations that this system can do; asked anew each time, since a user may register one at any time."""
        return [operation.name for operation in OPERATIONS if operation.applies_to(self.system)]

    @cached_property
    def about(self) -> dict[str, Any]:
        """What the page needs to draw itself: blocks, knobs with their ranges, factors, operations."""
        self.prepare()
        system, spec = self.system, self.dataset.spec
        values = self.reference.flat()[0].astype(np.float64)
        spreads = np.nan_to_num(self.reference.flat_spread().astype(np.float64))
        deviation = np.sqrt(values.var(axis=0) + np.mean(spreads**2, axis=0))
        mean = values.mean(axis=0)
        factors = self.dataset.factors
        return {
            "name": self.name,
            "path": str(self.run.path),
            "system": self.run.manifest.system,
            "summary": system.card.summary,
            "paper": system.card.paper,
            "data": self.run.manifest.data or "data in memory",
            "seed": self.run.manifest.seed,
            "steps": self.run.steps,
            "shape": list(spec.shape),
            "kind": _kind(spec.shape),
            "rows": len(self.dataset),
            "data_id": self.data_id,
            "columns": list(self.reference.columns),
            "mean": [float(each) for each in mean],
            "deviation": [float(each) for each in deviation],
            "blocks": [
                {"name": b.name, "kind": b.kind, "scope": b.scope, "shape": list(b.shape)}
                for b in self.reference.blocks
            ],
            "knobs": [{**self._knob(knob, values), **self._choices(knob)} for knob in self.knobs],
            "factors": []
            if factors is None
            else [
                {"name": name, "kind": kind, "labels": None if labels is None else list(labels)}
                for name, kind, labels in zip(factors.names, factors.kinds, factors.labels, strict=True)
            ],
            "group": system.reads.group,
            "can": {
                "encode": isinstance(system, Encodes),
                "decode": isinstance(system, Decodes),
                "sample": isinstance(system, Samples),
            },
            "operations": self.operations,
            "used": USED,
        }

    def _knob(self, knob: Knob, values: np.ndarray) -> dict[str, Any]:
        own = values[:, list(knob.columns)]
        return {
            "name": knob.name,
            "block": knob.block.name,
            "kind": knob.block.kind,
            "columns": list(knob.columns),
            "steps": knob.steps,
            "nats": self.nats[knob.name],
            "knows": self._knows(knob),
            "values": [float(v) for v in np.unique(own)] if knob.block.kind == "discrete" else None,
        }

    def _knows(self, knob: Knob) -> list[dict[str, Any]] | None:
        """The factors a knob knows about, most first; None where nothing is known of the data."""
        if self.known is None:
            return None
        shares = self.knows["shares"][self.knows["knobs"].index(knob.name)]
        return [
            {"factor": name, "share": share}
            for name, share in best_known(dict(zip(self.known.names, shares, strict=True)))
        ]

    def _choices(self, knob: Knob) -> dict[str, Any]:
        """The categories of a knob and what they stand for, by which factor; nothing for any other knob."""
        named = self.named.get(knob.name)
        if named is None:
            return {"factor": None, "categories": None}
        return {"factor": named.factor, "categories": [asdict(category) for category in named.categories]}

    @cached_property
    def named(self) -> Mapping[str, Named]:
        return named_categories(self.reference, self.known)

    @cached_property
    def known(self) -> Factors | None:
        """Factors of the reference's rows; a system's own draws have none."""
        factors = self.dataset.factors
        return None if factors is None or not isinstance(self.system, Encodes) else factors.take(self.rows)

    @cached_property
    def knows(self) -> dict[str, Any]:
        """(D, K) shares of each factor's entropy that each knob knows, and DCI importances where they were scored."""
        known, scores = self.known, self.scores() or {}
        found = importances(self.reference, scores)
        return {
            "knobs": [knob.name for knob in self.knobs],
            "factors": [] if known is None else list(known.names),
            "shares": knowledge(self.reference, known).tolist(),
            "importance": None
            if found is None
            else {"score": found[0], "factors": list(found[1]), "values": found[2].tolist()},
        }

    def points(self) -> dict[str, Any]:
        """Codes and factors of the reference, for scatters."""
        factors = self.dataset.factors
        encodes = isinstance(self.system, Encodes)
        values = self.reference.flat()[0]
        return {
            "rows": self.rows.tolist() if encodes else [],
            "columns": list(self.reference.columns),
            "codes": np.round(values.astype(np.float64), 4).tolist(),
            "factors": {}
            if factors is None or not encodes
            else {
                name: [None if np.isnan(v) else round(float(v), 6) for v in factors.values[self.rows, number]]
                for number, name in enumerate(factors.names)
            },
        }

    def score_table(self) -> dict[str, Any]:
        """Scores with their intervals; how to get them where there are none."""
        scores = self.scores()
        if scores is None:
            return {"scores": [], "skipped": {}, "notes": [], "command": f"unweave evaluate {quoted(self.run.path)}"}
        return {
            "scores": [
                {
                    "name": score.name,
                    "value": float(score.value),
                    "interval": None if score.interval is None else [float(end) for end in score.interval],
                    "better": {True: "higher", False: "lower", None: ""}[score.higher_is_better],
                }
                for score in scores.values()
            ],
            "skipped": dict(scores.skipped),
            "notes": [line for line in (scores.about, scores.warning, *scores.notes) if line],
            "command": f"unweave evaluate {quoted(self.run.path)}",
        }

    # Pictures ----------------------------------------------------------------------------------------------------

    @cached_property
    def limits(self) -> tuple[float, float]:
        """What is black and what is white, one scale for all pictures of this run."""
        spec = self.dataset.spec
        return value_limits(self.dataset.observations(self.rows[:100]), spec.values, spec.levels)

    def files(self, observations: np.ndarray) -> list[bytes]:
        """A PNG of each of (n, *shape) observations."""
        # One below the other: clips side by side would share the width of one sheet, and shrink in large batches.
        grid = as_pictures(observations[:, None], self.dataset.spec, self.limits).grid[:, 0]
        return [_png(picture) for picture in grid]

    def render(self, codes: np.ndarray) -> list[bytes]:
        """A PNG of each of (n, D) codes."""
        if not isinstance(self.system, Decodes):
            raise UnweaveError(f"{self.run.manifest.system} cannot make observations from codes")
        return self.files(self.system.render(self.reference.unflat(codes)))

    def thumbnails(self, rows: list[int]) -> list[bytes]:
        return self.files(self.dataset.observations(self.check_rows(rows)))

    def draw(self, seed: int) -> list[float]:
        """A code drawn from the prior."""
        codes = self.system.draw(1, seed)
        return [float(value) for value in codes.flat()[0][0]]

    # Operations --------------------------------------------------------------------------------------------------

    def operate(self, operation: Operation, rows: list[int] | None, params: Any) -> Shown:
        """What an operation shows; the last few results are kept, since a result is asked for as JSON, PNG and GIF."""
        key = json.dumps([operation.name, rows, params.to_dict()], sort_keys=True)
        if key not in self._results:
            with at_most_pictures(MOST_PICTURES):
                self._results[key] = operation(self.system, self._inputs(operation, rows), params)
            while len(self._results) > 1 and sum(each.images.nbytes for each in self._results.values()) > KEPT_BYTES:
                self._results.popitem(last=False)
        self._results.move_to_end(key)
        return self._results[key]

    def _inputs(self, operation: Operation, rows: list[int] | None) -> Inputs:
        if not isinstance(self.system, Encodes):
            chosen = np.arange(operation.default_inputs) if rows is None else self.check_rows(rows)
            codes = self.reference.take(np.arange(len(chosen)))
            return Inputs(self.dataset.observations(chosen), codes, self.reference, chosen)
        kept = self.rows
        if rows is None and operation.one_group:
            kept = self.run._one_group(kept, operation.inputs)
        chosen = kept[: operation.default_inputs] if rows is None else self.check_rows(rows)
        codes = self.run.encode_rows(chosen) if len(chosen) else self.reference.take([])
        observations = self.dataset.observations(chosen)
        return Inputs(observations, codes, self.reference, chosen, self.run._groups(chosen))


def _png(picture: np.ndarray) -> bytes:
    """A PNG of (H, W, 3) bytes, quickly: grey where it is grey, little compression."""
    from PIL import Image

    grey = bool((picture[..., 0] == picture[..., 1]).all() and (picture[..., 1] == picture[..., 2]).all())
    memory = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture[..., 0]) if grey else picture).save(memory, "PNG", compress_level=1)
    return memory.getvalue()


def _kind(shape: tuple[int, ...]) -> str:
    return {1: "vector", 2: "matrix", 3: "image", 4: "clip"}.get(len(shape), "other")


def _told(factors: Any, number: int, value: float) -> str:
    """A factor's value in words."""
    if np.isnan(value):
        return "unknown"
    labels = factors.labels[number]
    if labels is not None and value == int(value) and 0 <= int(value) < len(labels):
        return str(labels[int(value)])
    return f"{value:.4g}"
