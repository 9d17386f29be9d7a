"""Contenders as processes of their own: which there are, how they are started, what they print."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PEERS = Path(__file__).resolve().parent / "peers"
sys.path.insert(0, str(PEERS))

import install  # noqa: E402

OURS, PLAIN, BEFORE = "unweave", "plain", "before"  # before: ours, with the library as it was at another commit
SCRIPTS = {
    OURS: "ours.py",
    BEFORE: "ours.py",
    PLAIN: "plain_loop.py",
    "pythae": "with_pythae.py",
    "disent": "with_disent.py",
    "pyro": "with_pyro.py",
}


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def interpreter(contender: str) -> str:
    """Ours and the plain loop run in this environment, the peers in their own."""
    own = contender in (OURS, PLAIN, BEFORE)
    return sys.executable if own else str(install.interpreter(install.folder()))


@contextlib.contextmanager
def library_at(commit: str) -> Iterator[Path]:
    """While it lasts, a folder with the library's source at a commit, for PYTHONPATH."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["git", "-C", str(PEERS.parents[1]), "archive", f"{commit}:src"]
        packed = subprocess.run(command, capture_output=True, check=False)
        if packed.returncode:
            raise SystemExit(f"git has no source at {commit!r}: {packed.stderr.decode().strip().splitlines()[-1]}")
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
            files.extractall(folder, filter="data")
        yield Path(folder)


def installed_peers() -> bool:
    """Whether the peers can run; says in one line how to install them when they cannot. They have our PyTorch."""
    if install.installed(install.folder()):
        ours, theirs = (install.build(interpreter(each)) for each in (OURS, "pythae"))
        if ours != theirs:
            raise SystemExit(
                f"unweave has PyTorch {install.label(ours)}, the peers {install.label(theirs)}: ratios would be those "
                "of two builds; give them the same: python benchmarks/peers/install.py"
            )
        return True
    print("pythae, disent and Pyro are left out: install them with `python benchmarks/peers/install.py`", flush=True)
    return False


def call(command: list[str], threads: int) -> str:
    """What a command prints; an error of its own ends the benchmark with the last lines it wrote."""
    environment = _environment(threads)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise SystemExit(f"{' '.join(command)} failed:\n{lines}")
    return done.stdout


def _environment(threads: int) -> dict[str, str]:
    several = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "UNWEAVE_BENCH_THREADS")}
    return {**os.environ, **several, "UNWEAVE_BENCH_BEGAN": repr(time.time())}


def measure(contender: str, model: str, batch: int, steps: int, threads: int, *more: str) -> dict[str, Any]:
    """One measurement in a process of its own: the line of JSON the contender prints."""
    script = str(PEERS / SCRIPTS[contender])
    printed = call([interpreter(contender), script, model, str(batch), str(steps), *more], threads)
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


class Resident:
    """A contender that stays, and trains when it is its turn."""

    def __init__(self, command: list[str], threads: int, turn: tuple[int, int], source: Path | None = None):
        self.command = command
        self.folder = tempfile.TemporaryDirectory()
        self.errors = Path(self.folder.name) / "errors.txt"
        environment = {**_environment(threads), "UNWEAVE_BENCH_TURN": f"{turn[0]},{turn[1]}"}
        if source is not None:
            environment["PYTHONPATH"] = str(source)
        pipe = subprocess.PIPE
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                command, env=environment, cwd=self.folder.name, text=True, stdin=pipe, stdout=pipe, stderr=errors
            )
        self.first = self._told()  # it has trained its first steps and waits

    @classmethod
    def contender(
        cls,
        name: str,
        model: str,
        batch: int,
        steps: int,
        warm: int,
        threads: int,
        turn: tuple[int, int],
        source: Path | None = None,
    ) -> Resident:
        """turn: unmeasured and measured steps of each; source: of the library, where it is not this one's"""
        words = [model, str(batch), str(steps), "--warm", str(warm)]
        return cls([interpreter(name), str(PEERS / SCRIPTS[name]), *words], threads, turn, source)

    @classmethod
    def sgemm(cls, threads: int, side: int, library: str) -> Resident:
        """library: mkl or onednn"""
        return cls([sys.executable, str(PEERS / "sgemm.py"), str(side), library], threads, (0, 1))

    def turn(self) -> float:
        """What one turn gave: seconds, or GFLOP/s."""
        self._go()
        return self._told()

    def report(self) -> dict[str, Any]:
        """The line it prints after its last turn."""
        self._go()
        last = ""
        for line in self._lines():
            last = line
        self.process.wait()
        self.folder.cleanup()
        found: dict[str, Any] = json.loads(last)
        return found

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def _go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def _lines(self) -> Iterator[str]:
        assert self.process.stdout is not None
        return iter(self.process.stdout.readline, "")

    def _told(self) -> float:
        for line in self._lines():
            if line.startswith("TURN "):
                return float(line.split()[1])
        lines = "\n".join(self.errors.read_text().splitlines()[-15:])
        raise SystemExit(f"{' '.join(self.command)} failed:\n{lines}")


def seconds(command: list[str], threads: int) -> float:
    """How long a command takes from start to end."""
    began = time.perf_counter()
    call(command, threads)
    return time.perf_counter() - began


def machine(threads: int) -> dict[str, Any]:
    """What the figures depend on."""
    return {**processor(), "cores": usable_cores(), "threads": threads, "python": platform.python_version()}


VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sse2": "SSE2", "sve": "SVE", "asimd": "NEON"}


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, str]:
    """processor: vendor, family and model, which tell kinds apart; name; vectors: the widest instructions it has."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    pairs = (line.split(":", 1) for line in reversed(lines) if ":" in line)
    said = {name.strip(): value.strip() for name, value in pairs}  # of the first core
    name = said.get("model name") or platform.processor() or platform.machine()
    if "cpu family" in said:
        vendor = VENDORS.get(said["vendor_id"], said["vendor_id"])
        kind = f"{vendor} family {said['cpu family']} model {said['model']}"
    else:
        kind = f"{name} ({platform.machine()})" if name != platform.machine() else name
    flags = (said.get("flags") or said.get("Features") or "").split()
    return {
        "processor": kind,
        "name": name,
        "vectors": next((label for flag, label in VECTORS.items() if flag in flags), "not known"),
    }
