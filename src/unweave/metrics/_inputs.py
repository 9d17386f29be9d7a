"""Checked inputs of every score: arrays, `Codes` or `Factors` in, clean arrays out, one clear line otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.base.errors import MetricError
from unweave.core.codes import Codes
from unweave.core.factors import FactorKind, Factors

# Whole-numbered columns with at most this many values count as discrete unless the caller says otherwise.
MOST_DISCRETE_VALUES = 100


@dataclass(frozen=True)
class Checked:
    """codes (N, D) float64 and finite; factors (N, K) float64 with NaN where missing; names and kinds of columns."""

    codes: np.ndarray
    code_names: tuple[str, ...]
    factors: np.ndarray
    names: tuple[str, ...]
    kinds: tuple[FactorKind, ...]

    @property
    def discrete(self) -> np.ndarray:
        """(K,) which factors are discrete."""
        return np.array([kind == "discrete" for kind in self.kinds], dtype=bool)


def check_codes(codes: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """(N, D) float64 matrix and D column names from an array or `Codes`."""
    if isinstance(codes, Codes):
        matrix, names = codes.flat()
    else:
        matrix = np.asarray(codes)
        if matrix.ndim == 1:
            matrix = matrix[:, None]
        if matrix.ndim != 2:
            raise MetricError(f"codes have shape {matrix.shape}: expected two axes (observations, dimensions)")
        names = tuple(f"z[{d}]" for d in range(matrix.shape[1]))
    if not np.issubdtype(matrix.dtype, np.number) and matrix.dtype != bool:
        raise MetricError(f"codes have type {matrix.dtype}: expected numbers")
    matrix = matrix.astype(np.float64)
    if matrix.size == 0:
        raise MetricError(f"codes have shape {matrix.shape}: there is nothing to score")
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise MetricError(f"codes are NaN or infinite at row {row}, column {names[column]}: score only finite codes")
    return matrix, tuple(names)


def as_variables(codes: Any) -> tuple[Any, tuple[str, ...] | None, np.ndarray | None]:
    """`Codes` with one column for each variable: a point on a simplex is one, the number of its likeliest category.

    Returns the matrix, the names, and (D,) which columns are categories; other codes as they are, and None twice.
    """
    if not isinstance(codes, Codes) or all(block.kind != "simplex" for block in codes.blocks):
        return codes, None, None
    columns, names, categories = [], [], []
    for block in codes.blocks:
        values = np.asarray(codes[block.name], dtype=np.float64)
        if block.kind == "simplex":
            values = values.argmax(axis=-1)
            positions = [",".join(map(str, place)) for place in np.ndindex(*block.shape[:-1])]
            names += [f"{block.name}[{place}]" if place else block.name for place in positions]
        else:
            names += block.columns
        columns.append(values.reshape(len(values), -1).astype(np.float64))
        categories += [block.kind == "simplex"] * columns[-1].shape[1]
    return np.concatenate(columns, axis=1), tuple(names), np.array(categories)


def check_factors(
    factors: Any, names: Sequence[str] | None = None, kinds: Sequence[FactorKind] | None = None
) -> Factors:
    """`Factors` from an (N, K) array, a mapping of columns, or `Factors`; kinds are inferred when not given."""
    if isinstance(factors, Factors):
        return factors
    if isinstance(factors, Mapping):
        names = tuple(factors) if names is None else tuple(names)
        matrix = np.stack([np.asarray(factors[name], dtype=np.float64) for name in names], axis=1)
    else:
        matrix = np.asarray(factors)
        if matrix.ndim == 1:
            matrix = matrix[:, None]
        if matrix.ndim != 2:
            raise MetricError(f"factors have shape {matrix.shape}: expected two axes (observations, factors)")
        try:
            matrix = matrix.astype(np.float64)
        except (TypeError, ValueError):
            raise MetricError(
                f"factors have type {matrix.dtype}: expected numbers; number the values of a named factor 0, 1, ..."
            ) from None
        names = tuple(f"factor[{k}]" for k in range(matrix.shape[1])) if names is None else tuple(names)
    if kinds is None:
        kinds = tuple(_infer_kind(matrix[:, k]) for k in range(matrix.shape[1]))
    return Factors(tuple(names), matrix, tuple(kinds))


def _infer_kind(column: np.ndarray) -> FactorKind:
    present = column[~np.isnan(column)]
    whole = bool(np.all(present == np.round(present)))
    return "discrete" if whole and len(np.unique(present)) <= MOST_DISCRETE_VALUES else "continuous"


def check(
    codes: Any,
    factors: Any,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | None = None,
) -> Checked:
    """Codes and factors of the same N observations, each factor with at least two values."""
    matrix, code_names = check_codes(codes)
    table = check_factors(factors, names, kinds)
    if len(table) != len(matrix):
        raise MetricError(
            f"codes have {len(matrix)} rows and factors {len(table)}: both need one row per observation, in one order"
        )
    if not table.names:
        raise MetricError("there are no factors: scores of codes alone are listed by `unweave metrics`")
    for k, name in enumerate(table.names):
        present = table.values[:, k][~np.isnan(table.values[:, k])]
        if len(present) == 0:
            raise MetricError(f"factor {name!r} has no value at all: leave it out")
        if len(np.unique(present)) < 2:
            raise MetricError(f"factor {name!r} is constant ({present[0]:g}): leave it out, it explains nothing")
    return Checked(matrix, code_names, table.values, table.names, table.kinds)
