"""Operations as forms: what the page may ask of the registry, and the same in Python and on the command line.

Nothing here knows one operation from another. The parameter class gives the form (a JSON schema), reads what comes back
(from a body or from a link), and names itself in Python and in the shell.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unweave.base.config import Config
from unweave.base.errors import ConfigError
from unweave.base.shell import command_line
from unweave.core.dataspec import DataSpec
from unweave.media import Shown, save_gif, save_png
from unweave.media.pictures import as_pictures, clip_frames, grid_png_bytes
from unweave.operations import OPERATIONS, Operation

MOST_ROWS = 24
"""Inputs of one operation on the page."""
MOST_OF_A_NUMBER = 64
"""Of a whole number among an operation's parameters."""


def form(operation: Operation) -> dict[str, Any]:
    """What a page needs to show an operation: its words, how many inputs it takes, and its parameters."""
    return {
        "name": operation.name,
        "summary": operation.summary,
        "about": _paragraphs(operation.__doc__ or ""),
        "inputs": operation.inputs,
        "default_inputs": operation.default_inputs,
        "one_group": operation.one_group,
        "params": schema(operation),
    }


def schema(operation: Operation) -> dict[str, Any]:
    """JSON schema of an operation's parameters, with defaults; several names are one text with commas."""
    found = operation.params.model_json_schema()
    defaults = operation.params().to_dict()
    for name, field in found.get("properties", {}).items():
        field["default"] = defaults[name]
    return found


def forms() -> list[dict[str, Any]]:
    return [form(operation) for operation in OPERATIONS]


def read_rows(value: Any) -> list[int] | None:
    """Row numbers from a list, or from text such as "0,5,7"; None when there are none given."""
    if value is None or value == "":
        return None
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list):
        raise ConfigError(f"rows are a list of row numbers: got {str(value)[:60]!r}")
    try:
        if any(isinstance(part, (bool, float)) for part in parts):
            raise ValueError
        rows = [int(part) for part in parts]
    except (TypeError, ValueError):
        raise ConfigError(f"rows are whole numbers, such as 0,5,7: got {str(value)[:60]!r}") from None
    if len(rows) > MOST_ROWS:
        raise ConfigError(f"{len(rows)} rows are too many for one picture: give at most {MOST_ROWS}")
    return rows


def read_params(operation: Operation, given: Mapping[str, Any]) -> Config:
    """Parameters from a body or a link, checked by the operation's own class.

    Work grows with whole numbers: one that says no largest value of its own is at most 64 here.
    """
    params: Config = operation.params().override(given)
    for name, field in schema(operation).get("properties", {}).items():
        value = getattr(params, name)
        bounded = any("maximum" in each or "exclusiveMaximum" in each for each in (field, *field.get("anyOf", ())))
        if isinstance(value, int) and not isinstance(value, bool) and value > MOST_OF_A_NUMBER and not bounded:
            raise ConfigError(
                f"{name}={value} is more than a page shows: give at most {MOST_OF_A_NUMBER}, or use the command line"
            )
    return params


def result(shown: Shown, query: str) -> dict[str, Any]:
    """A result as the page lays it out: names, and links of its pictures.

    query: the part of a link that restores it, `rows=...&steps=...`
    """
    return {
        "title": shown.title,
        "rows": list(shown.rows),
        "columns": list(shown.columns),
        "full": (~np.isnan(shown.images).reshape(*shown.images.shape[:2], -1).all(axis=2)).tolist(),
        "frames": shown.images.shape[2] if shown.has_clips else 1,
        "plays": shown.plays,
        "moves": shown.moves,
        "query": query,
    }


def sheet(shown: Shown, spec: DataSpec) -> bytes:
    """PNG of all cells without names or gaps, row by row; frames of clips one below the other."""
    if shown.has_clips:
        frames = clip_frames(shown.images, spec)
        return grid_png_bytes(np.concatenate([frame.grid for frame in frames]))
    return grid_png_bytes(as_pictures(shown.images, spec).grid)


def picture(shown: Shown, spec: DataSpec, kind: str) -> bytes:
    """The file that the command line would write, `png` or `gif`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"shown.{kind}"
        (save_gif if kind == "gif" else save_png)(shown, path, spec)
        return path.read_bytes()


def table(shown: Shown) -> bytes:
    """CSV of the numbers behind the pictures: a line for each cell with its names and all its values."""
    text = io.StringIO()
    flat = shown.images.reshape(*shown.images.shape[:2], -1)
    text.write("row,column," + ",".join(f"x{number}" for number in range(flat.shape[2])) + "\n")
    for row, column in np.ndindex(*flat.shape[:2]):
        cell = flat[row, column]
        if np.isnan(cell).all():
            continue
        names = (shown.rows[row].replace(",", " "), shown.columns[column].replace(",", " "))
        text.write(",".join([*names, *(f"{value:.5g}" for value in cell)]) + "\n")
    return text.getvalue().encode()


def in_python(path: str, operation: Operation, rows: list[int] | None, params: Config) -> str:
    """The call that gives the same result."""
    given = {"rows": rows} if rows is not None else {}
    given.update(_changed(operation, params))
    words = "".join(f", {name}={value!r}" for name, value in given.items())
    return f"unweave.Run.open({path!r}).operate({operation.name!r}{words})"


def in_shell(path: str, operation: Operation, rows: list[int] | None, params: Config) -> str:
    """The command that gives the same result."""
    words = ["unweave", operation.name, path]
    if rows is not None:
        words += ["--rows", ",".join(map(str, rows))]
    for name, value in _changed(operation, params).items():
        text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        words += [f"--{name.replace('_', '-')}", text]
    return command_line(*words)


def _changed(operation: Operation, params: Config) -> dict[str, Any]:
    """The parameters that differ from their defaults."""
    defaults = operation.params().to_dict()
    return {name: value for name, value in params.to_dict().items() if value != defaults[name]}


def _paragraphs(text: str) -> str:
    """The docstring after its first line, lines of a paragraph joined."""
    rest = "\n".join(text.strip().splitlines()[1:])
    return "\n\n".join(" ".join(part.split()) for part in rest.split("\n\n") if part.strip())
