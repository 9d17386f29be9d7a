"""GFLOP/s of a large single-precision matrix product: what the processor can do.

    python sgemm.py SIDE

prints the best of a few products; with UNWEAVE_BENCH_TURN it takes turns as the contenders do (common.py), and each
turn tells the best of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
from common import hand_over, threads


def best(matrix: torch.Tensor, products: int) -> float:
    side, taken = len(matrix), []
    for _ in range(products):
        began = time.perf_counter()
        torch.mm(matrix, matrix)
        taken.append(time.perf_counter() - began)
    return 2e-9 * side**3 / min(taken)


def main() -> None:
    torch.set_num_threads(threads())
    side = int(sys.argv[1])
    matrix = torch.rand(side, side)
    first = best(matrix, 2)
    if not os.environ.get("UNWEAVE_BENCH_TURN"):
        print(json.dumps({"gflops": max(first, best(matrix, 3))}))
        return
    while True:
        hand_over(first)
        first = best(matrix, 4)


if __name__ == "__main__":
    main()
