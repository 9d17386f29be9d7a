"""The command `unweave demo`: train the demo's recipe, score it, report, and say what was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unweave.base.shell import as_typed, command_line
from unweave.path_option import PATH

if TYPE_CHECKING:
    import numpy as np

    from unweave.core.score import Score
    from unweave.runs import Run


@click.command(short_help="The main job in one go, in three minutes.")
@click.option(
    "--run",
    "folder",
    default=Path("runs/demo"),
    show_default=True,
    type=PATH,
    help="Where to write.",
)
@click.option("--steps", type=click.IntRange(min=1), help="Training steps [the recipe's own].")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of every random number.")
def demo(folder: Path, steps: int | None, seed: int) -> None:
    """The main job in one go: render part of dSprites, train, score, report. Three minutes on two quiet cores.

    Nothing is downloaded. What is trained, why, and how it goes on other seeds: docs/evidence/demo.md.
    """
    from unweave.data import Split
    from unweave.runs import Run
    from unweave.runs import resume as go_on
    from unweave.runs import train as start
    from unweave.studies.demo import STEPS, recipe

    if (folder / "run.json").exists():
        click.echo(f"{folder} exists: going on from where it is (remove it to start anew)")
        run = go_on(folder)
    else:
        plan = recipe(seed, steps or STEPS)
        click.echo(f"Training {plan.system} on a part of dSprites: white squares, ellipses and hearts in four sizes,")
        click.echo(
            f"rendered here, no download. It is told the shape of {plan.settings['labels']} pictures, and nothing else."
        )
        click.echo("Three minutes on two quiet cores, scores and report included.")
        run = start(
            plan.system,
            plan.data,
            preset=plan.preset,
            settings=plan.settings,
            data_settings=plan.data_settings,
            split=Split.from_dict(dict(plan.split)),
            seed=plan.seed,
            run=folder,
        )
    if run.scores() is None:
        codes = run.encode_split()
        click.echo(f"Scoring the codes of {codes.rows:,} images that were not trained on.")
        click.echo(run.evaluate(progress=True).table())
    path = Run.open(folder).report()
    click.echo()
    for line in seen(run):
        click.echo(line)
    click.echo(f"\nThe report is at {path}: open it in a browser.")
    click.echo("What to type next:")
    for words, what in (
        (command_line("explore", folder), "the same in a browser, with sliders"),
        (command_line("traverse", folder), "each dimension moved, as PNG and GIF"),
        (command_line("interpolate", folder), "from one input to another"),
        ("systems", "what else can be trained"),
        ("train factorvae --data dsprites --preset quick", "for example"),
    ):
        click.echo(f"  {as_typed()} {words:<47} {what}")


def seen(run: Run) -> list[str]:
    """What the scores mean, in words: where each factor is found, and whether shapes come back."""
    import numpy as np

    from unweave.knobs import knobs
    from unweave.report.facts import knowledge

    codes, factors, scores = run.codes(), run.dataset().factors, run.scores()
    if factors is None or scores is None:
        return []
    known = factors.take(run.code_rows())
    varying = [name for name in known.names if len(np.unique(known.column(name))) > 1]
    shares = knowledge(codes, known.select(varying))
    return [*found([knob.name for knob in knobs(codes.blocks)], varying, shares), *recognised(scores)]


def found(dimensions: Sequence[str], factors: Sequence[str], shares: np.ndarray) -> list[str]:
    """A line for each factor: the dimension that knows most about it, and how much; `nowhere` where none does.

    shares: (D, K) share of each factor's entropy that each dimension knows
    """
    from unweave.report.facts import TOLD

    lines = ["Where each factor is found, and how much of it that dimension knows:"]
    for place, factor in enumerate(factors):
        best = int(shares[:, place].argmax())
        share = float(shares[best, place])
        lines.append(
            f"  {factor:<12} " + (f"{dimensions[best]:<9} {100 * share:3.0f} %" if share >= TOLD else "nowhere")
        )
    return lines


def recognised(scores: Mapping[str, Score]) -> list[str]:
    """The score of the pictures, beside what it is worth."""
    if "recognition" not in scores:
        return []
    score = scores["recognition"]
    own, chance = score.parts["originals"], score.parts["mean_picture"]
    return [
        f"In {100 * score.value:.0f} % of the reconstructions the {score.settings['factor']} is still recognised "
        f"(originals: {100 * own:.0f} %, one picture for all: {100 * chance:.0f} %)."
    ]
