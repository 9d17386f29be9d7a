"""Contenders as processes of their own: which there are, how they are started, what they print."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PEERS = Path(__file__).resolve().parent / "peers"
sys.path.insert(0, str(PEERS))

import install  # noqa: E402

OURS, PLAIN = "unweave", "plain"
SCRIPTS = {
    OURS: "ours.py",
    PLAIN: "plain_loop.py",
    "pythae": "with_pythae.py",
    "disent": "with_disent.py",
    "pyro": "with_pyro.py",
}


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def interpreter(contender: str) -> str:
    """Ours and the plain loop run in this environment, the peers in their own."""
    return sys.executable if contender in (OURS, PLAIN) else str(install.interpreter(install.folder()))


def installed_peers() -> bool:
    """Whether the peers can run; says in one line how to install them when they cannot."""
    if install.installed(install.folder()):
        return True
    print("pythae, disent and Pyro are left out: install them with `python benchmarks/peers/install.py`", flush=True)
    return False


def call(command: list[str], threads: int) -> str:
    """What a command prints; an error of its own ends the benchmark with the last lines it wrote."""
    several = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "UNWEAVE_BENCH_THREADS")}
    environment = {**os.environ, **several, "UNWEAVE_BENCH_BEGAN": repr(time.time())}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise SystemExit(f"{' '.join(command)} failed:\n{lines}")
    return done.stdout


def measure(contender: str, model: str, batch: int, steps: int, threads: int, *more: str) -> dict[str, Any]:
    """One measurement in a process of its own: the line of JSON the contender prints."""
    script = str(PEERS / SCRIPTS[contender])
    printed = call([interpreter(contender), script, model, str(batch), str(steps), *more], threads)
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def sgemm(threads: int, side: int) -> float:
    """GFLOP/s of a large single-precision matrix product, now."""
    return float(json.loads(call([sys.executable, str(PEERS / "sgemm.py"), str(side)], threads))["gflops"])


def seconds(command: list[str], threads: int) -> float:
    """How long a command takes from start to end."""
    began = time.perf_counter()
    call(command, threads)
    return time.perf_counter() - began


def machine(threads: int) -> dict[str, Any]:
    """What the figures depend on."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {"processor": model, "threads": threads, "python": platform.python_version()}
