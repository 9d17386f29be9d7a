"""What every system computes in the first four steps of its preset `quick`: a guard for changes that only move code.

    python tests/conformance/golden.py          # compare with golden.json
    python tests/conformance/golden.py --write  # keep what is computed now; the commit says why it changed

Each system trains four steps on one thread, from seed 0, on data made here. Kept are its weights, the terms of each
step and the codes of some rows: as a digest of every bit, and as a few numbers. Bits depend on the processor and on
PyTorch, since sums are taken in another order: a digest is compared where one of the same kind is kept, and the
numbers, to a thousandth, where there is none.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unweave.core.codes import Codes
from unweave.core.system import SYSTEMS
from unweave.data import DataSet, load
from unweave.runs import Run, train

KEPT = Path(__file__).with_name("golden.json")
STEPS, ROWS = 4, 32
TOLERANCE = 1e-3
"""Of the numbers, relative: Adam's first steps turn the last bit of a small gradient into a visible change."""


def data(name: str) -> DataSet:
    """Sprites; clips for systems of clips. All without a file."""
    if name == "video":
        return load("moving_digits", clips=64, size=32)
    return load("dsprites", subset=1200, cached=False)


def settings(name: str) -> dict[str, Any]:
    """The preset's own, but for the number of steps, and what a system needs told about the data."""
    fields = SYSTEMS[name].config_class.model_fields
    told = {field: "shape" for field in ("group", "label") if field in fields}
    return {"training.steps": STEPS, **told}


def trained(name: str, folder: Path) -> Run:
    made = {"preset": "quick", "settings": settings(name), "run": folder, "progress": False, "log_every": 1}
    return train(name, data(name), threads=1, device="cpu", **made)


def numbers(run: Run) -> dict[str, Any]:
    """The length of each weight and of each block of the codes, and every logged term at every step."""
    log = run.log()
    codes = run.encode_rows(np.arange(ROWS))
    return {
        "weights": {name: float(value.double().norm()) for name, value in run.system().state_dict().items()},
        "terms": {name: log[name].tolist() for name in log if name not in ("step", "seconds")},
        "codes": {name: float(np.linalg.norm(np.float64(values))) for name, values in arrays(codes).items()},
    }


def digest(run: Run) -> str:
    """Of every bit of the weights, the codes and the log but for its seconds."""
    found = hashlib.sha256()
    for name, value in sorted(run.system().state_dict().items()):
        found.update(name.encode() + value.contiguous().numpy().tobytes())
    for name, values in sorted(arrays(run.encode_rows(np.arange(ROWS))).items()):
        found.update(name.encode() + np.ascontiguousarray(values).tobytes())
    for name, column in sorted(run.log().items()):
        if name != "seconds":
            found.update(name.encode() + column.tobytes())
    return found.hexdigest()[:16]


def arrays(codes: Codes) -> dict[str, np.ndarray]:
    """Centres of all blocks, and spreads of those that have one."""
    found = {block.name: codes[block.name] for block in codes.blocks}
    return found | {f"{block.name}, spread": codes.spread(block.name) for block in codes.blocks if block.kind == "real"}


def machine() -> str:
    """What bits depend on: the processor's kind and PyTorch."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
        said = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    except OSError:
        said = {}
    kind = [said[name] for name in ("vendor_id", "cpu family", "model") if name in said] or [platform.processor()]
    return f"{' '.join(kind)}, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}"


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def difference(run: Run, kept: dict[str, Any]) -> str:
    """Where a run differs from what is kept, in words; empty where it does not."""
    name = run.manifest.system
    if name not in kept["numbers"]:
        return f"{name} has no kept numbers: python tests/conformance/golden.py --write"
    ours, theirs = flat(numbers(run)), flat(kept["numbers"][name])
    if ours.keys() != theirs.keys():
        return f"{name}: only on one side: {', '.join(sorted(ours.keys() ^ theirs.keys()))}"
    for each, value in ours.items():
        if not np.allclose(value, theirs[each], rtol=TOLERANCE, atol=1e-6):
            return f"{name}: {each} is {value}, kept is {theirs[each]}"
    expected = kept["digests"].get(machine(), {}).get(name)
    if expected not in (None, digest(run)):
        return f"{name}: some bits differ, by less than {TOLERANCE:g} of any number"
    return ""


def flat(found: dict[str, Any]) -> dict[str, Any]:
    return {f"{kind} {name}": value for kind, named in found.items() for name, value in named.items()}


def main(words: list[str]) -> None:
    torch.set_num_threads(1)
    kept = read() if KEPT.exists() else {"numbers": {}, "digests": {}}
    made: dict[str, Any] = {"numbers": {}, "digests": {}}
    differences = []
    for name in SYSTEMS.names():
        with tempfile.TemporaryDirectory() as folder:
            run = trained(name, Path(folder) / "run")
            made["numbers"][name], made["digests"][name] = numbers(run), digest(run)
            differences.append(difference(run, kept))
        print(differences[-1] or f"{name}: as kept")
    if words == ["--write"]:
        # Bits on other processors are known as long as nothing changed.
        others = {} if any(differences) else kept["digests"]
        result = {"numbers": made["numbers"], "digests": {**others, machine(): made["digests"]}}
        KEPT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    elif any(differences):
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
