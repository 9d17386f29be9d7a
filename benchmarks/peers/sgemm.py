"""GFLOP/s of a large product of single-precision matrices: the most this machine gives to `torch.mm`.

    python benchmarks/peers/sgemm.py [SIDE]

Prints one line of JSON with the best of some repeats.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch


def main(side: int = 4096, repeats: int = 5) -> None:
    torch.set_num_threads(int(os.environ.get("UNWEAVE_BENCH_THREADS") or os.cpu_count() or 1))
    a, b = torch.randn(side, side), torch.randn(side, side)
    out = torch.mm(a, b)
    best = 0.0
    for _ in range(repeats):
        began = time.perf_counter()
        torch.mm(a, b, out=out)
        best = max(best, 2e-9 * side**3 / (time.perf_counter() - began))
    print(json.dumps({"gflops": best, "side": side}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
