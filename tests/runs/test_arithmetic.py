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
import torch
from unweave.runs.arithmetic import keep_large_blocks

kept = keep_large_blocks() if sys.argv[1] == "kept" else None
if kept is False:
    print("none")
    raise SystemExit

def step():  # twelve blocks of 8 MB, written and freed
    blocks = [torch.empty(2_000_000).fill_(1.0) for _ in range(12)]

for _ in range(5):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", COUNT_FAULTS, how], capture_output=True, text=True, check=True)
    if done.stdout.strip() == "none":
        pytest.skip("the C library has no mallopt")
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator only")
def test_freed_blocks_are_used_again_without_asking_the_system_for_pages():
    assert faults("kept") < 1000  # 480,000 pages are written
    if faults("plain") < 1000:  # what happens to lie above the blocks can keep them from being given back
        pytest.skip("this heap keeps them anyway")
