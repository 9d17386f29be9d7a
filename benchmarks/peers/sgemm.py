"""GFLOP/s of a large single-precision matrix product: what the processor can do.

    python sgemm.py SIDE LIBRARY

LIBRARY is mkl, behind `torch.mm`, or onednn, behind convolutions and `unweave.nets.products`. Prints the best of a few
products; with UNWEAVE_BENCH_TURN it takes turns as the contenders do (common.py), and each
turn tells the best of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
from common import hand_over, threads

PRODUCTS = {
    "mkl": torch.mm,
    "onednn": lambda a, b: torch.ops.mkldnn._linear_pointwise.default(a, b, None, "none", [], ""),
}


def best(matrix: torch.Tensor, library: str, products: int) -> float:
    side, taken = len(matrix), []
    for _ in range(products):
        began = time.perf_counter()
        PRODUCTS[library](matrix, matrix)
        taken.append(time.perf_counter() - began)
    return 2e-9 * side**3 / min(taken)


def main() -> None:
    torch.set_num_threads(threads())
    side, library = int(sys.argv[1]), sys.argv[2]
    matrix = torch.rand(side, side)
    first = best(matrix, library, 2)
    if not os.environ.get("UNWEAVE_BENCH_TURN"):
        print(json.dumps({"gflops": max(first, best(matrix, library, 3))}))
        return
    while True:
        hand_over(first)
        first = best(matrix, library, 4)


if __name__ == "__main__":
    main()
