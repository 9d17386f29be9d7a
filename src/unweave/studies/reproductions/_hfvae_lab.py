"""From runs to what the HFVAE reproduction measures: which rows, which codes, which dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.core.codes import Codes
from unweave.data import hold_out_combinations
from unweave.runs import Run
from unweave.studies.reproductions import _hfvae_measures as measures
from unweave.studies.reproductions._hfvae_terms import all_panels
from unweave.studies.reproductions._reproduction import Lab

POSITIONS = np.linspace(-3.0, 3.0, 7)


@dataclass(frozen=True)
class Pruned:
    """A combination of a digit and a shape that is removed from training.

    digit:  its condition;   shape: the other;   factor: the measured factor of `shape`
    words:  the pictures removed;   seen: what they are compared with
    """

    name: str
    digit: str
    shape: str
    factor: str
    words: str
    seen: str

    @property
    def combination(self) -> str:
        return f"{self.digit},{self.shape}"


PRUNED = {
    "no-thick-7": Pruned(
        "thick-7", "digit=7", "thickness>=2.95", "thickness", "thick 7s", "thick other digits and thinner 7s"
    ),
    "no-narrow-0": Pruned("narrow-0", "digit=0", "width<=14", "width", "narrow 0s", "narrow other digits and wider 0s"),
}
"""Row -> what its training lacks: about a fifth of the 7s and a sixth of the 0s."""


def test_rows(run: Run) -> np.ndarray:
    return run.split_rows()["test"]


def encoded(run: Run) -> Codes:
    """Codes of all test rows."""
    return run.encode_rows(test_rows(run))


def reconstructed(run: Run, rows: np.ndarray) -> np.ndarray:
    """(n, *shape) pictures decoded from the centre of the posterior."""
    return run.system().render(run.encode_rows(rows))


def block_of(run: Run) -> str:
    """The continuous block: style of the HFVAE, z of the beta-VAE."""
    return next(block.name for block in run.system().blocks if block.kind == "real")


def thickness_dimension(lab: Lab, run: Run) -> tuple[int, float]:
    """The dimension most correlated with thickness on MNIST's validation rows, and the correlation."""
    factors = lab.data("mnist", morphology=True).factors
    assert factors is not None
    rows = run.split_rows()["validation"]
    return measures.most_like(run.encode_rows(rows)[block_of(run)], factors.column("thickness")[rows])


def removed_and_kept(run: Run, pruned: Pruned) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that were removed; test rows of the same shape and another digit; of the same digit and another shape."""
    factors, parts = run.dataset().factors, run.split_rows()
    assert factors is not None
    test = parts["test"]
    kept = factors.take(test)
    shape, digit = (hold_out_combinations(kept, condition) for condition in (pruned.shape, pruned.digit))
    return parts["held_out"], test[shape & ~digit], test[digit & ~shape]


def term_panels(lab: Lab, seed: int) -> dict[str, dict[str, Any]]:
    """The models of figure 2, trained once for each seed."""
    return dict(lab.kept(f"terms-{seed}", lambda: all_panels(seed)))
