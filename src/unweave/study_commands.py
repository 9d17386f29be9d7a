"""The commands that run many runs: `unweave study` and `unweave reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unweave.path_option import PATH


@click.command(short_help="Train, score and tabulate all runs of a study.")
@click.argument("name")
@click.option("--row", multiple=True, help="Only this row of the table. May be repeated.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(min=1), help="Seeds 0, 1, ... of each row.")
@click.option("--steps", type=click.IntRange(min=1), help="Training steps of each run [the study's own].")
@click.option(
    "--jobs", default=1, show_default=True, type=click.IntRange(min=1), help="Runs at a time, at most one a core."
)
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads of each run [chosen within its share].")
@click.option("--folder", type=PATH, help="Where the runs go [runs/NAME].")
@click.option("--out", type=PATH, help="Where table, numbers and logs go [docs/evidence/NAME].")
def study(name: str, folder: Path | None, out: Path | None, **options: Any) -> None:
    """Train and score all runs of a study and tabulate them; stopped and started again, it goes on."""
    from unweave.studies import run_study

    written = run_study(
        name,
        folder=folder or Path("runs") / name,
        out=out or Path("docs") / "evidence" / name,
        say=lambda line: click.echo(line, err=True),
        **options,
    )
    click.echo(written.read_text(encoding="utf-8"))
    click.echo(written)


@click.command(short_help="What a paper claims, measured: train, measure, draw, tabulate.")
@click.argument("name", required=False)
@click.option(
    "--scale",
    default="quick",
    show_default=True,
    type=click.Choice(["quick", "paper"]),
    help="quick: minutes on 2 cores, at most an hour; paper: the paper's own settings.",
)
@click.option("--seeds", default=5, show_default=True, type=click.IntRange(min=1), help="Seeds 0, 1, ... of each row.")
@click.option("--only", multiple=True, metavar="CLAIM", help="Only this claim or figure. May be repeated.")
@click.option("--list", "listed", is_flag=True, help="All claims of all reproductions, with their last result.")
@click.option("--data", help="Name or path of data in place of the first data set it needs.")
@click.option(
    "--jobs", default=1, show_default=True, type=click.IntRange(min=1), help="Runs at a time, at most one a core."
)
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads of each run [chosen within its share].")
@click.option("--folder", type=PATH, help="Where the runs go [runs/reproduce/NAME].")
@click.option(
    "--out",
    type=PATH,
    help="Where evidence.json, the page and figures go [docs/evidence/NAME in a checkout, else reproductions/NAME].",
)
def reproduce(name: str | None, listed: bool, out: Path | None, **options: Any) -> None:
    """Train what the experiments of a paper need, measure its claims, draw its figures.

    A claim that does not hold is printed as FAILS; that is a result, not an error. Finished runs and measurements are
    reused: stopped and started again, it goes on.
    """
    if listed:
        from unweave.studies import list_of_claims

        click.echo(list_of_claims(name))
        return
    if name is None:
        raise click.UsageError("which paper? `unweave reproduce --list` names them, `unweave reproduce NAME` begins")
    from unweave.studies import claims_table, default_out, run_reproduction

    out = out or default_out(name, options["scale"], options["data"])
    evidence = run_reproduction(name, out=out, say=lambda line: click.echo(line, err=True), **options)
    click.echo(claims_table(evidence["claims"]))
    click.echo(f"\n{out / 'evidence.json'}\n{out / 'index.html'}")
