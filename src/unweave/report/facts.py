"""Numbers a report shows that no score has: what each dimension knows, which are used, how to make the run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.base.errors import MetricError
from unweave.base.shell import command_line
from unweave.core.codes import Codes
from unweave.core.factors import Factors
from unweave.core.score import Score
from unweave.knobs import information as quick_information
from unweave.knobs import knobs

USED = 0.1
"""Nats of I(x; z_d) from which a dimension counts as used."""
SHUFFLES = 5
TOLD = 0.1
"""Share of a factor's entropy from which a dimension is said to know about it."""
MOST_TOLD = 2
"""Factors that are named beside a dimension, at most."""


@dataclass(frozen=True, eq=False)
class Dimension:
    """One dimension (or category) of the representation.

    nats:     I(x; z_d); the mean over its steps where it has several
    interval: 95 % interval of it, or None
    known:    factor -> share of the factor's entropy it knows, most first; empty without factors
    """

    name: str
    kind: str
    nats: float
    interval: tuple[float, float] | None
    known: Mapping[str, float]

    @property
    def used(self) -> bool:
        return self.nats >= USED


def dimensions(codes: Codes, factors: Factors | None, scores: Mapping[str, Score]) -> tuple[Dimension, ...]:
    """All dimensions, most informative first."""
    nats = quick_information(codes)
    measured, intervals = _measured_information(codes, scores)
    nats.update({name: value for name, value in measured.items() if name in nats})
    for knob in knobs(codes.blocks):
        steps = [codes.columns[column] for column in knob.columns]
        if knob.steps > 1 and all(step in measured for step in steps):
            nats[knob.name] = float(np.mean([measured[step] for step in steps]))
    shares = knowledge(codes, factors)
    found = []
    for number, knob in enumerate(knobs(codes.blocks)):
        known = {} if factors is None else dict(zip(factors.names, shares[number], strict=True))
        ordered = dict(sorted(known.items(), key=lambda item: -item[1]))
        found.append(Dimension(knob.name, knob.block.kind, nats[knob.name], intervals.get(knob.name), ordered))
    return tuple(sorted(found, key=lambda dimension: -dimension.nats))


def best_known(known: Mapping[str, float]) -> list[tuple[str, float]]:
    """The factors a dimension is said to know about, with their shares, most first; empty when it knows none."""
    ordered = sorted(known.items(), key=lambda item: -item[1])
    return [(name, share) for name, share in ordered if share >= TOLD][:MOST_TOLD]


def _measured_information(codes: Codes, scores: Mapping[str, Score]) -> tuple[dict[str, float], dict[str, Any]]:
    """I(x; z_d) and intervals from the scores, or measured now; empty for codes without posteriors."""
    from unweave.metrics.information import information

    try:
        parts = scores["information"].parts if "information" in scores else information(codes).parts
    except MetricError:
        return {}, {}
    return dict(parts["per_dimension"]), dict(parts["interval_per_dimension"])


def knowledge(codes: Codes, factors: Factors | None) -> np.ndarray:
    """(D, K) share of each factor's entropy that each dimension knows, 0 to 1.

    I(z_d; v_k) / H(v_k), plug-in estimates on equal-width bins as in the MIG, for one draw of each row's posterior: the
    mean of a posterior wider than the data's spread of means says more than the code does. Subtracted is the mean of
    the same estimate with shuffled codes, what chance alone would show.
    """
    from unweave.metrics.discretise import binned_pairs, information, resolution

    turned = knobs(codes.blocks)
    if factors is None or not codes.rows:
        return np.zeros((len(turned), 0))
    rng = np.random.default_rng(0)
    drawn = _draw(codes, rng)
    discrete = np.array([kind == "discrete" for kind in factors.kinds])
    shared, entropy = np.zeros((len(turned), len(factors.names))), np.zeros(len(factors.names))
    bins = resolution(factors.values, discrete)
    for code_bins, factor_bins, chosen in binned_pairs(drawn, factors.values, discrete, bins):
        found, entropy[chosen] = information(code_bins, factor_bins)
        chance = [information(rng.permutation(code_bins), factor_bins)[0] for _ in range(SHUFFLES)]
        shared[:, chosen] = found - np.mean(chance, axis=0)
    return np.clip(shared / np.where(entropy > 0, entropy, 1.0), 0.0, 1.0)


def _draw(codes: Codes, rng: np.random.Generator) -> np.ndarray:
    """(N, D) one draw of each row's posterior: a normal where there is a spread, a category's number for a simplex.

    Of a dimension with steps of time the first is taken: the factors of a clip say how it begins.
    """
    values, spreads = codes.flat()[0].astype(np.float64), np.nan_to_num(codes.flat_spread())
    values = values + spreads * rng.standard_normal(values.shape)
    columns = []
    for knob in knobs(codes.blocks):
        own = values[:, knob.by_step[0]]
        if knob.block.kind == "simplex":
            reached = np.cumsum(own, axis=1) > rng.random((len(own), 1)) * own.sum(axis=1, keepdims=True)
            columns.append(reached.argmax(axis=1).astype(np.float64))
        else:
            columns.append(own[:, 0])
    return np.stack(columns, axis=1)


def importances(codes: Codes, scores: Mapping[str, Score]) -> tuple[str, tuple[str, ...], np.ndarray] | None:
    """Score name, factors and (D, K) importances of the first DCI there is; a simplex has the sum of its columns."""
    for name in ("dci_boosted", "dci_forest", "dci_lasso"):
        if name in scores:
            score = scores[name]
            columns = np.nan_to_num(np.asarray(score.parts["importance"], dtype=np.float64))
            summed = np.stack([columns[list(knob.columns)].sum(axis=0) for knob in knobs(codes.blocks)])
            return name, tuple(score.settings["factors"]), summed
    return None


def central_row(codes: Codes) -> int:
    """The row whose codes are nearest the average, each dimension in its own standard deviations."""
    flat = codes.flat()[0].astype(np.float64)
    deviation = flat.std(axis=0)
    return int((((flat - flat.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)) ** 2).sum(axis=1).argmin())


def spread_rows(codes: Codes, count: int, seed: int) -> np.ndarray:
    """Up to `count` different rows, chosen by the seed."""
    return np.random.default_rng(seed).permutation(codes.rows)[:count]


def flattened(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted name: {"training": {"steps": 10}} as {"training.steps": 10}."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat.update(flattened(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def command(manifest: Any, defaults: Mapping[str, Mapping[str, Any]]) -> str:
    """The command that makes the run again; only settings that differ from the preset's are named.

    defaults: settings of the preset ("settings"), of the data source ("data") and of the split ("split")
    """
    words = ["unweave", "train", manifest.system, "--data", manifest.data or "YOUR_DATA"]
    if manifest.preset:
        words += ["--preset", manifest.preset]
    words += ["--seed", str(manifest.seed)]
    words += ["--threads", str(manifest.threads)] if manifest.threads else []  # else they are chosen again
    given = (
        ("settings", "", manifest.settings),
        ("data", "data.", manifest.data_settings),
        ("split", "split.", manifest.split),
    )
    for part, prefix, settings in given:
        usual = flattened(defaults.get(part, {}))
        for name, value in flattened(settings).items():
            if name not in usual or usual[name] != value:
                words += ["--set", f"{prefix}{name}={_text(value)}"]
    return command_line(*words)


def _text(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value)
