"""Training speed beside a plain PyTorch loop, pythae, disent and Pyro, and as a fraction of the matrix-product peak.

    python benchmarks/training.py [--rounds 5] [--threads N] [--models betavae tcvae ...] [--quick] [--save]

One run, interleaved: in each round every contender trains every model once, in a process of its own, in an order that
rotates; the peak of `torch.mm` is measured in each round too. A ratio is ours over the peer's images per second in the
same round. `--save` writes benchmarks/results/training.json and the tables of benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from _processes import OURS, PLAIN, installed_peers, machine, measure, sgemm, usable_cores
from _report import Table, save, show, spread, table
from sizes import flops

# model, batch, measured steps, steps before them, who trains it
PLAN = (
    ("betavae", 64, 80, 10, (OURS, PLAIN, "pythae", "disent", "pyro")),
    ("tcvae", 64, 80, 10, (OURS, PLAIN, "pythae", "disent")),
    ("tcvae", 1024, 8, 2, (OURS, PLAIN, "pythae", "disent")),
    ("factorvae", 64, 50, 10, (OURS, PLAIN, "pythae")),
    ("mnist", 128, 450, 50, (OURS, PLAIN, "pythae", "disent", "pyro")),
)
NAMES = {
    "betavae": "beta-VAE",
    "tcvae": "TC-VAE",
    "factorvae": "FactorVAE",
    "mnist": "VAE, dense 784-500-500-20",
}
LABELS = {PLAIN: "plain loop", "pythae": "pythae 0.1.2", "disent": "disent 0.8.0", "pyro": "Pyro 1.9.1"}

Rounds = list[dict[str, Any]]


def run(rounds: int, threads: int, quick: bool, models: list[str]) -> tuple[list[float], dict[str, dict[str, Rounds]]]:
    """GFLOP/s of each round, and "model batch" -> contender -> what it printed in each round."""
    peers = installed_peers()
    peaks: list[float] = []
    found: dict[str, dict[str, Rounds]] = {}
    for number in range(rounds):
        peaks.append(sgemm(threads, 1024 if quick else 4096))
        print(f"round {number + 1}: SGEMM {peaks[-1]:.1f} GFLOP/s", flush=True)
        for model, batch, steps, warm, contenders in PLAN:
            if model not in models:
                continue
            batch, steps, warm = (min(batch, 128), 2, 1) if quick else (batch, steps, warm)
            chosen = [each for each in contenders if peers or each in (OURS, PLAIN)]
            turn = number % len(chosen)
            for contender in chosen[turn:] + chosen[:turn]:
                line = measure(contender, model, batch, steps, threads, "--warm", str(warm))
                found.setdefault(f"{model} {batch}", {}).setdefault(contender, []).append(line)
                print(f"  {model} {batch}: {contender} {line['images_per_second']:.0f} images/s", flush=True)
    return peaks, found


def rates(lines: Rounds) -> list[float]:
    return [line["images_per_second"] for line in lines]


def tables(peaks: list[float], found: dict[str, dict[str, Rounds]]) -> list[Table]:
    speed, fractions, memory, first = [], [], [], []
    for key, contenders in found.items():
        model, batch = key.split()
        label = f"{NAMES[model]}, batch {batch}"
        ours = rates(contenders[OURS])
        ratio = {
            each: [mine / theirs for mine, theirs in zip(ours, rates(lines), strict=True)]
            for each, lines in contenders.items()
        }
        speed.append([label, *(spread(ratio[each]) if each in ratio else "" for each in LABELS)])
        share = {
            each: [1e-9 * rate * flops(model) / peak for rate, peak in zip(rates(lines), peaks, strict=True)]
            for each, lines in contenders.items()
        }
        row = [label, f"{flops(model) / 1e6:.1f}"]
        fractions.append([*row, *(spread(share[each]) if each in share else "" for each in (OURS, *LABELS))])
        for rows, field, digits in ((memory, "peak_mb", 0), (first, "first_step_seconds", 1)):
            values = {each: [line[field] for line in lines] for each, lines in contenders.items()}
            rows.append([label, *(spread(values[each], digits) if each in values else "" for each in (OURS, *LABELS))])
    everyone = ["unweave", *LABELS.values()]
    counted = "multiply-adds of the layers x 2 x 3 (forward, gradient of the inputs, gradient of the weights)"
    return [
        table(
            "Speed: images per second of unweave over those of the peer; above 1 unweave is faster",
            ["model", *LABELS.values()],
            speed,
            ["median (lowest to highest) of the ratios within each round; an empty cell: the peer does not have it"],
        ),
        table(
            "Fraction of the SGEMM peak: images per second x operations per image / peak of torch.mm",
            ["model", "MFLOP per image", *everyone],
            fractions,
            [
                f"peak {spread(peaks, 0)} GFLOP/s, measured in each round; operations are {counted}; FactorVAE's also "
                "count its discriminator and the second batch (benchmarks/peers/sizes.py)"
            ],
        ),
        table("Peak memory of the process, MB", ["model", *everyone], memory),
        table("Seconds from starting the process to the end of the first step", ["model", *everyone], first),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=usable_cores(), help="of every contender; all cores")
    parser.add_argument("--models", nargs="+", choices=tuple(NAMES), default=list(NAMES))
    parser.add_argument("--quick", action="store_true", help="one round of two steps: does everything run")
    parser.add_argument("--save", action="store_true", help="keep the result and put it into the README")
    given = parser.parse_args()
    rounds = 1 if given.quick else given.rounds
    peaks, found = run(rounds, given.threads, given.quick, given.models)
    made = tables(peaks, found)
    show(made)
    versions = {line["torch"] for contenders in found.values() for lines in contenders.values() for line in lines}
    if len(versions) > 1:
        print(f"\ncontenders ran on different versions of torch, {', '.join(sorted(versions))}: ratios mix the two")
    if given.save and not given.quick:
        settings = {"torch": "/".join(sorted(versions)), "rounds": rounds}
        raw = {"sgemm_gflops": peaks, "peak_median": statistics.median(peaks), "measurements": found}
        save("training", machine(given.threads), settings, made, raw)


if __name__ == "__main__":
    main()
