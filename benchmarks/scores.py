"""Seconds of each score on 10,000 codes of 10 dimensions and 5 factors of 3, 6, 40, 32 and 32 values.

    python benchmarks/scores.py

Codes are a random mixture of the factors with noise, as a half-trained encoder would give.
"""

from __future__ import annotations

import time

import numpy as np

from unweave.metrics import METRICS, evaluate


def main() -> None:
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(0, size, 10_000) for size in (3, 6, 40, 32, 32)], axis=1)
    standard = (factors - factors.mean(0)) / factors.std(0)
    codes = standard @ rng.normal(size=(5, 10)) / 2 + 0.3 * rng.normal(size=(10_000, 10))
    spreads = np.full(codes.shape, 0.3)
    began = time.perf_counter()
    result = evaluate(codes, factors, spreads=spreads)
    total = time.perf_counter() - began
    for name, seconds in sorted(result.seconds.items(), key=lambda item: -item[1]):
        print(f"{name:<20} {seconds:6.2f} s  {seconds / total:5.1%}")
    print(f"{'all ' + str(len(METRICS)):<20} {total:6.2f} s")


if __name__ == "__main__":
    main()
