"""Tables: shown on the terminal, kept as JSON in benchmarks/results, put into benchmarks/README.md from there.

Figures depend on the processor: each kind of processor has a file of its own, results/NAME/PROCESSOR.json, and a run
replaces that of its own only. A file is {"when": date, "machine": {...}, "settings": {...}, "tables": [table, ...],
"raw": ...}. A table is {"title", "columns", "rows", "notes"}, all text. `readme.py` needs nothing else, so any script
can have results; tables of one title are one table there, with the rows of all processors.
"""

from __future__ import annotations

import datetime
import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
README = HERE / "README.md"

Table = dict[str, Any]


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> Table:
    return {"title": title, "columns": list(columns), "rows": [list(row) for row in rows], "notes": list(notes)}


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median and, of several values, the lowest and highest: 1.23 (1.20 to 1.31)."""
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def show(tables: Sequence[Table]) -> None:
    for each in tables:
        lines = [each["columns"], *each["rows"]]
        widths = [max(len(line[column]) for line in lines) for column in range(len(each["columns"]))]
        print(f"\n{each['title']}")
        for line in lines:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        for note in each["notes"]:
            print(f"- {note}")


def markdown(tables: Sequence[Table]) -> str:
    parts = []
    for each in tables:
        head = "| " + " | ".join(each["columns"]) + " |"
        rule = "|" + "---|" * len(each["columns"])
        body = ["| " + " | ".join(row) + " |" for row in each["rows"]]
        notes = ["", *(f"- {note}" for note in each["notes"])] if each["notes"] else []
        parts.append("\n".join([f"**{each['title']}**", "", head, rule, *body, *notes]))
    return "\n\n".join(parts)


def key(machine: dict[str, Any]) -> str:
    """The name of the processor's files: intel-family-6-model-167."""
    return re.sub(r"[^a-z0-9]+", "-", machine["processor"].lower()).strip("-")


def kept(name: str, machine: dict[str, Any], suffix: str = ".json") -> Path:
    """Where the results of this processor are."""
    path = RESULTS / name / f"{key(machine)}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def save(name: str, machine: dict[str, Any], settings: dict[str, Any], tables: Sequence[Table], raw: Any) -> None:
    """Write results/NAME/PROCESSOR.json and put the tables of all processors into the README."""
    today = datetime.date.today().isoformat()
    result = {"when": today, "machine": machine, "settings": settings, "tables": list(tables), "raw": raw}
    kept(name, machine).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    rewrite()


def legend(result: dict[str, Any]) -> str:
    """What a processor is and how it was measured there, in one line."""
    machine = dict(result["machine"])
    processor, name = machine.pop("processor"), machine.pop("name")
    facts = (*machine.items(), *result["settings"].items())
    return f"- **{processor}**: {', '.join([name, *(f'{each} {value}' for each, value in facts), result['when']])}"


def joined(results: Sequence[dict[str, Any]]) -> list[Table]:
    """Tables of one title and the same columns as one; of several processors, with the processor in each row."""
    alike: dict[tuple[str, ...], list[tuple[str, Table]]] = {}
    for result in results:
        for each in result["tables"]:
            alike.setdefault((each["title"], *each["columns"]), []).append((result["machine"]["processor"], each))
    return [_joined(tables) if len(results) > 1 else tables[0][1] for tables in alike.values()]


def _joined(tables: Sequence[tuple[str, Table]]) -> Table:
    rows: list[list[str]] = []
    notes: dict[str, list[str]] = {}  # note -> processors that have it
    for processor, each in tables:
        rows += [[row[0], processor, *row[1:]] for row in each["rows"]]
        for note in each["notes"]:
            notes.setdefault(note, []).append(processor)
    order = list(dict.fromkeys(row[0] for row in rows))
    rows.sort(key=lambda row: order.index(row[0]))  # the rows of one thing stand together
    said = [note if len(who) == len(tables) else f"{'; '.join(who)}: {note}" for note, who in notes.items()]
    first = tables[0][1]
    return table(first["title"], [first["columns"][0], "processor", *first["columns"][1:]], rows, said)


def rewrite() -> None:
    """Replace what is between <!-- NAME: begin --> and <!-- NAME: end --> in the README by what results/NAME has."""
    text = README.read_text(encoding="utf-8")
    for folder in sorted(RESULTS.iterdir()):
        begin, end = f"<!-- {folder.name}: begin", f"<!-- {folder.name}: end -->"
        files = sorted(folder.glob("*.json"))
        if begin not in text or end not in text or not files:
            continue
        results = [json.loads(path.read_text(encoding="utf-8")) for path in files]
        before, rest = text.split(begin, 1)
        mark, rest = rest.split("\n", 1)
        _, after = rest.split(end, 1)
        lines = "\n".join(map(legend, results))
        text = f"{before}{begin}{mark}\n{lines}\n\n{markdown(joined(results))}\n{end}{after}"
    README.write_text(text, encoding="utf-8")
