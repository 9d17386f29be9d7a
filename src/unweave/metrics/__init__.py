"""Scores of representations: arrays (or `Codes` and `Factors`) in, `Score` out; no torch.

    from unweave.metrics import evaluate, mig
    mig(codes, factors)        # one score
    evaluate(codes, factors)   # all that apply

Every score is a file of this folder, found when it is first asked for. A score and its file often have the same name
(`mig` in `mig.py`); as an attribute of this package the name always is the score.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from unweave.core.score import Score
from unweave.metrics._metric import METRICS, Metric, metric

if TYPE_CHECKING:
    from unweave.metrics._evaluate import Evaluation, check_names, evaluate, warning_of
    from unweave.metrics._group_classifier import GroupClassification, classify_groups
    from unweave.metrics._importance import disentanglement_completeness
    from unweave.metrics._purity import CategoryPurity, category_purity
    from unweave.metrics._recognition import RECOGNITION, recognition
    from unweave.metrics._temporal import TemporalInformation, kraskov, temporal_correlation, temporal_information

__all__ = [
    "METRICS",
    "RECOGNITION",
    "CategoryPurity",
    "Evaluation",
    "GroupClassification",
    "Metric",
    "Score",
    "TemporalInformation",
    "category_purity",
    "check_names",
    "classify_groups",
    "disentanglement_completeness",
    "evaluate",
    "kraskov",
    "metric",
    "recognition",
    "temporal_correlation",
    "temporal_information",
    "warning_of",
]

_ELSEWHERE = {
    "Evaluation": "unweave.metrics._evaluate",
    "evaluate": "unweave.metrics._evaluate",
    "check_names": "unweave.metrics._evaluate",
    "warning_of": "unweave.metrics._evaluate",
    "CategoryPurity": "unweave.metrics._purity",
    "category_purity": "unweave.metrics._purity",
    "GroupClassification": "unweave.metrics._group_classifier",
    "classify_groups": "unweave.metrics._group_classifier",
    "disentanglement_completeness": "unweave.metrics._importance",
    "RECOGNITION": "unweave.metrics._recognition",
    "recognition": "unweave.metrics._recognition",
    "TemporalInformation": "unweave.metrics._temporal",
    "kraskov": "unweave.metrics._temporal",
    "temporal_correlation": "unweave.metrics._temporal",
    "temporal_information": "unweave.metrics._temporal",
}


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        import importlib

        return getattr(importlib.import_module(_ELSEWHERE[name]), name)
    if not name.startswith("_") and name in METRICS:
        return METRICS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *METRICS.names()})


class _Package(ModuleType):
    """Importing `unweave.metrics.mig` makes the import system set the module as attribute `mig` of this package; that
    would hide the score. Here the score is set in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and isinstance(getattr(value, name, None), Metric):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
