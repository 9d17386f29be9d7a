"""What the process is told before training so that the processor spends its time on arithmetic.

Two things of the machine, not of any model, cost a large part of a step on a CPU:

- Denormal numbers (below 1.2e-38, as Adam's second moments of unused weights soon are) take many times as
  long as others. They are flushed to zero while training lasts.
- The C library's allocator hands every block above a threshold back to the system as soon as it is free, so each step
  faults the pages of its activations in again, zeroed by the kernel. It is told to keep blocks of up to 32 MB.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

# Parameters of mallopt in glibc's malloc.h. 32 MB is the largest threshold it takes.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_LARGEST_KEPT = 32 * 1024**2
_KEPT_IN_ALL = 2**31 - 1


@contextmanager
def fast_arithmetic() -> Iterator[None]:
    """While it lasts denormals are zero (they are not afterwards, unless they were before); large blocks stay ours."""
    keep_large_blocks()
    before = _flushes_denormals()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _flushes_denormals() -> bool:
    return bool((torch.full((1,), 1e-30) * 1e-10 == 0).item())


@cache
def keep_large_blocks() -> bool:
    """Tell the allocator to keep freed blocks for the next step; False where it is not glibc's and nothing is done.

    It holds for the rest of the process: memory of the largest step stays with it until it ends.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    settings = ((_M_MMAP_THRESHOLD, _LARGEST_KEPT), (_M_TRIM_THRESHOLD, _KEPT_IN_ALL), (_M_TOP_PAD, 2 * _LARGEST_KEPT))
    done = [mallopt(name, value) == 1 for name, value in settings]
    return all(done)
