"""A run without training for tests of reports: the closed-form blobs with made-up logs, and real codes and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import toy_blobs
from unweave.core.codes import Codes
from unweave.core.dataspec import DataSpec
from unweave.core.score import Score
from unweave.core.system import SystemConfig
from unweave.data import DataSet
from unweave.media import Shown
from unweave.operations import OPERATIONS, Inputs
from unweave.runs.checkup import Checkup


class ToyRun:
    """What a report asks of a run."""

    def __init__(
        self,
        path: Path,
        *,
        rows: int = 300,
        factors: bool = True,
        log_rows: int = 120,
        scores: Mapping[str, Score] | None = None,
        system: str = "Blobs",
        checkup: Checkup | None = None,
        threads: Sequence[int] = (2,),
        **blobs: Any,
    ):
        self.path, self.steps, self._scores = path, 100 * log_rows, scores
        self._checkup, self._threads = checkup, list(threads)
        toy = getattr(toy_blobs, system)(**blobs)
        type(toy).config_class = SystemConfig
        self._system = toy
        self._codes, observations, known = toy.sample_of_data(rows)
        spec = DataSpec(toy.spec.shape, "unit", rows)
        self._data = DataSet("soft <shapes>", spec, lambda chosen: observations[chosen], known if factors else None)
        self._log_rows = log_rows
        self.manifest = SimpleNamespace(
            system="blobs",
            preset=None,
            settings={"beta": 4.0, "training": {"steps": self.steps}},
            data="",
            data_settings={},
            data_spec=toy.spec.to_dict(),
            split={"train": 0.9},
            seed=3,
            threads=2,
            device="cpu",
        )

    def system(self) -> Any:
        return self._system

    def dataset(self) -> DataSet:
        return self._data

    def codes(self) -> Codes:
        return self._codes

    def code_rows(self) -> np.ndarray:
        return np.arange(self._codes.rows)

    def scores(self) -> Mapping[str, Score] | None:
        return self._scores

    def reconstruction(self) -> dict[str, float]:
        return {"nats": 23.456, "mse": 0.0123, "rows": 100}

    def threads(self) -> list[int]:
        return self._threads

    def checkup(self) -> Checkup | None:
        return self._checkup

    def log(self) -> dict[str, np.ndarray]:
        step = np.arange(1.0, self._log_rows + 1) * 100
        noise = np.random.default_rng(0).normal(size=(3, self._log_rows))
        fall = np.exp(-step / 2000)
        return {
            "step": step,
            "seconds": step * 0.011,
            "reconstruction": 25 + 300 * fall + noise[0],
            "kl": 18 - 12 * fall + 0.3 * noise[1],
            "total_correlation": np.abs(1 + 2 * fall + 0.2 * noise[2]),
        }

    def operate(self, name: str, rows: Sequence[int] | None = None, **params: Any) -> Shown:
        operation = OPERATIONS[name]
        chosen = np.arange(operation.default_inputs) if rows is None else np.asarray(rows, dtype=np.int64)
        inputs = Inputs(self._data.observations(chosen), self._codes.take(chosen), self._codes, chosen)
        return operation(self._system, inputs, operation.params(**params))
