"""Reproduce a paper: train what its claims need, measure, draw, and write down what came out.

Finished runs and measurements are reused, so that a reproduction can be stopped and started again at any time.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from unweave.base.errors import DataError, UnweaveError, unknown_name
from unweave.base.files import replacing, write_text
from unweave.runs.manifest import commit, environment, usable_cores
from unweave.runs.progress import bar
from unweave.studies._complete import Share, complete_all, is_finished
from unweave.studies._study import PlannedRun
from unweave.studies.reproductions import _evidence
from unweave.studies.reproductions._digest import code_digest
from unweave.studies.reproductions._lab import Lab, substituted
from unweave.studies.reproductions._page import page
from unweave.studies.reproductions._reproduction import REPRODUCTIONS, Claim, Figure, Reproduction, Scale

COMPACT = 150_000
"""Bytes of a picture that is meant to be committed."""


def run_reproduction(
    name: str,
    *,
    scale: Scale = "quick",
    seeds: int = 5,
    only: Sequence[str] = (),
    folder: Path | None = None,
    out: Path | None = None,
    jobs: int = 1,
    threads: int | None = None,
    data: str | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Reproduce a paper in `folder`; write evidence.json, index.html and the figures to `out`; return the evidence.

    only:    names of claims or figures; the others of an evidence.json that is in `out` are kept
    threads: of each run; when not given it chooses, within its share of the cores
    data:    a data set or path in place of the first data set the reproduction needs
    """
    clock = time.monotonic()
    reproduction = REPRODUCTIONS[name]
    claims, figures = _chosen(reproduction, only)
    substitute = _substitute(reproduction, data)
    planned = _plan(reproduction, scale, seeds, substitute)
    folder = (folder or _evidence.default_folder(name, data)) / scale
    out = out or _evidence.default_out(name, scale, data)
    old = _evidence.to_merge_with(out / "evidence.json", scale, substitute) if only else None

    rows = {row for claim in claims for row in claim.rows} | {row for figure in figures for row in figure.rows}
    runs = [run for run in planned if run.row in rows]
    _require_rows(rows, planned)
    lab = Lab(scale, range(seeds), folder, planned, substitute, next(iter(reproduction.needs), ""))
    _require_data(lab, runs, reproduction, everything=not only)
    reused = _train(name, runs, folder, Share.of(jobs, threads), say)
    records = _measure(lab, claims, planned, say)
    drawn = [_draw(lab, figure, out, say) for figure in figures]

    command = ["unweave", "reproduce", name, "--scale", scale, "--seeds", str(seeds), "--jobs", str(jobs)]
    command += ["--threads", str(threads)] if threads else []
    command += [word for item in only for word in ("--only", item)] + (["--data", data] if data else [])
    new = {
        "format": _evidence.FORMAT,
        "reproduction": name,
        "summary": reproduction.summary,
        "scale": scale,
        "substitute": substitute,
        "command": shlex.join(command),
        "commit": commit(),
        "date": _today(),
        "seconds": {"command": round(time.monotonic() - clock, 1)},
        "jobs": jobs,
        "cores": usable_cores(),
        "environment": environment(),
        "claims": [{**record, "command": shlex.join(command)} for record in records],
        "figures": drawn,
        "runs": [_run_record(run, lab, run.name in reused) for run in runs],
        "notes": reproduction.notes,
    }
    evidence = _evidence.merged(new, old, reproduction)
    _evidence.write_evidence(out, evidence)
    write_text(out / "index.html", page(evidence))
    return evidence


def _chosen(reproduction: Reproduction, only: Sequence[str]) -> tuple[list[Claim], list[Figure]]:
    known = [claim.name for claim in reproduction.claims] + [figure.name for figure in reproduction.figures]
    for name in only:
        if name not in known:
            raise unknown_name(f"claim or figure of {reproduction.name}", name, known)
    wanted = set(only or known)
    return (
        [claim for claim in reproduction.claims if claim.name in wanted],
        [figure for figure in reproduction.figures if figure.name in wanted],
    )


def _substitute(reproduction: Reproduction, data: str | None) -> dict[str, str]:
    if data is None:
        return {}
    if not reproduction.needs:
        raise DataError(f"{reproduction.name} needs no data set: leave out --data")
    return {reproduction.needs[0]: data}


def _plan(reproduction: Reproduction, scale: Scale, seeds: int, substitute: Mapping[str, str]) -> list[PlannedRun]:
    planned = reproduction.plan(scale, range(seeds))
    if not substitute:
        return planned
    if planned and not any(run.data in substitute for run in planned):
        raise DataError(f"--data takes the place of {reproduction.needs[0]}, which no run of {reproduction.name} reads")
    changed = []
    for run in planned:
        data, settings = substituted(run.data, run.data_settings, substitute)
        changed.append(replace(run, data=data, data_settings=settings))
    return changed


def _require_rows(rows: set[str], planned: Sequence[PlannedRun]) -> None:
    known = dict.fromkeys(run.row for run in planned)
    for row in sorted(rows):
        if row not in known:
            raise unknown_name("row of the plan", row, known)


def _require_data(lab: Lab, runs: Sequence[PlannedRun], reproduction: Reproduction, everything: bool) -> None:
    """Load every data set before anything is trained: what is missing is told at once, not after an hour."""
    first = {run.data: run.data_settings for run in reversed(runs)}
    for data, settings in first.items():
        lab.data(data, **settings)
    for name, settings in reproduction.tests:
        if everything or name in first:
            lab.data(name, **settings)
    for name in reproduction.needs if everything else ():
        if name not in first:
            lab.data(name)


def _train(name: str, runs: Sequence[PlannedRun], folder: Path, share: Share, say: Callable[[str], None]) -> set[str]:
    """Complete the runs; the names of those that were finished before."""
    finished = {run.name for run in runs if is_finished(folder / run.name)}
    if runs:
        say(f"{name}: {len(runs)} runs, {len(finished)} of them finished before, {share}, in {folder}")
        with bar("training", len(runs), unit="run") as shown:
            complete_all(runs, folder, share, lambda run: shown.update(), score=False)
    return finished


def _measure(
    lab: Lab, claims: Sequence[Claim], planned: Sequence[PlannedRun], say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Every claim at every seed that the rows it reads have."""
    there = {(run.row, run.seed) for run in planned}
    seeds = {
        claim.name: [seed for seed in lab.seeds if all((row, seed) in there for row in claim.rows)] for claim in claims
    }
    for claim in claims:
        if not seeds[claim.name]:
            raise UnweaveError(
                f"claim {claim.name!r}: no seed has all its rows ({', '.join(claim.rows)}): mend the plan"
            )
        code_digest(claim.measure)  # of all before any is measured: later their modules may hold results
    records = []
    values_in_all = sum(len(seeds[claim.name]) if claim.per_seed else 1 for claim in claims)
    with bar("measuring", values_in_all, unit="value") as shown:
        for claim in claims:
            shown.set_postfix_str(claim.name)
            values = []
            for seed in seeds[claim.name] if claim.per_seed else [-1]:
                values.append(_value(lab, claim, seed, seeds[claim.name], say))
                shown.update()
            records.append(_evidence.claim_record(claim, values, seeds[claim.name]))
    return records


def _value(lab: Lab, claim: Claim, seed: int, seeds: Sequence[int], say: Callable[[str], None]) -> dict[str, Any]:
    """The number of one claim at one seed (-1: over all seeds), measured now or kept from before."""
    where = f"claim {claim.name!r}" + (f", seed {seed}" if claim.per_seed else "")

    def measure() -> float:
        if not claim.per_seed:
            _ = lab.seeds  # other seeds, another number
        for row in claim.rows:
            for number in [seed] if claim.per_seed else seeds:
                lab.run(row, number)
        value = float(claim.measure(lab, seed))
        if not math.isfinite(value):
            raise UnweaveError(f"measured {value}, which is no result: mend the measurement, or what it reads")
        return value

    kept = f"claim-{claim.name}-{seed if claim.per_seed else 'all'}"
    try:
        with lab.reading(claim.rows):
            record = lab.keep(kept, measure, code=claim.measure, commit=commit(), date=_today())
    except UnweaveError as error:
        raise UnweaveError(f"{where}: {error}") from error
    except Exception:
        say(f"{where}: the measurement broke")
        raise
    told = ("value", "seconds", "commit", "date", "reused")
    return {"seed": seed, **{name: record[name] for name in told}}


def _draw(lab: Lab, figure: Figure, out: Path, say: Callable[[str], None]) -> dict[str, Any]:
    path = out / figure.file
    path.parent.mkdir(parents=True, exist_ok=True)
    with lab.reading(figure.rows), replacing(path) as temporary:
        figure.draw(lab, temporary)
        if not temporary.stat().st_size:
            raise UnweaveError(f"figure {figure.name!r} drew nothing: its function must write to the path it is given")
    if path.stat().st_size > COMPACT:
        say(
            f"figure {figure.name!r} has {path.stat().st_size // 1000} kB, more than {COMPACT // 1000}: make it smaller"
        )
    return {"name": figure.name, "caption": figure.caption, "file": figure.file, "commit": commit(), "date": _today()}


def _run_record(run: PlannedRun, lab: Lab, reused: bool) -> dict[str, Any]:
    trained = lab.run(run.row, run.seed)
    seconds = trained.log().get("seconds", ())
    return {
        "name": run.name,
        "row": run.row,
        "seed": run.seed,
        "system": run.system,
        "preset": run.preset,
        "settings": dict(run.settings),
        "data": run.data,
        "data_settings": dict(run.data_settings),
        "split": dict(run.split),
        "steps": trained.steps,
        "seconds": round(float(seconds[-1]), 1) if len(seconds) else 0.0,
        "reused": reused,
    }


def _today() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%d")
