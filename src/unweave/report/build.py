"""Builds report.html: collects what the run holds, draws it, fills the template."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.core.codes import Codes
from unweave.core.errors import UnweaveError
from unweave.core.files import write_text
from unweave.core.score import Score
from unweave.operations import OPERATIONS, Shown
from unweave.operations._pictures import Pictures, as_pictures, enlarge, grid_png_bytes, shrink, value_limits
from unweave.report import facts, figures

if TYPE_CHECKING:
    from unweave.runs import Run

STEPS = 9
MOST_DIMENSIONS = 24
"""Dimensions shown as traversals and in figures; the report says so when there are more."""
GAP = 2
"""Pixels between pictures."""


def write_report(run: Run) -> Path:
    """Write RUN/report.html and return its path. The file needs nothing else: no network, no other file."""
    path = run.path / "report.html"
    write_text(path, build_report(run))
    return path


def build_report(run: Run) -> str:
    """The report as HTML text."""
    import jinja2

    folder = resources.files("unweave.report")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string((folder / "template.html.j2").read_text(encoding="utf-8"))
    style = re.sub(r"/\*.*?\*/|(?<=[{};,])\s+", "", (folder / "style.css").read_text(encoding="utf-8"), flags=re.S)
    markup = {"style": jinja2.utils.markupsafe.Markup(style)}
    return template.render(**_context(run), **markup)


def _context(run: Run) -> dict[str, Any]:
    """Everything the template names."""
    codes, rows = run.codes(), run.code_rows()
    dataset, system = run.dataset(), run.system()
    factors = None if dataset.factors is None else dataset.factors.take(rows)
    scores: Mapping[str, Score] = run.scores() or {}
    every = facts.dimensions(codes, factors, scores)
    shown = every[:MOST_DIMENSIONS]
    log = run.log()
    return {
        "system": run.manifest.system,
        "data": dataset.name,
        "card": type(system).card,
        "observations": "images" if dataset.spec.is_image else "observations",
        "facts": _key_facts(run, every, log),
        "dimensions": _dimension_rows(run, shown, codes, rows),
        "dimension_count": len(every),
        "left_out": len(every) - len(shown),
        "steps": [f"{step:g}".replace("-", "−") for step in np.linspace(-2, 2, STEPS)],
        "threshold": facts.USED,
        "coded": len(rows),
        "factors": () if factors is None else factors.names,
        "pairs": _pairs(run, codes, rows),
        "figures": _figures(shown, codes, factors is not None, scores),
        "scores": _score_rows(scores),
        "terms": _terms(log),
        "samples": _samples(run, codes),
        "settings": _settings(run.manifest),
        "environment": _environment(run.path),
        "bibtex": _citations(run, system),
        "command": facts.command(run.manifest, _defaults(run, system)),
        "in_memory": not run.manifest.data,
        "next": _next(run.path, every, codes),
        "notes": dataset.notes,
    }


def _key_facts(run: Run, every: Sequence[facts.Dimension], log: Mapping[str, np.ndarray]) -> list[dict[str, str]]:
    """The tiles at the top: name, number, a few words."""
    tiles = [{"name": "training steps", "value": f"{run.steps:,}", "more": ""}]
    seconds = log.get("seconds", np.zeros(0))
    if len(seconds):
        threads = run.manifest.threads
        where = f"{threads} thread{'s' if threads > 1 else ''} of a CPU" if run.manifest.device == "cpu" else run.manifest.device
        tiles.append({"name": "training time", "value": _duration(float(seconds[-1])), "more": f"on {where}"})
    shape = " × ".join(map(str, run.manifest.data_spec["shape"]))
    tiles.append({"name": "training examples", "value": f"{run.manifest.data_spec['size']:,}", "more": f"of {shape}"})
    try:
        cost = run.reconstruction()
        more = f"nats per test example; squared error {cost['mse']:.2g} per value"
        tiles.append({"name": "reconstruction", "value": _number(cost["nats"]), "more": more})
    except UnweaveError:
        pass  # a system without a decoder reconstructs nothing
    used = sum(dimension.used for dimension in every)
    total = sum(dimension.nats for dimension in every)
    tiles.append({"name": "dimensions in use", "value": f"{used} of {len(every)}", "more": f"{total:.1f} nats in all"})
    return tiles


def _dimension_rows(
    run: Run, shown: Sequence[facts.Dimension], codes: Codes, rows: np.ndarray
) -> list[dict[str, Any]]:
    """One row per dimension: its traversal as a strip, its bar, the factor it knows most about."""
    strips: list[dict[str, Any]] = [{} for _ in shown]
    if OPERATIONS["traverse"].applies_to(run.system()):
        row = rows[facts.central_row(codes)]
        names = tuple(dimension.name for dimension in shown)
        grid = run.operate("traverse", rows=[int(row)], dims=names, steps=STEPS)
        pictures = _pictures(grid, run)
        widest = int(pictures.full.sum(axis=1).max())
        for number, dimension in enumerate(shown):
            cells = pictures.grid[number][pictures.full[number]]
            strips[number] = _image(cells[None], f"{dimension.name} moved from low to high in {len(cells)} pictures")
            strips[number] |= {"cells": len(cells), "percent": 100 * len(cells) / widest}
    greatest = max((dimension.nats for dimension in shown), default=0.0) or 1.0
    return [
        {
            "name": dimension.name,
            "kind": dimension.kind,
            "used": dimension.used,
            "nats": f"{dimension.nats:.2f}",
            "percent": 100 * dimension.nats / greatest,
            "known": [(name, round(100 * share)) for name, share in dimension.known.items() if share >= 0.1][:2],
            "strip": strip,
        }
        for dimension, strip in zip(shown, strips, strict=True)
    ]


def _pairs(run: Run, codes: Codes, rows: np.ndarray) -> dict[str, Any] | None:
    """Originals over reconstructions of some rows."""
    if not OPERATIONS["reconstruct"].applies_to(run.system()):
        return None
    chosen = rows[facts.spread_rows(codes, 12, run.manifest.seed)]
    pictures = _pictures(run.operate("reconstruct", rows=[int(row) for row in chosen], columns=12), run)
    return _image(pictures.grid, f"{len(chosen)} test examples above, their reconstructions below", pictures.full)


def _samples(run: Run, codes: Codes) -> dict[str, Any] | None:
    """Draws from the prior; with a block of categories, one row for each."""
    if not OPERATIONS["sample"].applies_to(run.system()):
        return None
    simplexes = [block for block in codes.blocks if block.kind == "simplex" and len(block.shape) == 1]
    fixed = simplexes[0] if simplexes else None
    rows = min(fixed.shape[0], 10) if fixed is not None else 4
    pictures = _pictures(
        run.operate("sample", rows=(), **{"rows": rows} if False else {}, **_sample_params(rows, fixed)), run
    )
    image = _image(pictures.grid, f"{rows * 12} samples from the prior", pictures.full)
    return {**image, "fixed": fixed.name if fixed is not None else ""}
