"""Makes an environment of its own with the peers: pythae 0.1.2, disent 0.8.0, Pyro 1.9.1.

    python benchmarks/peers/install.py [FOLDER]

FOLDER is benchmarks/peers/.env unless UNWEAVE_BENCH_ENV says otherwise. Done already: nothing happens.

PyTorch, and what it needs, comes from the environment that runs this script, file by file: builds differ in speed, so
nothing else would compare libraries. When that environment gets another build, the peers' is made anew. The rest comes
from requirements.txt, without dependencies. disent imports torchvision, which it does not need for what is measured:
`standin/` has the few names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
BUILD = """
import json, torch
v = torch.version
print(json.dumps({"version": v.__version__, "cuda": v.cuda, "git": v.git_version, "config": torch.__config__.show()}))
"""
ONLY_CUDA_NEEDS = re.compile(r"(nvidia|cuda)[-_]|triton$")


def folder() -> Path:
    """Where the environment is, or would be."""
    return Path(os.environ.get("UNWEAVE_BENCH_ENV") or HERE / ".env")


def interpreter(environment: Path) -> Path:
    """Its Python."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def wanted() -> str:
    """What tells one state of the requirements from another."""
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()


def installed(environment: Path) -> bool:
    """Whether the environment has what requirements.txt says now."""
    mark = environment / ".ready"
    return interpreter(environment).exists() and mark.exists() and mark.read_text() == wanted()


def build(python: str | Path) -> dict[str, Any]:
    """The PyTorch that a Python has: version with its local part, CUDA, commit, how it was compiled."""
    done = subprocess.run([str(python), "-c", BUILD], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        raise SystemExit(f"{python} cannot import torch: {lines[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def label(found: dict[str, Any]) -> str:
    """A build in a few words; two that differ in nothing else have another digest."""
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:8]
    return f"{found['version']} ({'CUDA ' + found['cuda'] if found['cuda'] else 'no CUDA'}, {digest})"


def with_torch() -> list[Distribution]:
    """PyTorch and all it needs, of this environment."""
    found: dict[str, Distribution] = {}
    names = ["torch", *(each.name for each in distributions() if ONLY_CUDA_NEEDS.match(each.name.lower()))]
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop()).lower()
        if name in found or name in ("pip", "setuptools"):
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # a requirement of another system or Python
            continue
        needs = (each for each in found[name].requires or [] if "extra ==" not in each)
        names += [re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in needs]
    return list(found.values())


def copy(package: Distribution, site: Path) -> None:
    """The files of a package, as hard links where possible; commands beside site-packages are left out."""
    for file in package.files or []:
        source, target = Path(str(package.locate_file(file))), site / file
        if ".." in file.parts or not source.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)


def install(environment: Path) -> None:
    python = interpreter(environment)
    if installed(environment) and build(python) == build(sys.executable):
        print(f"peers are installed in {environment}")
        return
    venv.create(environment, with_pip=True, clear=True)
    where = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
    for package in with_torch():
        copy(package, site)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "-r", str(REQUIREMENTS)], check=True)
    (environment / ".ready").write_text(wanted())
    print(f"installed the peers in {environment}, with PyTorch {label(build(python))}")


if __name__ == "__main__":
    install(Path(sys.argv[1]) if len(sys.argv) > 1 else folder())
