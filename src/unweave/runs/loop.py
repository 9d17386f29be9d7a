"""The loop: steps, rows of the log, checkpoints; what it has done is saved when it is told to stop."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import nullcontext

from torch import Tensor

from unweave.base.seeding import derive_seed
from unweave.base.shell import quoted
from unweave.batches.assemble import Batches
from unweave.core.system import System
from unweave.runs.arithmetic import fast_arithmetic
from unweave.runs.checkpoint import Checkpoint, save_checkpoint, save_weights
from unweave.runs.checkup import examine_run
from unweave.runs.log import Tally, TrainingLog
from unweave.runs.manifest import Manifest
from unweave.runs.progress import bar, say
from unweave.runs.stopping import stopping
from unweave.runs.threads import threads_of
from unweave.runs.writer import Writer

# Streams of random numbers that must not overlap: initial weights, order of data, noise in training.
WEIGHTS, ORDER, NOISE = 0, 1, 2


def fit(
    writer: Writer,
    manifest: Manifest,
    system: System,
    batches: Batches,
    checkpoint: Checkpoint | None,
    progress: bool,
) -> None:
    """Train on the batches.

    writer:     the right to write into the run's directory; asked before each time something is written
    checkpoint: where to go on from; its weights are in the system already
    """
    folder, start, steps = writer.folder, batches.start, batches.stop
    system.training_seed, system.step = derive_seed(manifest.seed, NOISE), start
    threads = threads_of(manifest, writer, say if progress else _silent)
    system.to(manifest.device).train()
    optimisers = system.optimisers()
    if checkpoint is not None:
        checkpoint.load_optimisers(optimisers)
    tally = Tally() if checkpoint is None else checkpoint.tally(system.device)

    def save() -> None:
        writer.check()
        threads.sync()
        save_checkpoint(folder / "state.safetensors", system, optimisers, tally)

    if writer.note:
        say(writer.note)
    title = f"{system.name()} on {batches.dataset.name}"
    with stopping() as stop:
        if checkpoint is None:  # so that there are good weights to keep whatever happens before the first checkpoint
            save()
        with (
            TrainingLog(folder / "log.csv", folder / "tensorboard", start) as log,
            bar(title, steps, start) if progress else nullcontext() as shown,
            fast_arithmetic(),
        ):
            for batch in batches:
                threads.begin(system.step + 1)
                record = system.update(batch if manifest.device == "cpu" else batch.to(manifest.device), optimisers)
                threads.end()
                step, last = system.step, system.step == steps
                tally.add(record)
                if step == 1 or step % manifest.log_every == 0 or last:
                    writer.check()
                    log.append(step, tally.seconds, tally.take())
                if last:
                    writer.check()
                    save_weights(folder / "weights.safetensors", system)
                if last or step % manifest.checkpoint_every == 0 or stop.signal is not None:
                    save()
                if stop.signal is not None:
                    break
                if shown is not None:
                    if step % 50 == 0:
                        shown.set_postfix_str(_loss(record), refresh=False)
                    shown.update(1)
        if stop.signal is not None:
            line = f"stopped by {stop.signal.name} after step {system.step} of {steps}, which is saved"
            if system.step < steps:
                line += f": `unweave resume {quoted(folder)}` goes on from there"
            say(line)
            stop.end(line)
    writer.check()
    found = examine_run(folder, system, batches)
    if progress and found is not None and found.warning:
        say(found.warning)


def _silent(line: str) -> None:
    """Nobody wants to read it."""


def _loss(record: Mapping[str, Tensor]) -> str:
    """The first player's loss, for the progress bar."""
    totals = (value for name, value in record.items() if name.rsplit("/")[-1] == "total")
    return "".join(f"loss {float(total):.1f}" for total in itertools.islice(totals, 1))
