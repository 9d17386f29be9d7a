"""What the process is told before training so that the processor spends its time on arithmetic.

Two things of the machine, not of any model, cost a large part of a step on a CPU:

- Denormal numbers (below 1.2e-38, as Adam's second moments of unused weights soon are) take many times as
  long as others. They are flushed to zero while training lasts.
- The C library's allocator hands every large block back to the system as soon as it is free, so each step faults the
  pages of its activations in again, zeroed by the kernel. While training lasts it keeps them for the next step.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

# Parameters of mallopt, in glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -2, -3, -4
_MB = 1024**2
# No block of its own mapping, whatever its size; the heap grows in large steps and does not shrink.
_KEEPING = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: 2**31 - 1, _M_TOP_PAD: 64 * _MB}
# As the allocator is by itself once it has seen blocks of 32 MB, the largest threshold that it takes.
_USUAL = {_M_MMAP_MAX: 65536, _M_MMAP_THRESHOLD: 32 * _MB, _M_TRIM_THRESHOLD: 64 * _MB, _M_TOP_PAD: 128 * 1024}


@contextmanager
def fast_arithmetic() -> Iterator[None]:
    """While it lasts denormals are zero and freed memory stays ours; afterwards neither, unless it was so before."""
    before = _flushes_denormals()
    torch.set_flush_denormal(True)
    try:
        with kept_blocks():
            yield
    finally:
        torch.set_flush_denormal(before)


def _flushes_denormals() -> bool:
    return bool((torch.full((1,), 1e-30) * 1e-10 == 0).item())


@contextmanager
def kept_blocks() -> Iterator[bool]:
    """While it lasts the allocator keeps freed blocks; at its end it gives back to the system what is free.

    Yields False where the C library is not glibc and nothing is done.
    """
    library = _glibc()
    if library is None:
        yield False
        return
    _tell(library, _KEEPING)
    try:
        yield True
    finally:
        _tell(library, _USUAL)
        library.malloc_trim(0)


def _tell(library: Any, settings: dict[int, int]) -> None:
    for name, value in settings.items():
        library.mallopt(name, value)


@cache
def _glibc() -> Any:
    """The C library if it has the two calls, else None."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        return library if library.mallopt and library.malloc_trim else None
    except (AttributeError, OSError):  # another C library
        return None
