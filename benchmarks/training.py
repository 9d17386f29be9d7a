"""Training speed beside a plain PyTorch loop, pythae, disent and Pyro, and as a fraction of the matrix-product peak.

    python benchmarks/training.py [--turns 12] [--threads N] [--models betavae tcvae ...] [--before COMMIT]
                                  [--quick] [--save]

One run, interleaved: for each model every contender trains in a process of its own, and all take turns of a few steps:
while one trains the others wait, in an order that rotates. The first steps of a turn are not measured. The peaks of
both libraries that multiply matrices in PyTorch have their turns too. So what else the machine does meets all alike,
and a ratio is taken within one round of turns. All have one build of PyTorch, or nothing is measured. `--before COMMIT`
has the library as it was there in place of the peers: what the changes since then cost or gave. `--save` writes the
file of this processor in benchmarks/results/training (with `--before` in results/before) and the tables of
benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
from pathlib import Path
from typing import Any

from _processes import BEFORE, OURS, PLAIN, Resident, installed_peers, library_at, machine, usable_cores
from _report import Table, save, show, spread, table
from sizes import flops

# model, batch, steps of a turn that are not measured and that are, who trains it
PLAN = (
    ("betavae", 64, 2, 8, (OURS, PLAIN, "pythae", "disent", "pyro")),
    ("tcvae", 64, 2, 8, (OURS, PLAIN, "pythae", "disent")),
    ("tcvae", 1024, 1, 1, (OURS, PLAIN, "pythae", "disent")),
    ("factorvae", 64, 2, 6, (OURS, PLAIN, "pythae")),
    ("mnist", 128, 10, 40, (OURS, PLAIN, "pythae", "disent", "pyro")),
)
NAMES = {
    "betavae": "beta-VAE",
    "tcvae": "TC-VAE",
    "factorvae": "FactorVAE",
    "mnist": "VAE, dense 784-500-500-20",
}
LABELS = {PLAIN: "plain loop", "pythae": "pythae 0.1.2", "disent": "disent 0.8.0", "pyro": "Pyro 1.9.1"}
PEAKS = {"mkl": "torch.mm", "onednn": "oneDNN"}  # the peak is that of the faster library

Rates = dict[str, list[float]]  # contender -> images per second of each turn; peaks in GFLOP/s
Reports = dict[str, dict[str, Any]]  # contender -> what it printed at its end


def run(
    turns: int, threads: int, quick: bool, models: list[str], before: Path | None = None
) -> dict[str, tuple[Rates, Reports]]:
    """ "model batch" -> what each contender did in each turn, and its report.

    before: source of the library at another commit, which takes the place of the peers
    """
    peers = before is None and installed_peers()
    found: dict[str, tuple[Rates, Reports]] = {}
    for model, batch, lead, steps, contenders in PLAN:
        if model not in models:
            continue
        batch, lead, steps = (min(batch, 128), 1, 1) if quick else (batch, lead, steps)
        chosen = [each for each in contenders if peers or each in (OURS, PLAIN)]
        if before is not None:
            chosen.insert(1, BEFORE)
        # The first turn is not counted.
        total, turn = (lead + steps) * (turns + 1), (lead, steps)
        waiting = {
            each: Resident.contender(
                each, model, batch, total, total // turns, threads, turn, before if each == BEFORE else None
            )
            for each in chosen
        }
        waiting |= {each: Resident.sgemm(threads, 512 if quick else 3072, each) for each in PEAKS}
        rates: Rates = {each: [] for each in waiting}
        for number in range(turns + 1):
            order = list(waiting)
            for each in order[number % len(order) :] + order[: number % len(order)]:
                value = waiting[each].turn()
                if number:
                    rates[each].append(value if each in PEAKS else steps * batch / value)
        for each in PEAKS:
            waiting.pop(each).stop()
        found[f"{model} {batch}"] = rates, {each: process.report() for each, process in waiting.items()}
        told = ", ".join(f"{each} {statistics.median(values):.0f}" for each, values in rates.items())
        print(f"{model} {batch}: {told}", flush=True)
    return found


def tables(found: dict[str, tuple[Rates, Reports]], labels: dict[str, str]) -> list[Table]:
    """labels: those beside ours -> what they are called"""
    speed, fractions, memory, first = [], [], [], []
    peaks = {each: [peak for rates, _ in found.values() for peak in rates[each]] for each in PEAKS}
    for key, (rates, reports) in found.items():
        model, batch = key.split()
        label = f"{NAMES[model]}, batch {batch}"
        ratio = {
            each: [mine / theirs for mine, theirs in zip(rates[OURS], rates[each], strict=True)] for each in reports
        }
        speed.append([label, *(spread(ratio[each]) if each in ratio else "" for each in labels)])
        share = {
            each: [
                1e-9 * rate * flops(model) / max(both)
                for rate, *both in zip(rates[each], *(rates[peak] for peak in PEAKS), strict=True)
            ]
            for each in reports
        }
        row = [label, f"{flops(model) / 1e6:.1f}"]
        fractions.append([*row, *(spread(share[each]) if each in share else "" for each in (OURS, *labels))])
        for rows, field, digits in ((memory, "peak_mb", 0), (first, "first_step_seconds", 1)):
            values = {each: f"{report[field]:.{digits}f}" for each, report in reports.items()}
            rows.append([label, *(values.get(each, "") for each in (OURS, *labels))])
    everyone = ["unweave", *labels.values()]
    counted = "multiply-adds of the layers x 2 x 3 (forward, gradient of the inputs, gradient of the weights)"
    return [
        table(
            "Speed: images per second of unweave over those of the peer; above 1 unweave is faster",
            ["model", *labels.values()],
            speed,
            ["median (lowest to highest) of the ratios within a round of turns; an empty cell: the peer has none"],
        ),
        table(
            "Fraction of the SGEMM peak: images per second x operations per image / peak",
            ["model", "MFLOP per image", *everyone],
            fractions,
            [
                "peak: the faster of "
                + " and ".join(f"{name} {spread(peaks[each], 0)}" for each, name in PEAKS.items())
                + " GFLOP/s, measured in each round of turns",
                f"operations are {counted}; FactorVAE's also count its discriminator and the second batch "
                "(benchmarks/peers/sizes.py)",
            ],
        ),
        table("Peak memory of the process, MB", ["model", *everyone], memory),
        table("Seconds from starting the process to the end of the first step", ["model", *everyone], first),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=12, help="of each contender, for each model")
    parser.add_argument("--threads", type=int, default=usable_cores(), help="of every contender; all cores")
    parser.add_argument("--models", nargs="+", choices=tuple(NAMES), default=list(NAMES))
    parser.add_argument("--before", metavar="COMMIT", help="the library as it was there instead of the peers")
    parser.add_argument("--quick", action="store_true", help="two turns of one step: does everything run")
    parser.add_argument("--save", action="store_true", help="keep the result and put it into the README")
    given = parser.parse_args()
    turns = 2 if given.quick else given.turns
    labels = {BEFORE: f"at {given.before}", PLAIN: LABELS[PLAIN]} if given.before else LABELS
    with library_at(given.before) if given.before else contextlib.nullcontext() as before:
        found = run(turns, given.threads, given.quick, given.models, before)
    made = tables(found, labels)
    show(made)
    versions = {report["torch"] for _, reports in found.values() for report in reports.values()}
    if given.save and not given.quick:
        settings = {"torch": "/".join(sorted(versions)), "turns": turns}
        if given.before:
            settings["before"] = given.before
        raw = {
            key: {"images_per_second": {each: [round(v, 1) for v in values] for each, values in rates.items()}}
            for key, (rates, _) in found.items()
        }
        save("before" if given.before else "training", machine(given.threads), settings, made, raw)


if __name__ == "__main__":
    main()
