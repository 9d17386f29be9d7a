"""Arrays as a data set: the order of the axes and the meaning of the values are checked and told, never guessed."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from unweave.base.errors import DataError, unknown_name
from unweave.core.dataspec import DataSpec, Values
from unweave.core.factors import FactorKind, Factors
from unweave.data._check import Found, check_observations, check_values
from unweave.data._dataset import DataSet
from unweave.data._table import LEFT_OUT, factors_from_columns

Layout = Literal["auto", "NTCHW", "NTHWC", "NCHW", "NHWC", "NHW", "ND"]
GivenValues = Literal["auto", "binary", "unit", "levels", "real", "counts"]
GivenFactors = Factors | np.ndarray | Mapping[str, Any]


def from_arrays(
    observations: np.ndarray | Sequence[np.ndarray],
    factors: GivenFactors | None = None,
    names: Sequence[str] | None = None,
    kinds: Sequence[FactorKind] | Mapping[str, FactorKind] | None = None,
    values: Values | None = None,
    name: str = "array",
    layout: Layout = "auto",
) -> DataSet:
    """A data set of arrays in memory (or memory-mapped); the array is kept as it is and converted when read.

    observations: (N, D) vectors, (N, H, W) images, (N, C, H, W) or (N, H, W, C) images with channels,
                  (N, T, C, H, W) or (N, T, H, W, C) clips; or a sequence of N arrays of one shape
    factors:      (N,) or (N, K) numbers or text, NaN where missing; or a mapping from name to column; or Factors
    names:        names of the K columns; with a mapping, which columns to take
    kinds:        "discrete" or "continuous", one per column or by name; judged by the values when None
    values:       what the values are (see DataSpec); judged by the values when None
    layout:       order of the axes, needed when the shape can be read in two ways
    """
    if isinstance(observations, np.ma.MaskedArray):
        raise DataError(f"{name} is a masked array: fill in or remove what is masked, observations have no gaps")
    array = _stacked(observations, name)
    rows = array.shape[0] if array.ndim else 0
    if factors is None:
        if names is not None or kinds is not None:
            raise DataError("names and kinds describe factors, and none are given: give factors or leave them out")
        return build(array, None, values or "auto", layout, name, name)
    if isinstance(factors, Factors):
        if kinds is not None:
            raise DataError("factors of type Factors have kinds already: leave out kinds")
        varying, notes = without_constant(factors if names is None else factors.select(names))
        return build(array, varying, values or "auto", layout, name, name, notes)
    if isinstance(factors, Mapping):
        columns = {str(key): np.asarray(column) for key, column in factors.items()}
        chosen = names
    else:
        columns, chosen = rename(columns_of("factor", np.asarray(factors)), names), None
    if not (kinds is None or isinstance(kinds, Mapping)):
        if len(kinds) != len(columns):
            raise DataError(f"{len(kinds)} kinds for {len(columns)} factors: give one per column")
        kinds = dict(zip(columns, kinds, strict=True))
    for key, column in columns.items():
        if column.shape != (rows,):
            raise DataError(
                f"factor {key!r} has shape {column.shape} and {name} {rows} observations: give one value for each"
            )
    found, notes = factors_from_columns(columns, f"the factors of {name}", chosen, kinds)
    return build(array, found, values or "auto", layout, name, name, notes)


def _stacked(observations: np.ndarray | Sequence[np.ndarray], name: str) -> np.ndarray:
    """One array of what may be a sequence of arrays, which must agree in shape."""
    whole = isinstance(observations, np.ndarray) and (observations.dtype != object or observations.ndim != 1)
    if whole or not isinstance(observations, (np.ndarray, Sequence)):
        return np.asarray(observations)
    parts = [np.asarray(part) for part in observations]
    for row, part in enumerate(parts):
        first = parts[0].shape
        if part.shape == first:
            continue
        if part.ndim == len(first) == 4 and part.shape[1:] == first[1:]:
            raise DataError(f"clips have different lengths {first[0]} and {part.shape[0]}: cut them to one length")
        raise DataError(f"{name}: observation 0 has shape {first} and {row} {part.shape}: all need the same")
    return np.asarray(parts)


def build(
    array: np.ndarray,
    factors: Factors | None,
    values: str,
    layout: Layout,
    name: str,
    where: str,
    factor_notes: Sequence[str] = (),
) -> DataSet:
    """The data set of an array: checked, with notes of what was found; `where` names the array in errors."""
    found = check_observations(array, where)
    axes = _axes(array.shape, layout, where)
    reading = _reading(array, found, values, where)
    shape = axes.event_shape(array.shape)
    notes = (f"{array.dtype} values {found.range}: {reading.note}", axes.note, *factor_notes)
    return DataSet(
        name,
        DataSpec(shape, reading.values, len(array), reading.levels),
        _Read(array, axes, reading.divisor),
        factors,
        notes,
    )


@dataclass(frozen=True)
class _Read:
    """rows (n,) -> (n, *shape) float32, made from the array as it is kept."""

    array: np.ndarray
    axes: _Axes
    divisor: int

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        batch = np.asarray(self.array[rows], dtype=np.float32)  # indexing by numbers copies
        if self.divisor != 1:
            batch /= np.float32(self.divisor)
        return np.ascontiguousarray(self.axes.to_event(batch))


@dataclass(frozen=True)
class _Axes:
    """How the axes of the array become those of an observation."""

    layout: str
    note: str

    def event_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if self.layout.endswith("HWC"):
            *outer, height, width, channels = shape[1:]
            return *outer, channels, height, width
        return (1, *shape[1:]) if self.layout == "NHW" else tuple(shape[1:])

    def to_event(self, batch: np.ndarray) -> np.ndarray:
        if self.layout.endswith("HWC"):
            return np.moveaxis(batch, -1, -3)
        return batch[:, None] if self.layout == "NHW" else batch


_CHANNELS_FIRST_OR_LAST = {4: ("NCHW", "NHWC"), 5: ("NTCHW", "NTHWC")}  # by the number of axes


def _axes(shape: tuple[int, ...], layout: Layout, where: str) -> _Axes:
    if layout != "auto":
        if layout not in get_args(Layout):
            raise unknown_name("layout", layout, get_args(Layout))
        if len(layout) != len(shape):
            raise DataError(f"{where} has shape {shape}: layout {layout} needs {len(layout)} axes")
        if "C" in layout:
            both = _CHANNELS_FIRST_OR_LAST[len(shape)]
            other = both[1 - both.index(layout)]
            channels, others = (shape[order.index("C")] for order in (layout, other))
            if channels > 4 and others in (1, 3):
                raise DataError(
                    f"{where} has shape {shape}: layout {layout} reads {channels} channels; "
                    f"layout {other} reads {others}"
                )
        return _Axes(layout, f"axes of {shape} read as {layout}, as told")
    if len(shape) == 2:
        return _Axes("ND", f"axes of {shape} read as ND: vectors")
    if len(shape) == 3:
        return _Axes("NHW", f"axes of {shape} read as NHW: images of one channel")
    if len(shape) not in _CHANNELS_FIRST_OR_LAST:
        raise DataError(
            f"{where} has shape {shape}: expected (N, D) vectors, (N, H, W), (N, C, H, W) or (N, H, W, C) images, "
            "(N, T, C, H, W) or (N, T, H, W, C) clips"
        )
    first, last = _CHANNELS_FIRST_OR_LAST[len(shape)]
    possible = [layout for layout in (first, last) if shape[layout.index("C")] <= 4]
    if len(possible) != 1:
        how = f"both {first} and {last}" if possible else f"neither {first} nor {last} with 1 to 4 channels"
        raise DataError(f"{where} has shape {shape}, which fits {how}: say layout='{first}' or layout='{last}'")
    kind = ": clips" if len(shape) == 5 else ""
    return _Axes(possible[0], f"axes of {shape} read as {possible[0]}{kind}")


@dataclass(frozen=True)
class _Reading:
    values: Values
    divisor: int
    note: str
    levels: int | None = None


def _reading(array: np.ndarray, found: Found, values: str, where: str) -> _Reading:
    """What the values stand for, and whether bytes are divided by 255; nothing else is ever rescaled."""
    is_bytes = array.dtype == np.uint8
    zero_one = found.two and found.low == 0 and found.high <= 1
    if values in ("auto", "binary") and is_bytes and found.two and (found.low, found.high) == (0, 255):
        return _Reading("binary", 255, "only 0 and 255, divided by 255: binary")
    if is_bytes and (values == "unit" or (values == "auto" and not zero_one)):
        return _Reading("unit", 255, "pixels 0..255 divided by 255")
    if values == "auto":
        if zero_one or (found.two and found.low == found.high == 1):
            return _Reading("binary", 1, "only 0 and 1: binary")
        if array.dtype.kind == "f" and found.low >= 0 and found.high <= 1:
            return _Reading("unit", 1, "in 0..1, not rescaled")
        choices = "values='real', 'counts' or 'levels'" if found.whole else "values='real'"
        raise DataError(
            f"{where} has {array.dtype} values {found.range}, not 0 to 1 and not bytes: "
            f"rescale them to 0 to 1, or say {choices}"
        )
    if values not in get_args(Values):
        raise unknown_name("kind of values", values, ("auto", *get_args(Values)))
    kind: Values = values  # type: ignore[assignment]
    check_values(found, kind, array, where)
    if max(-found.low, found.high) > float(np.finfo(np.float32).max):
        raise DataError(f"{where} has values {found.range}, which 32-bit floats cannot hold: rescale the data")
    levels = None
    if kind in ("levels", "tokens"):
        levels = 256 if is_bytes else int(found.high) + 1
    return _Reading(kind, 1, f"taken as {kind}, not rescaled", levels)


def columns_of(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """(N,) as one column called `name`, (N, K) as K columns `name_0`, `name_1`, ..."""
    if array.ndim == 1:
        return {name: array}
    if array.ndim == 2 and array.shape[1]:
        return {f"{name}_{column}": array[:, column] for column in range(array.shape[1])}
    raise DataError(f"factors {name!r} have shape {array.shape}: expected (N,) or (N, K)")


def rename(columns: dict[str, np.ndarray], names: Sequence[str] | None) -> dict[str, np.ndarray]:
    if names is None:
        return columns
    if len(names) != len(columns) or len(set(names)) != len(names):
        raise DataError(f"{len(names)} factor names for {len(columns)} columns: give one name per column, each once")
    return dict(zip(names, columns.values(), strict=True))


def without_constant(factors: Factors) -> tuple[Factors, tuple[str, ...]]:
    """The factors that vary, and a note for each that does not."""
    constant = [name for name in factors.names if len(np.unique(_present(factors.column(name)))) < 2]
    if len(constant) == len(factors.names):
        raise DataError(f"no factor varies ({', '.join(constant)}): factors must take at least two values")
    kept = factors.select(name for name in factors.names if name not in constant) if constant else factors
    return kept, tuple(f"factor {name}: {LEFT_OUT}" for name in constant)


def _present(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)]


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """One line instead of the many ways in which reading a damaged NumPy file fails."""
    try:
        yield
    except (DataError, LookupError):
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        if "object arrays" in str(error).lower() or "python objects" in str(error).lower():
            raise DataError(f"{path} holds Python objects, which are never loaded: save plain numbers") from error
        raise DataError(f"{path} is damaged, truncated or not a NumPy file: copy or save it again") from error
