"""The command line: `unweave train`, `unweave report`, one command per operation, and lists of what there is.

Heavy imports happen inside the commands, so that help appears at once. A mistake is one line and exit code 2.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from unweave.base.config import parse_assignments
from unweave.base.errors import UnweaveError
from unweave.base.shell import as_typed, quoted
from unweave.codes_commands import decode, encode
from unweave.demo_command import demo
from unweave.operation_commands import operation_command, shown_default
from unweave.operations import OPERATIONS
from unweave.path_option import PATH
from unweave.study_commands import reproduce, study


class _Commands(click.Group):
    """Commands in the order a person meets them, not in the alphabet's."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _readers_may_leave():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _readers_may_leave():
            return super().invoke(ctx)


@contextlib.contextmanager
def _readers_may_leave() -> Iterator[None]:
    """`unweave systems | head -1`: that nobody reads the rest of the output is no failure."""
    try:
        yield
    except BrokenPipeError:
        if not _nobody_reads("\n"):  # it was another pipe
            raise
        raise click.exceptions.Exit(0) from None


def _nobody_reads(text: str = "") -> bool:
    """Whether stdout leads to a pipe without a reader; then what is still to be written to it goes nowhere.

    text: something to write, where nothing waits to be written that would show it
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return True
    return False


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="unweave")
def cli() -> None:
    """Disentangled representations: train, score, edit and explore codes whose named parts each stand for one thing.

    \b
    Start here:
      unweave train betavae --data dsprites --preset quick --run runs/first
      unweave evaluate runs/first
      unweave report runs/first
    """


_run_argument = click.argument("run", type=PATH)
_set_option = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a setting: beta=4, 'beta=linear(0, 4, 1000)', training.steps=2000, data.resolution=32, "
    "'split.hold_out=shape=heart,x>=16'. May be repeated; `unweave systems NAME` lists them.",
)


@cli.command()
@click.argument("system")
@click.option(
    "--data", required=True, help="Data set by name (`unweave data`), a folder of images, or a .npy/.npz file."
)
@click.option("--preset", help="Named settings, such as quick or paper (`unweave systems` lists them).")
@_set_option
@click.option("--run", "folder", type=PATH, help="Where to write [runs/SYSTEM-DATA-SEED].")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of every random number.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or mps.")
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads [chosen by measuring].")
@click.option("--log-every", default=50, show_default=True, type=click.IntRange(min=1), help="Steps per log row.")
@click.option(
    "--checkpoint-every", default=500, show_default=True, type=click.IntRange(min=1), help="Steps between checkpoints."
)
@click.option("--quiet", is_flag=True, help="No progress bar.")
def train(
    system: str, data: str, assignments: tuple[str, ...], folder: Path | None, quiet: bool, **options: Any
) -> None:
    """Train SYSTEM on data and keep everything in a run directory."""
    from unweave.data import Split
    from unweave.runs import train as start

    ours, data_settings, split = _sort_settings(assignments)
    run = start(
        system,
        data,
        settings=ours,
        data_settings=data_settings,
        split=Split().override(split),
        run=folder,
        progress=not quiet,
        **options,
    )
    for note in run.dataset().notes:
        click.echo(f"data: {note}")
    click.echo(f"trained {run.steps} steps: {run.path}")
    _tell_of_collapse(run, quiet)
    click.echo(f"next: {as_typed()} evaluate {quoted(run.path)} && {as_typed()} report {quoted(run.path)}")


def _sort_settings(assignments: Iterable[str]) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Settings of the system, of the data (`data.`) and of the split (`split.`)."""
    ours: dict[str, str] = {}
    data: dict[str, str] = {}
    split: dict[str, str] = {}
    for name, value in parse_assignments(assignments).items():
        head, _, rest = name.partition(".")
        if head == "data" and rest:
            data[rest] = value
        elif head == "split" and rest:
            split[rest] = value
        else:
            ours[name] = value
    return ours, data, split


@cli.command()
@_run_argument
@click.option(
    "--steps", type=click.IntRange(min=1), help="Train to this many steps in all [what the run was meant to have]."
)
@click.option("--device", help="auto, cpu, cuda or mps [where it began].")
@click.option("--from-weights", is_flag=True, help="Where the checkpoint is lost: from the final weights.")
@click.option("--anew", is_flag=True, help="Where the checkpoint is lost: again from the first step.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def resume(run: Path, quiet: bool, **options: Any) -> None:
    """Go on with a run that was stopped, or train it longer."""
    from unweave.runs import resume as go_on

    done = go_on(run, progress=not quiet, **options)
    click.echo(f"trained {done.steps} steps: {done.path}")
    _tell_of_collapse(done, quiet)


def _tell_of_collapse(run: Any, quiet: bool) -> None:
    """What training says at its end with a progress bar it says here without one."""
    found = run.checkup() if quiet else None
    if found is not None and found.warning:
        click.echo(found.warning, err=True)


cli.add_command(encode)
cli.add_command(decode)


@cli.command(short_help="Score a run, or codes of any model.")
@click.argument("target", type=PATH)
@click.option("--score", "scores", multiple=True, help="Only this score (`unweave metrics`). May be repeated.")
@click.option("--split", help="Which rows of a run: test, all, train, validation or held_out [those kept; test].")
@click.option("--factors", type=PATH, help="Factor table (CSV, Parquet) for codes of any model.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def evaluate(target: Path, scores: tuple[str, ...], split: str | None, factors: Path | None, quiet: bool) -> None:
    """Score a run, or codes of any model: `unweave evaluate codes.npy --factors factors.csv`.

    Which rows were scored is said below the scores, with a warning where they are few. Of a run they are the test rows,
    up to 10,000, or those last encoded; --split takes others.
    """
    if target.suffix in (".npy", ".npz") and not target.exists():
        raise UnweaveError(f"there is no file {target}: give a run, or codes as a .npy array")
    if target.is_file():
        from unweave.metrics import evaluate as score
        from unweave.runs.progress import score_bar

        if split is not None:
            raise click.UsageError("--split goes with a run: a file of codes is scored as it is")
        codes = _read_codes(target)
        table = None
        if factors is not None:
            from unweave.data import read_factors

            table = read_factors(factors, rows=len(codes))
        with score_bar(show=not quiet) as progress:
            result = score(codes, table, scores=scores or None, progress=progress)
    else:
        from unweave.runs import Run

        if factors is not None:
            raise click.UsageError("--factors goes with a file of codes: a run has its data set's own factors")
        result = Run.open(target).evaluate(scores or None, progress=not quiet, split=split)
    click.echo(result.table())


def _read_codes(path: Path) -> Any:
    import numpy as np

    if path.suffix.lower() not in (".npy", ".npz"):
        raise UnweaveError(f"{path} is neither a run nor codes as a .npy array (observations, dimensions): give one")
    try:
        codes = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UnweaveError(
            f"cannot read codes from {path} ({error}): expected a .npy array (observations, dimensions)"
        ) from None
    if not isinstance(codes, np.ndarray):
        raise UnweaveError(
            f"{path} holds several arrays: save the codes alone as a .npy array (observations, dimensions)"
        )
    return codes


for _operation in OPERATIONS:
    cli.add_command(operation_command(_operation))


@cli.command(short_help="Write report.html: what each dimension means.")
@_run_argument
def report(run: Path) -> None:
    """Write report.html: what each dimension means, scores, terms, pictures."""
    from unweave.runs import Run

    click.echo(Run.open(run).report())


@cli.command(short_help="A page in the browser: see and move what runs know.")
@click.argument("runs", nargs=-1, type=PATH)
@click.option("--host", default="127.0.0.1", show_default=True, help="Interface; any but the loopback needs a token.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port [a free one].")
@click.option(
    "--token",
    help="What others must know to open it: at least 8 letters, digits, - or _ "
    "[made and shown when --host is not the loopback].",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def explore(runs: tuple[Path, ...], host: str, port: int, token: str | None, no_browser: bool) -> None:
    """Open RUNS in a browser: sliders, swaps, heat maps, scores, training curves. Without RUNS, the ones that ship."""

    def ready(address: str) -> None:
        click.echo(f"The explorer is at {address}  (Ctrl-C stops it)")
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    try:
        from unweave.explorer import serve
        from unweave.explorer.pretrained import pretrained_runs
        from unweave.runs.manifest import read_manifest

        paths = list(runs) or pretrained_runs()
        for path in paths:
            read_manifest(path)
        serve(paths, host=host, port=port, token=token, ready=ready)
    except KeyboardInterrupt:  # how a server ends: nothing is lost that another command would go on with
        click.echo("stopped")


@cli.command(short_help="BibTeX of a run, system, data set or score.")
@click.argument("name")
def cite(name: str) -> None:
    """BibTeX of a run (system, data and scores used), or of a system, data set or score by name."""
    if Path(name).is_dir():
        from unweave.runs import Run

        click.echo(Run.open(name).cite().rstrip())
        return
    from unweave.base.errors import unknown_name

    found = {}
    for registry in _registries():
        if name in registry:
            click.echo(registry[name].card.bibtex.strip() or f"there is nothing to cite for {name}")
            return
        found.update(dict.fromkeys(registry.names()))
    raise unknown_name("run, system, data set or score", name, found)


def _registries() -> tuple[Any, ...]:
    from unweave.core.system import SYSTEMS
    from unweave.data import DATA
    from unweave.metrics import METRICS

    return SYSTEMS, DATA, METRICS


def _print_list(rows: Iterable[tuple[str, str, str]]) -> None:
    """Name, one line, and what it needs, in columns."""
    rows = list(rows)
    width = max((len(name) for name, _, _ in rows), default=0)
    for name, summary, needs in rows:
        click.echo(f"{name:<{width}}  {summary}")
        if needs:
            click.echo(f"{'':<{width}}    {needs}")


def _print_settings(cls: Any, prefix: str = "") -> None:
    """Each setting of a class with its default and meaning; settings within settings by dotted name."""
    for name, field in cls.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and hasattr(inner, "model_fields"):
            _print_settings(inner, f"{prefix}{name}.")
        else:
            default = "needed" if field.is_required() else shown_default(field.default)
            click.echo(f"  {prefix}{name} [{default}]\n      {' '.join((field.description or '').split())}")


@cli.command()
@click.argument("name", required=False)
def systems(name: str | None) -> None:
    """List the systems that can be trained, or the settings of one."""
    from unweave.core.system import SYSTEMS

    if name is not None:
        click.echo(f"{name}: {SYSTEMS[name].card.summary}\n{SYSTEMS[name].card.paper}\n\nSettings:")
        _print_settings(SYSTEMS[name].config_class)
        return
    _print_list(
        (
            cls.name(),
            cls.card.summary,
            f"needs {cls.card.needs or 'observations'}; {', '.join(c.__name__.lower() for c in cls.capabilities())}; "
            f"presets: {', '.join(('default', *cls.config_class.presets))}",
        )
        for cls in SYSTEMS
    )


@cli.command()
@click.argument("name", required=False)
def data(name: str | None) -> None:
    """List the data sets, or the settings of one."""
    from unweave.data import DATA

    if name is not None:
        click.echo(f"{name}: {DATA[name].card.summary}\n\nSettings, on the command line as --set data.NAME=VALUE:")
        _print_settings(DATA[name])
        return
    _print_list((cls.name, cls.card.summary, f"needs {cls.card.needs}" if cls.card.needs else "") for cls in DATA)


@cli.command()
def metrics() -> None:
    """List the scores."""
    from unweave.metrics import METRICS, RECOGNITION

    direction = {True: "higher is better", False: "lower is better", None: "neither direction is better"}
    _print_list(
        [
            *(
                (m.name, m.card.summary, f"needs {m.card.needs or m.needs}; {direction[m.higher_is_better]}")
                for m in METRICS
            ),
            ("recognition", RECOGNITION.summary, f"needs {RECOGNITION.needs}; {direction[True]}"),
        ]
    )


@cli.command()
def studies() -> None:
    """List the studies."""
    from unweave.studies import STUDIES

    _print_list(
        (study.name, study.summary, f"{len(study.plan(3, study.steps))} runs with 3 seeds") for study in STUDIES
    )


@cli.command()
def operations() -> None:
    """List what can be done with a trained run."""
    _print_list(
        (op.name, op.summary, f"needs a system that {', '.join(need.__name__.lower() for need in op.needs)}")
        for op in OPERATIONS
    )


cli.add_command(study)
cli.add_command(reproduce)
cli.add_command(demo)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: runs a command; a user's mistake ends in one line on stderr and exit code 2."""
    try:
        code = cli.main(args=arguments, prog_name="unweave", standalone_mode=False)
        _nobody_reads()  # what is left in the buffer would fail when Python ends, where nobody catches it
        sys.exit(code if isinstance(code, int) else 0)
    except click.NoSuchOption as error:
        words = sys.argv[1:] if arguments is None else arguments
        _stop(f"error: {error.format_message()}{_setting_instead(words, error.option_name)}", 2)
    except click.ClickException as error:
        _stop(f"error: {error.format_message()}", 2)
    except UnweaveError as error:
        _stop(f"error: {error}", 2)
    except (KeyboardInterrupt, click.exceptions.Abort) as error:  # click makes an Abort of Ctrl-C
        from unweave.runs.stopping import Interrupted

        if isinstance(error.__cause__, Interrupted):  # which has said what it saved
            sys.exit(130)
        _stop("stopped; `unweave resume RUN` goes on from the last checkpoint, a study or reproduction by itself", 130)
    except OSError as error:
        _stop(f"error: cannot read or write {error.filename or 'a file'}: {error.strerror or error}", 2)


def _setting_instead(words: list[str], option: str) -> str:
    """What to write where an option that `train` does not have, such as --epochs, is a setting of the system."""
    from unweave.core.system import SYSTEMS

    if words[:1] != ["train"] or len(words) < 2 or words[1] not in SYSTEMS:
        return ""
    name = option.lstrip("-").replace("-", "_")
    setting = SYSTEMS[words[1]].config_class.setting_meant(name)
    return "" if setting is None else f" It is a setting: --set {setting}=VALUE"


def _stop(line: str, code: int) -> None:
    print(" ".join(line.split()), file=sys.stderr)
    sys.exit(code)
