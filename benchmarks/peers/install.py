"""Makes an environment of its own with the peers: pythae 0.1.2, disent 0.8.0, Pyro 1.9.1.

    python benchmarks/peers/install.py [FOLDER]

FOLDER is benchmarks/peers/.env unless UNWEAVE_BENCH_ENV says otherwise. Done already: nothing happens. torch is
installed first and alone, in the version that unweave's own environment has, so that nothing fetches another build.
The rest comes without dependencies from requirements.txt. disent imports torchvision, which it does not need for what
is measured: `standin/` has the few names.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
TORCH = "torch==2.13.0"


def folder() -> Path:
    """Where the environment is, or would be."""
    return Path(os.environ.get("UNWEAVE_BENCH_ENV") or HERE / ".env")


def interpreter(environment: Path) -> Path:
    """Its Python."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def wanted() -> str:
    """What tells one state of the requirements from another."""
    return hashlib.sha256(TORCH.encode() + REQUIREMENTS.read_bytes()).hexdigest()


def installed(environment: Path) -> bool:
    """Whether the environment has what requirements.txt says now."""
    mark = environment / ".ready"
    return interpreter(environment).exists() and mark.exists() and mark.read_text() == wanted()


def install(environment: Path) -> None:
    if installed(environment):
        print(f"peers are installed in {environment}")
        return
    if not interpreter(environment).exists():
        venv.create(environment, with_pip=True)
    pip = [str(interpreter(environment)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, TORCH], check=True)
    subprocess.run([*pip, "--no-deps", "-r", str(REQUIREMENTS)], check=True)
    (environment / ".ready").write_text(wanted())
    print(f"installed the peers in {environment}")


if __name__ == "__main__":
    install(Path(sys.argv[1]) if len(sys.argv) > 1 else folder())
