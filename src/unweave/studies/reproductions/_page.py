"""The page of a reproduction: the table of claims with every seed's value, the figures, and how all of it was made."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

from unweave.studies.reproductions import _table


def page(evidence: Mapping[str, Any]) -> str:
    """The page as HTML text; its pictures are files beside it."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    text = (resources.files("unweave.studies.reproductions") / "page.html.j2").read_text(encoding="utf-8")
    style = (resources.files("unweave.report") / "style.css").read_text(encoding="utf-8")
    return environment.from_string(text).render(
        evidence=evidence,
        claims=[_claim(record) for record in evidence["claims"]],
        held=sum(record["holds"] for record in evidence["claims"]),
        commands=list(dict.fromkeys(record["command"] for record in evidence["claims"])) or [evidence["command"]],
        training=_duration(evidence["seconds"]["training"]),
        measuring=_duration(evidence["seconds"]["measuring"]),
        last=_duration(evidence["seconds"]["command"]),
        runs=[{**run, "told": _settings(run), "time": _duration(run["seconds"])} for run in evidence["runs"]],
        notes=Markup(formatted(evidence["notes"])),
        style=Markup(style),
    )


def _claim(record: Mapping[str, Any]) -> dict[str, Any]:
    places = _table.places_of(record["mean"])
    values = [
        ("all seeds" if value["seed"] < 0 else f"seed {value['seed']}", f"{value['value']:{places}}")
        for value in record["values"]
    ]
    made = list(dict.fromkeys(f"{value['date']}, commit {value['commit']}" for value in record["values"]))
    return {**record, "ours": _table.ours(record), "values": values, "made": made}


def _settings(run: Mapping[str, Any]) -> str:
    """What the run changes of its preset, as on the command line."""
    parts = [f"preset {run['preset']}"] if run["preset"] else []
    for prefix, name in (("", "settings"), ("data.", "data_settings"), ("split.", "split")):
        parts += [f"{prefix}{key}={value}" for key, value in run[name].items()]
    return ", ".join(parts) or "defaults"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def formatted(text: str) -> str:
    """Plain notes as HTML: paragraphs, lists of lines that begin with -, `code` and [links](address)."""
    parts = []
    for block in re.split(r"\n\s*\n", text.strip()):
        items = re.split(r"(?:^|\n)\s*- ", block)
        if items[0].strip():
            parts.append(f"<p>{_inline(items[0])}</p>")
        if len(items) > 1:
            parts.append("<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items[1:]) + "</ul>")
    return "\n".join(parts)


def _inline(text: str) -> str:
    safe = html.escape(" ".join(text.split()), quote=False)
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", safe)
    return re.sub(r"\[([^\]]+)\]\((https?://[^)\s\"]+)\)", r'<a href="\2">\1</a>', safe)
