"""Measured claims as text: numbers with their spread, verdicts, and a table whose columns wrap."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

HEAD = ("claim", "paper", "ours", "criterion", "")
SHARES = (42, 20, 20, 18, 5)
"""Width of each column, relative to the others."""


def claims_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Claim in words, the paper's figure, ours, criterion, holds or FAILS."""
    rows = [(f"{r['name']}: {r['words']}", r["paper"], ours(r), r["criterion"], verdict(r)) for r in records]
    return table(HEAD, rows, SHARES)


def verdict(record: Mapping[str, Any]) -> str:
    return "holds" if record["holds"] else "FAILS"


def ours(record: Mapping[str, Any]) -> str:
    """`12.3 ± 0.4 points (5 seeds)`; what should stay on one line is joined by no-break spaces."""
    mean, deviation, seeds = record["mean"], record["sd"], len(record["seeds"])
    places = places_of(mean)
    value = f"{mean:{places}}" + ("" if deviation is None else f"\u00a0±\u00a0{deviation:{places}}")
    counted = f"{seeds}\u00a0seed{'' if seeds == 1 else 's'}"
    return f"{value} {record['unit']} ({'' if record['per_seed'] else 'once, over '}{counted})"


def places_of(value: float) -> str:
    """A format with as many places as one reads at a glance."""
    size = abs(value)
    if size >= 1000:
        return ",.0f"
    if 0 < size < 0.001:
        return ".2g"
    return ".3f" if size < 10 else ".2f" if size < 100 else ".1f"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], shares: Sequence[int]) -> str:
    """Columns that share the width of the terminal; long cells wrap."""
    room = max(80, min(160, shutil.get_terminal_size((120, 24)).columns)) - 2 * (len(head) - 1)
    widths = [max(5, room * share // sum(shares)) for share in shares]
    lines = [*_row(head, widths), "  ".join("-" * width for width in widths)]
    for row in rows:
        lines += [*_row(row, widths), ""]
    return "\n".join(lines).rstrip("\n")


def _row(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, widths, strict=True)]
    height = max(map(len, wrapped))
    padded = [cell + [""] * (height - len(cell)) for cell in wrapped]
    return [
        "  ".join(f"{part:<{width}}" for part, width in zip(line, widths, strict=True)).rstrip().replace("\u00a0", " ")
        for line in zip(*padded, strict=True)
    ]
