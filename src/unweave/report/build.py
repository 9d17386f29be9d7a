"""Builds report.html: collects what the run holds, draws it, fills the template."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.base.errors import UnweaveError
from unweave.base.files import write_text
from unweave.base.shell import quoted
from unweave.core.codes import Codes
from unweave.core.dataspec import DataSpec
from unweave.core.score import Score
from unweave.knobs import knobs
from unweave.media import Shown
from unweave.media.pictures import (
    Pictures,
    as_pictures,
    clip_frames,
    enlarge,
    film_strips,
    grid_png_bytes,
    shrink,
    value_limits,
)
from unweave.operations import OPERATIONS
from unweave.report import facts, figures
from unweave.report.categories import named_categories

if TYPE_CHECKING:
    from unweave.runs import Run

STEPS = 9
MOST_DIMENSIONS = 24
"""Dimensions shown as traversals and in figures; the report says so when there are more."""
GAP = 2
"""Pixels between pictures."""
MOST_WIDE = 1200
"""Pixels of a line of clips, about as wide as the page."""


def write_report(run: Run) -> Path:
    """Write RUN/report.html and return its path. The file needs nothing else: no network, no other file."""
    path = run.path / "report.html"
    write_text(path, build_report(run))
    return path


def build_report(run: Run) -> str:
    """The report as HTML text."""
    import jinja2
    from markupsafe import Markup

    folder = resources.files("unweave.report")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string((folder / "template.html.j2").read_text(encoding="utf-8"))
    style = re.sub(r"/\*.*?\*/|(?<=[{};,])\s+", "", (folder / "style.css").read_text(encoding="utf-8"), flags=re.S)
    markup = {"style": Markup(style)}
    return template.render(**_context(run), **markup)


def _context(run: Run) -> dict[str, Any]:
    """Everything the template names."""
    from unweave.metrics import Evaluation

    codes, rows = run.codes(), run.code_rows()
    dataset, system = run.dataset(), run.system()
    factors = None if dataset.factors is None else dataset.factors.take(rows)
    scores = run.scores() or Evaluation({})
    every = facts.dimensions(codes, factors, scores)
    shown = every[:MOST_DIMENSIONS]
    log = run.log()
    return {
        "system": run.manifest.system,
        "data": dataset.name,
        "card": type(system).card,
        "observations": _called(dataset.spec),
        "facts": _key_facts(run, every, log),
        "collapsed": _collapsed(run),
        "dimensions": _dimension_rows(run, shown, codes, rows),
        "dimension_count": len(every),
        "left_out": len(every) - len(shown),
        "steps": [f"{step:g}".replace("-", "−") for step in np.linspace(-2, 2, STEPS)],
        "threshold": facts.USED,
        "coded": len(rows),
        "factors": () if factors is None else factors.names,
        "pairs": _pairs(run, codes, rows),
        "figures": _figures(shown, codes, scores),
        "scores": _score_rows(scores),
        "skipped": scores.skipped,
        "scored": scores.about or f"{len(rows):,} rows",
        "score_warning": scores.warning,
        "score_notes": scores.notes,
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
        where = f"{_threads(run)} of a CPU" if run.manifest.device == "cpu" else run.manifest.device
        tiles.append({"name": "training time", "value": _duration(float(seconds[-1])), "more": f"on {where}"})
    shape = " × ".join(map(str, run.manifest.data_spec["shape"]))
    tiles.append({"name": "training examples", "value": f"{run.manifest.data_spec['size']:,}", "more": f"of {shape}"})
    try:
        cost = run.reconstruction()
        more = f"nats per example; mean squared error {cost['mse']:.2g}"
        tiles.append({"name": "reconstruction", "value": _number(cost["nats"]), "more": more})
    except UnweaveError:
        pass  # a system without a decoder reconstructs nothing
    used = sum(dimension.used for dimension in every)
    total = sum(dimension.nats for dimension in every)
    tiles.append({"name": "dimensions in use", "value": f"{used} of {len(every)}", "more": f"{total:.1f} nats in all"})
    return tiles


def _collapsed(run: Run) -> str:
    """What training said at its end if the code carries nothing; empty otherwise."""
    found = run.checkup()
    return "" if found is None else found.warning


def _dimension_rows(run: Run, shown: Sequence[facts.Dimension], codes: Codes, rows: np.ndarray) -> list[dict[str, Any]]:
    """One row per dimension: its traversal as a strip, its bar, the factor it knows most about."""
    strips: list[dict[str, Any]] = [{} for _ in shown]
    if OPERATIONS["traverse"].applies_to(run.system()):
        row = rows[facts.central_row(codes)]
        names = tuple(dimension.name for dimension in shown)
        grid = run.operate("traverse", rows=[int(row)], dims=names, steps=STEPS)
        pictures = _pictures(_middle(grid), run)
        widest = int(pictures.full.sum(axis=1).max())
        for number, dimension in enumerate(shown):
            cells = pictures.grid[number][pictures.full[number]]
            strips[number] = _image(cells[None], f"{dimension.name} moved from low to high in {len(cells)} pictures")
            strips[number] |= {"cells": len(cells), "percent": 100 * len(cells) / widest}
    greatest = max((dimension.nats for dimension in shown), default=0.0) or 1.0
    factors = run.dataset().factors
    named = named_categories(codes, None if factors is None else factors.take(rows))
    return [
        {
            "name": dimension.name,
            "kind": dimension.kind,
            "used": dimension.used,
            "nats": f"{dimension.nats:.2f}",
            "percent": 100 * dimension.nats / greatest,
            "known": [(name, round(100 * share)) for name, share in facts.best_known(dimension.known)],
            "strip": strip,
            "words": named[dimension.name].words if dimension.name in named else (),
        }
        for dimension, strip in zip(shown, strips, strict=True)
    ]


def _pairs(run: Run, codes: Codes, rows: np.ndarray) -> dict[str, Any] | None:
    """Originals over reconstructions of some rows."""
    if not OPERATIONS["reconstruct"].applies_to(run.system()):
        return None
    count = 1 if run.dataset().spec.is_clip else 12  # the frames of a clip fill a line
    chosen = rows[facts.spread_rows(codes, count, run.manifest.seed)]
    pictures = _pictures(run.operate("reconstruct", rows=[int(row) for row in chosen], columns=count), run)
    return _image(pictures.grid, f"{len(chosen)} examples above, their reconstructions below", pictures.full)


def _samples(run: Run, codes: Codes) -> dict[str, Any] | None:
    """Draws from the prior; with a block of categories, one row for each."""
    if not OPERATIONS["sample"].applies_to(run.system()):
        return None
    simplexes = [block for block in codes.blocks if block.kind == "simplex" and len(block.shape) == 1]
    fixed = simplexes[0] if simplexes else None
    lines = min(fixed.shape[0], 10) if fixed is not None else 4
    fix = () if fixed is None else (fixed.name,)
    columns = 1 if run.dataset().spec.is_clip else 12
    pictures = _pictures(run.operate("sample", lines=lines, columns=columns, seed=run.manifest.seed, fix=fix), run)
    image = _image(pictures.grid, f"{lines * columns} samples from the prior", pictures.full)
    return {**image, "fixed": fixed.name if fixed is not None else ""}


def _called(spec: DataSpec) -> str:
    return "images" if spec.is_image else "clips" if spec.is_clip else "observations"


def _middle(shown: Shown) -> Shown:
    """The grid with one frame of each clip, the middle one; other grids as they are."""
    return replace(shown, images=shown.images[:, :, shown.images.shape[2] // 2]) if shown.has_clips else shown


def _pictures(shown: Shown, run: Run) -> Pictures:
    """Pictures small enough for the page: a long side of 64 to 96 pixels."""
    spec = run.dataset().spec
    limits = None
    if spec.values in ("real", "counts") or not (spec.is_image or spec.is_clip):  # one scale for all grids: the data's
        limits = value_limits(run.dataset().observations(run.code_rows()[:256]), "real")
    if shown.has_clips:
        return film_strips(clip_frames(shown.images, spec, limits), width=MOST_WIDE)
    pictures = as_pictures(shown.images, spec, limits)
    grey = bool((np.ptp(pictures.grid, axis=-1) == 0).all())
    fitted = enlarge(shrink(pictures.grid, 96 if grey else 64), 64)
    return Pictures(fitted, pictures.full, pictures.note)


def _image(grid: np.ndarray, told: str, full: np.ndarray | None = None) -> dict[str, Any]:
    """A grid of pictures as what an <img> element needs, and the size of a cell for the animation."""
    data = base64.b64encode(grid_png_bytes(grid, full, GAP)).decode("ascii")
    rows, columns, height, width = grid.shape[:4]
    return {
        "source": f"data:image/png;base64,{data}",
        "told": told,
        "width": columns * (width + GAP) - GAP,
        "height": rows * (height + GAP) - GAP,
        "cell_width": width,
        "cell_height": height,
        "gap": GAP,
    }


def _figures(shown: Sequence[facts.Dimension], codes: Codes, scores: Mapping[str, Score]) -> dict[str, Any]:
    """The SVG figures; None where there is nothing to draw."""
    from markupsafe import Markup

    names = [dimension.name for dimension in shown]
    nats = np.array([dimension.nats for dimension in shown])
    used = np.array([dimension.used for dimension in shown], dtype=bool)
    drawn: dict[str, Any] = {"information": Markup(figures.information_bars(names, nats, used, "I(x; z) in nats"))}
    drawn |= {"knowledge": None, "hinton": None, "hinton_score": ""}
    order = _diagonal_order(shown)
    if order:
        shares = np.array([[dimension.known[factor] for factor in order] for dimension in shown])
        drawn["knowledge"] = Markup(figures.knowledge_map(names, order, shares))
    found = facts.importances(codes, scores)
    if found is not None:
        score, factors, importance = found
        rows = [knob.name for knob in knobs(codes.blocks)]
        columns = sorted(factors, key=lambda name: order.index(name) if name in order else len(order))
        places = np.ix_([rows.index(name) for name in names], [factors.index(name) for name in columns])
        drawn |= {"hinton": Markup(figures.hinton(names, columns, importance[places])), "hinton_score": score}
    return drawn


def _score_rows(scores: Mapping[str, Score]) -> list[dict[str, Any]]:
    """Rows of the score table, those between 0 and 1 first."""
    from unweave.metrics import METRICS, RECOGNITION

    about = {entry.name: (entry.card.summary, entry.bounds) for entry in METRICS}
    about["recognition"] = (RECOGNITION.summary, (0.0, 1.0))  # the one score of pictures and not of codes
    rows = []
    for name, score in scores.items():
        summary, (low, high) = about.get(name, ("", (0.0, math.inf)))
        bounded = math.isfinite(low) and math.isfinite(high)
        counted = not bounded and all(_is_number(n) and n == round(n) for n in (score.value, *(score.interval or ())))
        write = (lambda number: f"{number:,.0f}") if counted else _number
        row: dict[str, Any] = {
            "name": name,
            "summary": summary,
            "value": write(score.value),
            "interval": f"{write(score.interval[0])} to {write(score.interval[1])}" if score.interval else "",
            "better": {True: "higher", False: "lower", None: ""}[score.higher_is_better],
            "parts": [
                (part.replace("_", " "), _number(value)) for part, value in score.parts.items() if _is_number(value)
            ],
            "bar": None,
        }
        if bounded and _is_number(score.value):
            ends = score.interval or (score.value, score.value)
            places = [100 * (min(max(place, low), high) - low) / (high - low) for place in (score.value, *ends)]
            row["bar"] = {"value": places[0], "left": places[1], "width": max(places[2] - places[1], 0.0)}
        rows.append(row)
    return sorted(rows, key=lambda row: row["bar"] is None)


def _terms(log: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """One curve per logged term that has values."""
    from markupsafe import Markup

    steps = log.get("step", np.zeros(0))
    curves = []
    for name, values in log.items():
        finite = values[np.isfinite(values)]
        if name not in ("step", "seconds") and len(finite):
            figure = Markup(figures.term_curve(name, steps, values))
            curves.append({"name": name, "last": _number(float(finite[-1])), "figure": figure})
    return curves


def _settings(manifest: Any) -> list[tuple[str, list[tuple[str, str]]]]:
    """Tables of settings: what about, and names with values."""
    whole = {"seed": manifest.seed, "preset": manifest.preset or "default", "device": manifest.device}
    whole |= {"threads": manifest.threads or "chosen while it trained, see threads.csv"}
    parts = (
        (manifest.system, manifest.settings),
        (f"data: {manifest.data or 'in memory'}", {**manifest.data_settings, "spec": manifest.data_spec}),
        ("split", manifest.split),
        ("run", whole),
    )
    return [(title, [(k, _setting(v)) for k, v in facts.flattened(settings).items()]) for title, settings in parts]


def _setting(value: Any) -> str:
    if value is None or value in ("", [], ()):
        return "none"
    return value if isinstance(value, str) else json.dumps(value)


def _environment(folder: Path) -> list[tuple[str, str]]:
    path = folder / "environment.json"
    if not path.exists():
        return []
    return [(str(name), str(value)) for name, value in json.loads(path.read_text(encoding="utf-8")).items()]


def _citations(run: Run, system: Any) -> str:
    path = run.path / "citations.bib"
    return path.read_text(encoding="utf-8").strip() if path.exists() else type(system).card.bibtex.strip()


def _defaults(run: Run, system: Any) -> dict[str, Mapping[str, Any]]:
    """What the settings would be had only the preset been named."""
    from pydantic_core import to_jsonable_python

    from unweave.data import DATA, Split

    manifest = run.manifest
    usual: dict[str, Mapping[str, Any]] = {"split": Split().to_dict(), "data": {}, "settings": {}}
    preset, spec = type(system).config_class.preset(manifest.preset), DataSpec.from_dict(manifest.data_spec)
    usual["settings"] = preset.fitted(spec).to_dict()
    if manifest.data in DATA:
        fields = DATA[manifest.data].model_fields
        usual["data"] = {
            name: to_jsonable_python(field.get_default(call_default_factory=True))
            for name, field in fields.items()
            if not field.is_required()
        }
    return usual


def _next(path: Path, every: Sequence[facts.Dimension], codes: Codes) -> list[tuple[str, str]]:
    """Commands worth typing after reading, each with what it does."""
    run = quoted(path)
    best = ",".join(dimension.name for dimension in every[:2])
    part = codes.blocks[0].name if len(codes.blocks) > 1 else every[0].name
    return [
        (
            f"unweave traverse {run} --dims {quoted(best)} --steps 25",
            "a closer look at the two most informative, also as GIF",
        ),
        (f"unweave swap {run} --blocks {quoted(part)}", f"every input with the {part} of every other"),
        (f"unweave interpolate {run}", "the way between four inputs"),
        (f"unweave cite {run}", "what to cite"),
    ]


def _diagonal_order(shown: Sequence[facts.Dimension]) -> list[str]:
    """Factors by the row of the dimension that knows each best, so that the heat map is near its diagonal."""
    names = list(shown[0].known) if shown else []
    best = {name: max(range(len(shown)), key=lambda d: shown[d].known[name]) for name in names}
    return sorted(names, key=lambda name: (best[name], name))


def _threads(run: Run) -> str:
    """1 thread, 2 threads, or 1 to 2 threads where they were chosen."""
    counts = run.threads()
    most = f"{max(counts)} thread{'s' if max(counts) > 1 else ''}"
    return most if min(counts) == max(counts) else f"{min(counts)} to {most}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _number(value: Any) -> str:
    """A number with as many places as one reads at a glance."""
    if not _is_number(value):
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    places = 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
    return f"{value:.{places}f}".replace("-", "−")
