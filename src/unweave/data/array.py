"""The user's own array in a `.npy` or `.npz` file, with factors where there are any."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, field_validator

from unweave.base.card import Card
from unweave.base.errors import DataError, unknown_name
from unweave.core.factors import FactorKind, Factors
from unweave.data._arrays import GivenValues, Layout, build, columns_of, naming_damage, rename
from unweave.data._dataset import DataSet, DataSource
from unweave.data._table import factors_from_columns, read_table


class Array(DataSource):
    """Observations in a `.npy` or `.npz` file."""

    name: ClassVar[str] = "array"
    card: ClassVar[Card] = Card(
        summary="your own images, clips or vectors in a .npy or .npz file", needs="path to the file; optional factors"
    )

    path: Path
    """The file. A `.npy` is memory-mapped: it may be larger than the memory."""
    key: str | None = None
    """Which array of an `.npz` holds the observations; needed when there are several."""
    factors: str | tuple[str, ...] | None = None
    """A CSV or Parquet table with one row per observation, or names of arrays in the `.npz`."""
    factor_names: tuple[str, ...] | None = None
    """Columns of the table to use; for an array of factors, the names of its columns."""
    factor_kinds: dict[str, FactorKind] = Field(default_factory=dict)
    """Kinds of factors that should not be judged by their values, for example {"age": "continuous"}."""
    layout: Layout = "auto"
    """Order of the axes: N observations, T steps, C channels, H height, W width, D dimensions."""
    values: GivenValues = "auto"
    """What the values are. auto: 0 and 1 only are binary, 0 to 1 unit, bytes 0 to 255 are divided by 255."""

    @field_validator("factor_names", mode="before")
    @classmethod
    def _listed(cls, names: Any) -> Any:
        return [name.strip() for name in names.split(",")] if isinstance(names, str) else names

    @field_validator("factors", mode="before")
    @classmethod
    def _keys(cls, factors: Any) -> Any:
        # A table's name ends in .csv or .parquet; "angle,size" from the command line are names of arrays.
        if not isinstance(factors, (str, Path)):
            return factors
        if Path(factors).suffix:
            return str(Path(factors).expanduser().absolute())
        return [key.strip() for key in str(factors).split(",")] if "," in str(factors) else factors

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        # A run must find its data again when it is resumed from another folder.
        return path.expanduser().absolute()

    def load(self) -> DataSet:
        observations, columns = _read_file(self.path, self.key, self.factors)
        factors: Factors | None = None
        notes: tuple[str, ...] = ()
        if columns is not None:
            where = f"the factors in {self.path}"
            factors, notes = factors_from_columns(rename(columns, self.factor_names), where, kinds=self.factor_kinds)
        elif isinstance(self.factors, str):
            rows = observations.shape[0] if observations.ndim else 0
            factors, notes = read_table(self.factors, rows, self.factor_names, self.factor_kinds)
        return build(observations, factors, self.values, self.layout, self.path.stem, f"array {self.path}", notes)


def _read_file(
    path: Path, key: str | None, factors: str | tuple[str, ...] | None
) -> tuple[np.ndarray, dict[str, np.ndarray] | None]:
    """The observations, and the factor columns when they are arrays of the same file."""
    if not path.is_file():
        raise DataError(f"array {path} does not exist or is not a file: check the path")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        if key is not None:
            raise DataError(f"array {path} is a .npy file with one array: leave out key={key!r}")
        if isinstance(factors, tuple):
            raise DataError(f"array {path} is a .npy file: factors must be one CSV or Parquet table")
        with naming_damage(path):
            return np.load(path, mmap_mode="r", allow_pickle=False), None
    if suffix != ".npz":
        raise DataError(f"array {path} has the ending {suffix!r}: expected .npy or .npz")
    with naming_damage(path), path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
        inside = _keys_of_factors(path, archive.files, factors)
        rest = [name for name in archive.files if name not in (inside or ())]
        if key is None and len(rest) != 1:
            raise DataError(f"array {path} holds {', '.join(rest) or 'no arrays'}: say which with key=")
        chosen = rest[0] if key is None else key
        if chosen not in archive.files:
            raise unknown_name(f"array of {path}", chosen, archive.files)
        observations = archive[chosen]
        if inside is None:
            return observations, None
        columns = {name: column for key in inside for name, column in columns_of(key, archive[key]).items()}
    for name, column in columns.items():
        if observations.ndim and len(column) != len(observations):
            raise DataError(
                f"factor {name!r} of {path} has {len(column)} rows and the data {len(observations)} observations: "
                "give one row per observation"
            )
    return observations, columns


def _keys_of_factors(path: Path, files: list[str], factors: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The arrays of the archive that hold factors; None when there are no factors or they are in a table."""
    if factors is None or (isinstance(factors, str) and factors not in files and Path(factors).suffix):
        return None
    keys = (factors,) if isinstance(factors, str) else factors
    for key in keys:
        if key not in files:
            raise unknown_name(f"array of {path}", key, files)
    return keys
