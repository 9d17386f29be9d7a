"""What was measured, as one JSON file: where it lies, how new claims join old ones, and the list of all.

Committed evidence is docs/evidence/NAME/evidence.json (quick) and docs/evidence/NAME/paper/evidence.json; a copy of
each comes with the package, so that `unweave reproduce --list` works without the docs.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unweave.base.errors import UnweaveError
from unweave.base.files import write_json
from unweave.studies.reproductions import _table
from unweave.studies.reproductions._reproduction import REPRODUCTIONS, SCALES, Claim, Reproduction

FORMAT = 1
PACKAGED = Path(__file__).parent / "evidence"


def default_folder(name: str, data: str | None = None) -> Path:
    """Where the runs go; those on other data apart."""
    return Path("runs") / "reproduce" / _label(name, data)


def default_out(name: str, scale: str, data: str | None = None) -> Path:
    """docs/evidence/NAME in a checkout, else reproductions/NAME; results on other data never among the evidence."""
    home = None if data else _evidence_of(Path())
    return (home or Path("reproductions")) / _place(_label(name, data), scale)


def _label(name: str, data: str | None) -> str:
    return f"{name}-on-{Path(data).stem}" if data else name


def _evidence_of(root: Path) -> Path | None:
    """docs/evidence of a checkout of this project."""
    found = root / "docs" / "evidence"
    return found if found.is_dir() and (root / "src" / "unweave").is_dir() else None


def _place(name: str, scale: str) -> Path:
    return Path(name) if scale == "quick" else Path(name) / scale


def claim_record(claim: Claim, values: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> dict[str, Any]:
    """One claim with every seed's value.

    values: seed, value, seconds, commit, date and whether it was reused, of each measurement
    seeds:  the seeds that were really run
    """
    numbers = [value["value"] for value in values]
    return {
        "name": claim.name,
        "words": claim.words,
        "paper": claim.paper,
        "unit": claim.unit,
        "criterion": claim.holds.words,
        "holds": bool(claim.holds.test(numbers)),
        "mean": statistics.fmean(numbers),
        "sd": statistics.stdev(numbers) if len(numbers) > 1 else None,
        "per_seed": claim.per_seed,
        "seeds": list(seeds),
        "values": [dict(value) for value in values],
    }


def merged(new: dict[str, Any], old: Mapping[str, Any] | None, reproduction: Reproduction) -> dict[str, Any]:
    """The new evidence with those claims, figures and runs of the old that were not made now."""
    result = dict(new)
    for part, order in (
        ("claims", [claim.name for claim in reproduction.claims]),
        ("figures", [figure.name for figure in reproduction.figures]),
        ("runs", None),
    ):
        both = {entry["name"]: entry for entry in (*(old or {}).get(part, ()), *new[part])}
        result[part] = [both[name] for name in (both if order is None else order) if name in both]
    result["seeds"] = sorted({seed for claim in result["claims"] for seed in claim["seeds"]})
    result["seconds"] = {
        "command": new["seconds"]["command"],
        "training": round(sum(run["seconds"] for run in result["runs"]), 1),
        "measuring": round(sum(value["seconds"] for claim in result["claims"] for value in claim["values"]), 1),
    }
    return result


def read_evidence(path: Path) -> dict[str, Any] | None:
    """The evidence at a path, None when there is no file."""
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        _ = [(claim["name"], claim["seeds"], claim["values"]) for claim in found["claims"]]
        number = int(found["format"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnweaveError(f"{path} is damaged ({error}): restore it, or remove it and measure again") from None
    if number > FORMAT:
        raise UnweaveError(f"{path} was made by a newer version (format {number}): update unweave")
    return dict(found)


def to_merge_with(path: Path, scale: str, substitute: Mapping[str, str]) -> dict[str, Any] | None:
    """The evidence that single claims are to join; it must be of the same scale and data."""
    found = read_evidence(path)
    if found is not None and (found["scale"], found["substitute"]) != (scale, dict(substitute)):
        on = ", ".join(f"{other} for {name}" for name, other in found["substitute"].items())
        raise UnweaveError(
            f"{path} holds evidence at scale {found['scale']}{f' with {on}' if on else ''}, which other claims cannot "
            "join: choose another --out, or leave out --only to replace it"
        )
    return found


def write_evidence(out: Path, evidence: dict[str, Any]) -> None:
    """Write evidence.json and, when it goes among a checkout's own evidence, the package's copy of it."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "evidence.json", evidence)
    home, place = _evidence_of(PACKAGED.parents[4]), _place(evidence["reproduction"], evidence["scale"])
    if home is not None and out.resolve() == (home / place).resolve():
        write_json(_copy(evidence["reproduction"], evidence["scale"]), evidence)


def _copy(name: str, scale: str) -> Path:
    return PACKAGED / f"{name}.json" if scale == "quick" else PACKAGED / f"{name}-{scale}.json"


def committed(name: str, scale: str) -> dict[str, Any] | None:
    """The last committed evidence: of the checkout one is in, of the one the package is in, or the packaged copy."""
    homes = (_evidence_of(Path()), _evidence_of(PACKAGED.parents[4]))
    for path in (*(home / _place(name, scale) / "evidence.json" for home in homes if home), _copy(name, scale)):
        found = read_evidence(path)
        if found is not None:
            return found
    return None


def list_of_claims(name: str | None = None) -> str:
    """All claims of one or of all reproductions with their last committed result."""
    parts = []
    for reproduction in REPRODUCTIONS if name is None else (REPRODUCTIONS[name],):
        found = {scale: committed(reproduction.name, scale) for scale in SCALES}
        rows = []
        for claim in reproduction.claims:
            told = [(scale, _record_of(found[scale], claim.name)) for scale in SCALES]
            known = [(scale, record) for scale, record in told if record is not None]
            if not known:
                rows.append((f"{claim.name}: {claim.words}", claim.paper, "not measured yet", "", ""))
            for scale, record in known:
                rows.append((f"{claim.name}: {claim.words}", claim.paper, _table.ours(record), *_when(scale, record)))
        head = ("claim", "paper", "last result", "measured", "")
        parts.append(f"{reproduction.name}: {reproduction.summary}\n\n{_table.table(head, rows, _table.SHARES)}")
    return "\n\n\n".join(parts) or "there are no reproductions yet"


def _record_of(evidence: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    return next((dict(claim) for claim in (evidence or {}).get("claims", ()) if claim["name"] == name), None)


def _when(scale: str, record: Mapping[str, Any]) -> tuple[str, str]:
    """Scale, date and commit of a record, and its verdict."""
    last = max(record["values"], key=lambda value: value["date"])
    return f"{scale}, {last['date']}, commit {last['commit']}", _table.verdict(record)
