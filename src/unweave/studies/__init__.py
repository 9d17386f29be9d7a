"""Studies: pure functions from a name to a list of runs, and one runner that trains, scores and tabulates them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unweave.studies._runner import run_study as run_study
    from unweave.studies._study import STUDIES as STUDIES
    from unweave.studies.reproductions._evidence import default_out as default_out
    from unweave.studies.reproductions._evidence import list_of_claims as list_of_claims
    from unweave.studies.reproductions._runner import run_reproduction as run_reproduction
    from unweave.studies.reproductions._table import claims_table as claims_table

_PLACES = {
    "STUDIES": "_study",
    "claims_table": "reproductions._table",
    "default_out": "reproductions._evidence",
    "list_of_claims": "reproductions._evidence",
    "run_reproduction": "reproductions._runner",
    "run_study": "_runner",
}

__all__ = [*_PLACES]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
