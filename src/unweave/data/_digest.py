"""What tells one data set from another: its size, some of its observations, its factors.

A run keeps it, and knows its data again by it. It costs what reading a few hundred rows costs, however many there are:
a memory-mapped or rendered data set of millions is not read through.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from unweave.data._dataset import DataSet

VALUES = 2**22
"""Values that are read, about: all observations of a small data set, evenly spaced ones of a large one."""
LEAST, MOST = 64, 4096
"""Rows that are read, at least and at most."""
_CHUNK = 256
_DROPPED = 12  # of the 23 bits of a float32's fraction: those in which two processors may differ


def digest(dataset: DataSet) -> dict[str, Any]:
    """Size, hash of observations and hash of each factor, as plain JSON.

    `observations` is empty where reading the same rows twice gives different ones, by which nothing is known again.
    """
    factors = {} if dataset.factors is None else {name: _of_factor(dataset, name) for name in dataset.factors.names}
    return {"size": len(dataset), "observations": _of_observations(dataset), "factors": factors}


def data_difference(dataset: DataSet, kept: dict[str, Any]) -> str:
    """How the data differ from those of a digest, in words; empty where they do not."""
    if not kept:
        return ""
    if len(dataset) != kept["size"]:
        return f"it has {len(dataset)} observations instead of {kept['size']}"
    if kept["observations"] and _of_observations(dataset) != kept["observations"]:
        return "it has as many observations, but other ones"
    return ""


def factor_difference(dataset: DataSet, kept: dict[str, Any], names: tuple[str, ...]) -> str:
    """The same of the factors of these names."""
    for name in names:
        if not kept or name not in kept["factors"]:
            continue
        if dataset.factors is None or name not in dataset.factors.names:
            return f"it has no factor {name!r}"
        if _of_factor(dataset, name) != kept["factors"][name]:
            return f"it has other values of factor {name!r}"
    return ""


def _sampled(dataset: DataSet) -> np.ndarray:
    """Row numbers, the first and the last among them; all of few."""
    count = int(np.clip(VALUES // max(1, int(np.prod(dataset.spec.shape))), LEAST, MOST))
    return np.unique(np.linspace(0, len(dataset) - 1, min(count, len(dataset))).round().astype(np.int64))


def _of_observations(dataset: DataSet) -> str:
    rows = _sampled(dataset)
    found = hashlib.blake2b(f"{dataset.spec.values} {dataset.spec.shape}".encode(), digest_size=16)
    for start in range(0, len(rows), _CHUNK):
        read = _rounded(dataset.observations(rows[start : start + _CHUNK]))
        if start == 0 and read != _rounded(dataset.observations(rows[:_CHUNK])):
            return ""
        found.update(read)
    return found.hexdigest()


def _rounded(observations: np.ndarray) -> bytes:
    """float32 values to 12 significant bits: a last bit that another processor computes otherwise does not count."""
    bits = (np.ascontiguousarray(observations, dtype="<f4") + np.float32(0)).view("<u4")  # + 0: of -0 as well
    return ((bits + np.uint32(1 << (_DROPPED - 1))) >> np.uint32(_DROPPED)).tobytes()


def _of_factor(dataset: DataSet, name: str) -> str:
    """Of all values; what they are called belongs to them."""
    assert dataset.factors is not None
    labels = dataset.factors.labels[dataset.factors.position(name)]
    found = hashlib.blake2b(repr(labels).encode(), digest_size=16)
    found.update(np.ascontiguousarray(dataset.factors.column(name), dtype="<f8").tobytes())
    return found.hexdigest()
