"""A command for each operation, made from its parameter class: one option per field, the field's docstring as help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unweave.base.errors import UnweaveError
from unweave.path_option import PATH


def operation_command(operation: Any) -> click.Command:
    """A command from an operation's parameter class: one option per field, its docstring as help."""
    params: list[click.Parameter] = [
        click.Argument(["run"], type=PATH),
        click.Option(
            ["--rows"], help=f"Row numbers of the inputs, such as 0,5,7 [{operation.default_inputs} test rows]."
        ),
        click.Option(["--out"], type=PATH, help="File to write, .png or .gif [RUN/pictures]."),
    ]
    defaults = operation.params()
    names = {}
    for name, field in operation.params.model_fields.items():
        option = f"--{name.replace('_', '-')}"
        default = shown_default(getattr(defaults, name))
        # click would lower-case and rename; remember which field an option fills
        names[f"param_{name}"] = name
        params.append(
            click.Option([option, f"param_{name}"], help=f"{field.description or ''} [{default}]", metavar="VALUE")
        )

    def run_operation(run: Path, rows: str | None, out: Path | None, **given: str | None) -> None:
        from unweave.media import save_gif, save_png
        from unweave.runs import Run

        values = {names[key]: value for key, value in given.items() if value is not None}
        checked = operation.params().override(values)
        handle = Run.open(run)
        shown = handle.operate(operation.name, _row_numbers(rows), **dict(checked))
        paths = [out] if out else [run / "pictures" / f"{operation.name}.png"]
        if out is None and shown.plays:
            paths.append(run / "pictures" / f"{operation.name}.gif")
        for path in paths:
            if path.suffix not in (".png", ".gif"):
                raise UnweaveError(f"cannot write {path}: pictures are .png or .gif files")
            (save_gif if path.suffix == ".gif" else save_png)(shown, path, handle.dataset().spec)
            click.echo(path)

    needs = ", ".join(need.__name__ for need in operation.needs)
    return click.Command(
        operation.name,
        params=params,
        callback=run_operation,
        help=f"{operation.summary}\n\nNeeds a system that: {needs}.",
    )


def shown_default(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _row_numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UnweaveError(f"cannot read the rows {text!r}: write row numbers with commas, such as 0,5,7") from None
