"""Run a study: train what is missing, go on with what was stopped, score, and write one table.

Finished runs are reused, so that a study can be stopped and started again at any time.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from unweave.base.errors import unknown_name
from unweave.base.files import replacing, write_json, write_text
from unweave.runs.manifest import commit, environment
from unweave.studies._complete import Share, complete_all
from unweave.studies._study import STUDIES, PlannedRun, Study


def run_study(
    name: str,
    *,
    folder: Path,
    out: Path,
    seeds: int = 3,
    steps: int | None = None,
    jobs: int = 1,
    threads: int | None = None,
    row: Sequence[str] = (),
    say: Callable[[str], None] = print,
) -> Path:
    """Train and score all runs of a study in `folder`; write results.json, results.md and the logs to `out`.

    row:     only these rows of the table
    threads: of each run; when not given it chooses, within its share of the cores
    """
    study = STUDIES[name]
    steps = steps or study.steps
    planned = study.plan(seeds, steps)
    rows = {run.row for run in planned}
    for each in row:
        if each not in rows:
            raise unknown_name("row", each, rows)
    planned = [run for run in planned if run.row in (row or rows)]
    share = Share.of(jobs, threads)
    say(f"{name}: {len(planned)} runs of {steps} steps, {share}, in {folder}")
    clock = time.monotonic()
    complete_all(planned, folder, share, lambda run: say(f"{run.name}: done after {time.monotonic() - clock:.0f} s"))
    records = [record(run, folder) for run in planned]
    only = "".join(f" --row {each}" for each in row)
    command = f"unweave study {name}{only} --seeds {seeds} --steps {steps} --jobs {jobs}"
    command += f" --threads {threads}" if threads else ""
    result = {
        "study": name,
        "command": command,
        "commit": commit(),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "environment": environment(),
        "runs": records,
    }
    (out / "logs").mkdir(parents=True, exist_ok=True)
    write_json(out / "results.json", result)
    write_text(out / "results.md", table(study, records, command))
    picture(study, records, out / "results.png")
    for run in planned:
        write_text(out / "logs" / f"{run.name}.csv", (folder / run.name / "log.csv").read_text(encoding="utf-8"))
    return out / "results.md"


def record(run: PlannedRun, folder: Path) -> dict[str, Any]:
    """The numbers of one finished run, and the commit it was trained at, which can be an earlier one."""
    path = folder / run.name
    kept = json.loads((path / "scores.json").read_text(encoding="utf-8"))
    trained = json.loads((path / "environment.json").read_text(encoding="utf-8"))
    return {
        "row": run.row,
        "seed": run.seed,
        "commit": trained.get("commit", "unknown"),
        "settings": dict(run.settings),
        "reconstruction": kept["reconstruction"],
        "scores": {name: score["value"] for name, score in kept["evaluation"]["scores"].items()},
        "parts": {
            f"{name}/{part}": value
            for name, score in kept["evaluation"]["scores"].items()
            for part, value in _single(score["parts"]).items()
        },
        "information": kept["evaluation"]["scores"].get("information", {}).get("parts", {}),
    }


def _single(parts: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among a score's parts, and those for each factor or class: "gap x", "per_class heart"."""
    found: dict[str, float] = {}
    for part, value in parts.items():
        if isinstance(value, float):
            found[part] = value
        elif part == "per_class":
            found |= {f"per_class {name}": each for name, each in value.items()}
        elif part == "gap":
            found |= {f"gap {name}": each for name, each in zip(parts["factors"], value, strict=True)}
    return found


def columns_of(study: Study) -> list[tuple[str, Callable[[dict[str, Any]], float]]]:
    """Name and reader of each column: reconstruction, then the study's scores."""
    return [
        ("reconstruction (nats)", lambda r: r["reconstruction"]["nats"]),
        ("MSE x 1000", lambda r: 1000 * r["reconstruction"]["mse"]),
        *((name.replace("/", " "), _reader(name)) for name in study.scores),
    ]


def picture(study: Study, records: list[dict[str, Any]], path: Path) -> None:
    """A panel for each column: a dot for each run, a bar at the mean of each row."""
    from matplotlib.figure import Figure

    columns = columns_of(study)
    rows = list(dict.fromkeys(r["row"] for r in records))
    figure = Figure(figsize=(11, 1.9 * -(-len(columns) // 4)), layout="constrained")
    grid = figure.subplots(-(-len(columns) // 4), 4, squeeze=False).flat
    for axes, (name, read) in zip(grid, columns, strict=False):
        for place, row in enumerate(rows):
            values = [read(r) for r in records if r["row"] == row]
            axes.plot([place] * len(values), values, "o", color="#2b6cb0", markersize=4, alpha=0.8)
            axes.plot([place - 0.3, place + 0.3], [statistics.fmean(values)] * 2, color="#c8553d", linewidth=2)
        axes.set_title(name, fontsize=8)
        axes.set_xticks(range(len(rows)), rows, rotation=45, ha="right", fontsize=7)
        axes.tick_params(axis="y", labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in list(figure.axes)[len(columns) :]:
        axes.remove()
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=90)


def table(study: Study, records: list[dict[str, Any]], command: str) -> str:
    """Markdown: mean and standard deviation over seeds for each row, then every run on its own."""
    columns = columns_of(study)
    head = [name for name, _ in columns]
    rows = list(dict.fromkeys(r["row"] for r in records))
    means = [[row, *(_spread(read(r) for r in records if r["row"] == row) for _, read in columns)] for row in rows]
    singles = [[f"{r['row']}, seed {r['seed']}", *(f"{read(r):.3f}" for _, read in columns)] for r in records]
    seeds = len({r["seed"] for r in records})
    commits = ", ".join(dict.fromkeys(r["commit"] for r in records))
    return "\n".join(
        [
            f"Mean and standard deviation over {seeds} seeds. Made by `{command}`, trained at {commits}.",
            "",
            *_markdown(["system", *head], means),
            "",
            "Every run:",
            "",
            *_markdown(["run", *head], singles),
            "",
        ]
    )


def _reader(name: str) -> Callable[[dict[str, Any]], float]:
    kind = "parts" if "/" in name else "scores"
    return lambda r: float(r[kind].get(name, float("nan")))


def _spread(values: Iterable[float]) -> str:
    values = list(values)
    deviation = statistics.stdev(values) if len(values) > 1 else float("nan")
    return f"{statistics.fmean(values):.3f} ± {deviation:.3f}"


def _markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
