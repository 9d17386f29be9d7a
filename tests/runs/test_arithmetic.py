"""What training tells the process: denormals are zero while it lasts, and freed memory stays with the process."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from unweave.runs.arithmetic import fast_arithmetic

DENORMAL = 1e-40


def product() -> float:
    return float(torch.full((1,), 1e-30) * 1e-10)


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    torch.set_flush_denormal(False)


def test_denormals_are_zero_while_it_lasts_and_not_afterwards():
    assert product() == pytest.approx(DENORMAL, rel=1e-3)
    with fast_arithmetic():
        assert product() == 0.0
    assert product() == pytest.approx(DENORMAL, rel=1e-3)


def test_an_error_inside_leaves_nothing_behind():
    with pytest.raises(ZeroDivisionError), fast_arithmetic():
        _ = 1 / 0
    assert product() == pytest.approx(DENORMAL, rel=1e-3)


def test_who_flushed_before_flushes_afterwards():
    torch.set_flush_denormal(True)
    with fast_arithmetic():
        pass
    assert product() == 0.0


COUNT_FAULTS = """
import resource, sys
from contextlib import nullcontext
import torch
from unweave.runs.arithmetic import kept_blocks

def step():  # written and freed; the last is larger than any block that glibc keeps by itself
    blocks = [torch.empty(2_000_000).fill_(1.0) for _ in range(12)] + [torch.empty(16_000_000).fill_(1.0)]

def held():  # MB
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1e6

with kept_blocks() if sys.argv[1] == "kept" else nullcontext() as kept:
    if kept is False:
        print("none")
        raise SystemExit
    start = held()
    for _ in range(5):
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        step()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    most = held()
print(faults, most - start, held() - start)
"""


def measure(how: str) -> list[float]:
    """Page faults of 20 steps; MB held more than at the start after them, and when it is over."""
    done = subprocess.run([sys.executable, "-c", COUNT_FAULTS, how], capture_output=True, text=True, check=True)
    if done.stdout.strip() == "none":
        pytest.skip("the C library has no mallopt")
    return [float(number) for number in done.stdout.split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator only")
def test_freed_blocks_are_used_again_and_given_back_at_the_end():
    faults, most, afterwards = measure("kept")
    assert faults < 1000  # 800,000 pages are written
    assert most > 100  # of 160 MB
    assert afterwards < 20
    assert measure("plain")[0] > 100_000  # without it the test shows nothing
