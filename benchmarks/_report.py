"""Tables: shown on the terminal, kept as JSON in benchmarks/results, put into benchmarks/README.md from there.

A result file is {"when": date, "machine": {...}, "settings": {...}, "tables": [table, ...], "raw": ...}. A table is
{"title", "columns", "rows", "notes"}, all text. `readme.py` needs nothing else, so any script can have a result file.
"""

from __future__ import annotations

import datetime
import json
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


def save(name: str, machine: dict[str, Any], settings: dict[str, Any], tables: Sequence[Table], raw: Any) -> None:
    """Write results/NAME.json and put its tables into the README."""
    RESULTS.mkdir(exist_ok=True)
    today = datetime.date.today().isoformat()
    kept = {"when": today, "machine": machine, "settings": settings, "tables": list(tables), "raw": raw}
    (RESULTS / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    rewrite()


def rewrite() -> None:
    """Replace what is between <!-- NAME: begin --> and <!-- NAME: end --> in the README by results/NAME.json."""
    text = README.read_text(encoding="utf-8")
    for path in sorted(RESULTS.glob("*.json")):
        begin, end = f"<!-- {path.stem}: begin", f"<!-- {path.stem}: end -->"
        if begin not in text or end not in text:
            continue
        result = json.loads(path.read_text(encoding="utf-8"))
        before, rest = text.split(begin, 1)
        mark, rest = rest.split("\n", 1)
        _, after = rest.split(end, 1)
        facts = ", ".join(f"{name} {value}" for part in ("machine", "settings") for name, value in result[part].items())
        inside = f"{result['when']}: {facts}.\n\n{markdown(result['tables'])}"
        text = f"{before}{begin}{mark}\n{inside}\n{end}{after}"
    README.write_text(text, encoding="utf-8")
