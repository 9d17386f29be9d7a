"""Makes the environment in `.venv` that `make` works in: PyTorch in the build that fits the machine, then the rest.

    python3 tools/environment.py [--torch auto|cpu|cuda] [--dev] [--cpu-index URL]

On Linux pip's own choice of PyTorch is the build for CUDA: gigabytes that a machine without an NVIDIA GPU never uses.
`auto` takes PyTorch's CPU build where no such GPU is visible, from PyTorch's own index of CPU builds; where that has
none, or cannot be reached, it takes what pip finds and says so. A PyTorch that is there already is kept, of either
build. `cpu` and `cuda` demand one and replace the other. On macOS and Windows there is only one build to be had by
pip, and it is taken. `--dev` adds what tests and benchmarks need, which a demo does not.

What is there already costs no time: pip is not called at all. What an earlier call began, and something interrupted,
is gone on with. Needs the Python standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
READY = VENV / ".ready"
LOG = VENV / "setup.log"
SCRATCH = VENV / "scratch"  # pip's temporary files: what is fetched so far can be counted there, wherever /tmp is small
CONSTRAINTS = ROOT / "constraints.txt"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"

# MB to fetch and MB on the disk; Linux, x86_64, Python 3.11, PyTorch 2.13.0
SIZES = {"cpu": (192, 760), "cuda": (2700, 4800), "base": (105, 500), "dev": (150, 500)}
NAMES = {"cpu": "CPU build", "cuda": "build for CUDA"}
NO_MATCH = ("No matching distribution found", "Could not find a version that satisfies")
NO_NETWORK = (
    "Failed to establish a new connection",
    "NewConnectionError",
    "NameResolutionError",
    "name resolution",
    "ConnectTimeout",
    "ReadTimeout",
    "Read timed out",
    "Max retries exceeded",
    "ProxyError",
    "Connection broken",
)


class SetupError(Exception):
    """What a person has to do something about, in one line."""


class PipError(Exception):
    """pip failed; it said so in these lines."""

    def __init__(self, lines: Sequence[str]):
        super().__init__("pip failed")
        self.text = "\n".join(lines)

    def says(self, words: Sequence[str]) -> bool:
        return any(word in self.text for word in words)

    def one_line(self) -> str:
        log = LOG.relative_to(ROOT)
        if self.says(NO_NETWORK):
            return f"no package index could be reached: go online and type the same again, it goes on (see {log})"
        errors = [line for line in self.text.splitlines() if line.startswith("ERROR")]
        return f"pip failed, {errors[-1] if errors else 'without a reason'}: all it said is in {log}"


def gpu_visible(root: Path = Path("/")) -> bool:
    """Whether an NVIDIA GPU can be seen, without PyTorch: nvidia-smi lists one, or the driver shows one."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False)
        if listed.returncode == 0 and "GPU" in listed.stdout:
            return True
    except (OSError, subprocess.TimeoutExpired):
        pass
    cards = root / "proc/driver/nvidia/gpus"
    return (root / "dev/nvidia0").exists() or (cards.is_dir() and any(cards.iterdir()))


def interpreter() -> Path:
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def site_packages() -> list[Path]:
    """Where packages of the environment lie; none before it is made."""
    return [*VENV.glob("lib/python*/site-packages"), *VENV.glob("Lib/site-packages")]


def torch_found() -> tuple[str, str] | None:
    """Version and build (cpu or cuda) of the PyTorch that is wholly there, read without importing it."""
    for folder in site_packages():
        facts = folder / "torch" / "version.py"
        if facts.exists() and any(map(whole, folder.glob("torch-*.dist-info"))):
            text = facts.read_text(encoding="utf-8")
            version = re.search(r"^__version__ = ['\"](.+)['\"]", text, re.MULTILINE)
            cuda = re.search(r"^cuda\b.*= ['\"](.+)['\"]", text, re.MULTILINE)
            return (version[1] if version else ""), ("cuda" if cuda else "cpu")
    return None


def whole(metadata: Path) -> bool:
    """Whether a package was installed to its end: pip writes the list of files last, with its own name in it."""
    record = metadata / "RECORD"
    return record.exists() and "INSTALLER" in record.read_text(encoding="utf-8", errors="replace")


def torch_wanted() -> str:
    """The version in constraints.txt."""
    found = re.search(r"^torch==(\S+)", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SetupError(f"{CONSTRAINTS.name} names no version of torch")
    return found[1]


def torch_fits(build: str) -> bool:
    """build: auto takes either"""
    found = torch_found()
    return found is not None and found[0].split("+")[0] == torch_wanted() and build in ("auto", found[1])


def inputs() -> str:
    """What tells one state of the requirements from another."""
    files = (ROOT / "pyproject.toml", CONSTRAINTS)
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def complete() -> list[str]:
    """The parts that an earlier call installed to the end, from requirements as they are now: base; dev."""
    try:
        kept = json.loads(READY.read_text(encoding="utf-8"))
        return list(kept["parts"]) if kept["inputs"] == inputs() else []
    except (OSError, ValueError, KeyError, TypeError):
        return []


def size(megabytes: float) -> str:
    return f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes:.0f} MB"


def sizes(parts: Sequence[str]) -> str:
    fetch, disk = (sum(SIZES[part][which] for part in parts) for which in (0, 1))
    return f"about {size(fetch)} to fetch, {size(disk)} on the disk"


def megabytes(folder: Path) -> float:
    return 1e-6 * sum(os.lstat(Path(top) / name).st_size for top, _, names in os.walk(folder) for name in names)


class Progress:
    """What pip does: one line that changes on a terminal, elsewhere a line every 20 seconds."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self.began = self.told = time.monotonic()
        self.doing = "looking up versions"

    def heard(self, line: str) -> None:
        words = line.split()
        if line.lstrip().startswith("Downloading ") and not words[1].endswith(".metadata"):
            self.doing = f"fetching {words[1].rsplit('/', 1)[-1].split('-cp')[0].split('-py')[0]}"
        elif line.startswith("Installing collected packages"):
            several = line.count(",") + 1
            self.doing = f"unpacking {several} packages" if several > 1 else f"unpacking {words[-1]}"

    def show(self) -> None:
        now = time.monotonic()
        if now - self.told < (0.5 if self.live else 20):
            return
        self.told = now
        fetched = sum(path.stat().st_size for path in SCRATCH.glob("pip-unpack-*/*") if path.is_file()) * 1e-6
        so_far = f"{size(fetched)} fetched, " if fetched >= 1 else ""
        text = f"  {self.doing}; {so_far}{now - self.began:.0f} s"
        print(f"\r{text[: shutil.get_terminal_size().columns - 1]}\x1b[K" if self.live else text, end="", flush=True)
        if not self.live:
            print(flush=True)

    def end(self) -> None:
        if self.live:
            print("\r\x1b[K", end="", flush=True)


def pip(*words: str, uninstall: bool = False) -> None:
    """pip of the environment; what it says goes to the log."""
    command = [str(interpreter()), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    command += ["uninstall", "--yes", *words] if uninstall else ["install", "--progress-bar", "off", *words]
    SCRATCH.mkdir(exist_ok=True)
    scratch = {name: str(SCRATCH) for name in ("TMPDIR", "TEMP", "TMP")}
    environment = {**os.environ, **scratch, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        cwd=ROOT,
    )
    said: queue.Queue[str | None] = queue.Queue()
    assert process.stdout is not None
    threading.Thread(target=_listen, args=(process.stdout, said), daemon=True).start()
    lines, progress = [" ".join(command[1:])], Progress()
    try:
        while True:
            try:
                line = said.get(timeout=0.25)
            except queue.Empty:
                progress.show()
                continue
            if line is None:
                break
            lines.append(line)
            progress.heard(line)
            progress.show()
        if process.wait():
            raise PipError(lines)
    finally:
        process.terminate()
        process.wait()
        progress.end()
        with LOG.open("a", encoding="utf-8") as log:
            log.write("\n".join(lines) + "\n")


def _listen(stream: object, said: queue.Queue[str | None]) -> None:
    for line in stream:  # type: ignore[attr-defined]
        said.put(line.rstrip("\n"))
    said.put(None)


def make_venv() -> None:
    """The empty environment, or the one that is there without what an interrupted pip left half installed."""
    works = [str(interpreter()), "-m", "pip", "--version"]
    if not interpreter().exists() or subprocess.run(works, capture_output=True, check=False).returncode:
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], capture_output=True, text=True)
        if made.returncode:
            reason = (made.stdout + made.stderr).strip().splitlines() or ["no reason given"]
            hint = "; on Debian and Ubuntu: apt-get install python3-venv" if "ensurepip" in " ".join(reason) else ""
            raise SetupError(f"python -m venv failed: {reason[-1]}{hint}")
    shutil.rmtree(SCRATCH, ignore_errors=True)
    LOG.unlink(missing_ok=True)
    for folder in site_packages():
        for metadata in folder.glob("*.dist-info"):
            if not whole(metadata):
                shutil.rmtree(metadata)  # pip takes it for not installed, and installs it again


def only_cuda_needs() -> list[str]:
    """Installed packages that nothing but PyTorch's build for CUDA asks for."""
    names = [path.name.split("-")[0] for folder in site_packages() for path in folder.glob("*.dist-info")]
    return sorted(name for name in names if re.match(r"(nvidia|cuda)_|triton$", name))


def install_torch(build: str, index: str) -> None:
    """One call of pip, which replaces another version or build when it has fetched the new one."""
    version = torch_wanted()
    constraints = ["-c", str(CONSTRAINTS)]
    if sys.platform != "linux":
        print(f"PyTorch {version}: the one build there is for this system", flush=True)
        pip(*constraints, "torch")
        return
    gpu = build == "auto" and gpu_visible()
    want = ("cuda" if gpu else "cpu") if build == "auto" else build
    other = "cpu" if want == "cuda" else "cuda"
    seen = f"{'an' if gpu else 'no'} NVIDIA GPU is visible, so " if build == "auto" else ""
    print(f"PyTorch {version}: {seen}the {NAMES[want]}: {sizes([want])}", flush=True)
    if build == "auto":
        print(f"  TORCH={other} gives the {NAMES[other]} instead", flush=True)
    try:
        if want == "cpu":
            # Alone, since that index has other versions of what PyTorch needs. Only CPU builds are called +cpu.
            pip("--no-deps", "--retries", "1", "--timeout", "30", "--extra-index-url", index, f"torch=={version}+cpu")
        else:
            pip(*constraints, f"torch==={version}")  # three: not 2.13.0+cpu, wherever pip may find it
        return
    except PipError as error:
        if not error.says(NO_MATCH):
            raise
        unreachable = error.says(NO_NETWORK)
    where = f"{index} cannot be reached" if unreachable else f"{index} has none for this Python and processor"
    why = where if want == "cpu" else "pip finds none"
    if build != "auto":
        raise SetupError(f"the {NAMES[want]} of PyTorch {version} is not to be had: {why}")
    could = f", which may be the {NAMES['cuda']}: {sizes(['cuda'])}" if want == "cpu" else ""
    print(f"  not to be had ({why}): what pip finds instead{could}", flush=True)
    pip("--retries", "3", *constraints, "torch")


def install(build: str, dev: bool, index: str) -> None:
    wanted = ["base", "dev"] if dev else ["base"]
    if interpreter().exists() and torch_fits(build) and set(wanted) <= set(complete()):
        return
    began = time.monotonic()
    print(f"Setting up {VENV.name}, once; all that pip says goes to {LOG.relative_to(ROOT)}", flush=True)
    make_venv()
    if torch_fits(build):
        print("PyTorch is there and is kept", flush=True)
    else:
        install_torch(build, index)
        if torch_found() == (f"{torch_wanted()}+cpu", "cpu") and only_cuda_needs():
            pip(*only_cuda_needs(), uninstall=True)
    there = complete()
    missing = [part for part in wanted if part not in there]
    if missing:
        what = {"base": "Unweave and what it needs", "dev": "what tests and benchmarks need"}
        print(f"{' and '.join(what[part] for part in missing)}: {sizes(missing)}", flush=True)
        pip("--retries", "3", "-c", str(CONSTRAINTS), "-e", ".[dev]" if dev else ".")
    found = torch_found()
    if found is None or not torch_fits(build):
        version = "none" if found is None else f"{found[0]}, {NAMES[found[1]]}"
        demanded = "" if build == "auto" else f", {NAMES[build]}"
        raise SetupError(f"expected PyTorch {torch_wanted()}{demanded}, pip installed {version}: see {LOG.name}")
    shutil.rmtree(SCRATCH, ignore_errors=True)
    READY.write_text(json.dumps({"inputs": inputs(), "parts": [*there, *missing]}) + "\n", encoding="utf-8")
    held = size(megabytes(VENV))
    print(f"Ready after {time.monotonic() - began:.0f} s: {VENV.name} holds {held}, PyTorch is the {NAMES[found[1]]}")


def main() -> int:
    if sys.version_info < (3, 10):  # noqa: UP036 (whatever `python3` is on the machine)
        sys.exit(f"unweave needs Python 3.10 or newer, this is {sys.version.split()[0]}: run make PYTHON=python3.11")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--dev", action="store_true", help="also what tests and benchmarks need")
    parser.add_argument("--cpu-index", default=CPU_INDEX, metavar="URL", help=f"CPU builds of PyTorch; {CPU_INDEX}")
    given = parser.parse_args()
    try:
        install(given.torch, given.dev, given.cpu_index)
    except PipError as error:
        print(f"setup: {error.one_line()}", file=sys.stderr)
        return 2
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("setup: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
