"""The claims of the HFVAE reproduction as measurements: functions of a lab and a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from unweave.data import hold_out_combinations
from unweave.runs import Run
from unweave.studies.reproductions import _hfvae_measures as measures
from unweave.studies.reproductions._hfvae_lab import (
    POSITIONS,
    PRUNED,
    block_of,
    encoded,
    reconstructed,
    removed_and_kept,
    term_panels,
    test_rows,
    thickness_dimension,
)
from unweave.studies.reproductions._reproduction import Lab

EQUAL = (1, 2, 3, 4, 6, 8, 10)
"""beta = gamma, figure 6 left: seven values; the paper names 2, 3, 4 and 6."""
BETAS = (1, 2, 4, 8)
"""beta at gamma = 3, figure 6 right."""
BETA_ROWS = {beta: f"beta{beta}" for beta in BETAS}
EQUAL_ROWS = {value: f"bg{value}" for value in EQUAL}


# Figure 2 -------------------------------------------------------------------------------------------------------------


def share_of_limit(lab: Lab, seed: int) -> float:
    panel = term_panels(lab, seed)["C"]
    return 100 * float(panel["information"]) / float(np.log(len(panel["points"])))


def excess(term: str, panel: str, sign: int) -> Callable[[Lab, int], float]:
    """How much worse a term is without its constraint than with the whole objective, in nats."""

    def measure(lab: Lab, seed: int) -> float:
        panels = term_panels(lab, seed)
        return sign * (float(panels[panel][term]) - float(panels["A"][term]))

    return measure


# Figures 4 and 5 ------------------------------------------------------------------------------------------------------


def of_information(row: str, summary: Callable[[Mapping[str, float], str], float]) -> Callable[[Lab, int], float]:
    def measure(lab: Lab, seed: int) -> float:
        return float(summary(measures.data_information(encoded(lab.run(row, seed))), "digit"))

    return measure


def gap(lab: Lab, row: str, seed: int) -> float:
    """I(y; c) - max_d I(y; z_d) on test rows."""
    run = lab.run(row, seed)
    return measures.label_gap(measures.label_information(encoded(run), _labels(run)), "digit")


def gap_of(row: str) -> Callable[[Lab, int], float]:
    return lambda lab, seed: gap(lab, row, seed)


def _labels(run: Run) -> np.ndarray:
    factors = run.dataset().factors
    assert factors is not None
    return factors.values[test_rows(run), 0]


def _identity(lab: Lab, seed: int) -> dict[str, float]:
    """Per cent of pictures that keep their digit while the thickness dimension moves from -3 to 3, both systems."""
    run = lab.run("mnist", seed)
    data = run.dataset()
    assert data.factors is not None
    rows = run.split_rows()["train"]
    classify = measures.DigitClassifier(data.observations(rows), data.factors.values[rows, 0])

    def kept(run: Run) -> float:
        codes, dimension = encoded(run), thickness_dimension(lab, run)[0]
        chosen = codes.take(np.arange(min(1000, codes.rows)))
        moved = measures.traverse(chosen, block_of(run), dimension, POSITIONS, run.system().render)
        return measures.kept_identity(_labels(run)[: chosen.rows], run.system().render(chosen), moved, classify)

    return {row: kept(lab.run(row, seed)) for row in ("mnist", "betavae")}


def identity_gain(lab: Lab, seed: int) -> float:
    kept = lab.kept(f"identity-{seed}", lambda: _identity(lab, seed))
    return float(kept["mnist"] - kept["betavae"])


def identity_kept(lab: Lab, seed: int) -> float:
    return float(lab.kept(f"identity-{seed}", lambda: _identity(lab, seed))["mnist"])


# Figure 6 -------------------------------------------------------------------------------------------------------------


def information_points(lab: Lab, seed: int) -> dict[str, list[float]]:
    """beta = gamma -> [I(x; {z, c}), TC({z, c})] of one seed, over 10,000 training rows."""

    def point(run: Run) -> tuple[float, float]:
        rows = np.random.default_rng(0).permutation(run.split_rows()["train"])[:10_000]
        return measures.information_and_correlation(run.encode_rows(rows), seed=0)

    found = lab.kept(
        f"information-{seed}",
        lambda: {str(value): point(lab.run(row, seed)) for value, row in EQUAL_ROWS.items()},
    )
    return dict(found)


def correlation_of_both(lab: Lab, _: int) -> float:
    points = np.array([point for seed in lab.seeds for point in information_points(lab, seed).values()])
    return float(np.corrcoef(points.T)[0, 1])


def drop_difference(lab: Lab, seed: int) -> float:
    points = information_points(lab, seed)
    information, correlation = (points["2"][k] - points["6"][k] for k in (0, 1))
    return correlation - information


def rise_with_beta(lab: Lab, seed: int) -> float:
    return gap(lab, BETA_ROWS[BETAS[-1]], seed) - gap(lab, BETA_ROWS[BETAS[0]], seed)


# Figure 7 -------------------------------------------------------------------------------------------------------------


def against_halves(row: str) -> Callable[[Lab, int], float]:
    def measure(lab: Lab, seed: int) -> float:
        run = lab.run(row, seed)
        parts = removed_and_kept(run, PRUNED[row])
        return measures.unseen_ratio(*(_errors(run, rows) for rows in parts))

    return measure


def against_seen(row: str) -> Callable[[Lab, int], float]:
    """Removed pictures that the full model was not trained on either: only the combination was seen by one of them."""

    def measure(lab: Lab, seed: int) -> float:
        run, full = lab.run(row, seed), lab.run("mnist", seed)
        factors = run.dataset().factors
        assert factors is not None
        removed = np.flatnonzero(hold_out_combinations(factors, PRUNED[row].combination))
        rows = np.setdiff1d(removed, full.split_rows()["train"])
        return float(_errors(run, rows).mean() / _errors(full, rows).mean())

    return measure


def _errors(run: Run, rows: np.ndarray) -> np.ndarray:
    return measures.squared_errors(run.dataset().observations(rows), reconstructed(run, rows))
