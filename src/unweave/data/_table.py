"""Ground-truth factors from a table (CSV or Parquet) or from plain columns.

How a column is read: text is discrete, with its distinct values as labels; whole numbers with at most 100 distinct
values are discrete; other numbers are continuous; an empty cell, NA, N/A, NaN or null is a missing value. A column that
never varies explains nothing and is left out. What was decided is told in notes.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unweave.base.errors import DataError, MissingExtraError, unknown_name
from unweave.core.factors import FactorKind, Factors

MOST_DISCRETE = 100
LEFT_OUT = "constant, left out because it explains nothing"
MISSING = frozenset({"", "na", "n/a", "nan", "null"})

Columns = Mapping[str, np.ndarray]


def read_factors(path: str | Path, rows: int, names: Sequence[str] | None = None) -> Factors:
    """The factors in a table with one row per observation, in the same order.

    path:  a CSV file with a header, or a Parquet file
    rows:  how many observations there are
    names: which columns to take; all of them when None
    """
    factors, notes = read_table(path, rows, names)
    for note in notes:
        if note.endswith(LEFT_OUT):
            warnings.warn(note, stacklevel=2)
    return factors


def read_table(
    path: str | Path,
    rows: int,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, FactorKind] | None = None,
    files: Sequence[str] | None = None,
) -> tuple[Factors, tuple[str, ...]]:
    """As `read_factors`, with what was decided as notes.

    kinds: "discrete" or "continuous" for columns that should not be judged by their values
    files: names of the observations' files; a column `file` is matched with them when the table has one
    """
    path = Path(path)
    columns = _read_columns(path)
    notes: tuple[str, ...] = ()
    if files is not None and "file" in columns:
        columns, notes = _match_files(path, columns, files)
    length = len(next(iter(columns.values()))) if columns else 0
    if columns and length != rows:
        raise DataError(
            f"factor table {path} has {length} rows and the data {rows} observations: "
            "give one row per observation, in the same order"
        )
    factors, more = factors_from_columns(columns, f"factor table {path}", names, kinds)
    return factors, notes + more


def read_groups(path: str | Path, group: str | None = None) -> np.ndarray | dict[str, str]:
    """Groups in a column of a table: in the order of the rows, or by file name beside a column `file`.

    group: the column's name; a column by itself may have any
    """
    columns = dict(_read_columns(Path(path)))
    files = columns.pop("file", None)
    if len(columns) != 1 and group not in columns:
        named = "" if group is None else f", or one named {group!r}"
        has = ", ".join(columns) or "none"
        raise DataError(f"table {path} has the columns {has}: expected one, with the groups{named}")
    name = group if group is not None and group in columns else next(iter(columns))
    cells = columns[name]
    missing = [row for row, cell in enumerate(cells) if str(cell).strip().lower() in MISSING or cell is None]
    if missing:
        raise DataError(f"row {missing[0]} of table {path} has no {name!r}: give each row its group")
    groups = np.array([str(cell) for cell in cells])
    return groups if files is None else dict(zip(map(str, files), groups.tolist(), strict=True))


def factors_from_columns(
    columns: Columns,
    where: str,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, FactorKind] | None = None,
) -> tuple[Factors, tuple[str, ...]]:
    """Factors and notes from named columns of N cells: numbers (NaN where missing) or text (None where missing)."""
    wanted = list(columns) if names is None else list(names)
    for name in (*wanted, *(kinds or {})):
        if name not in columns:
            raise unknown_name(f"column of {where}", name, columns)
    found: list[tuple[str, np.ndarray, FactorKind, tuple[str, ...] | None]] = []
    notes: list[str] = []
    for name in wanted:
        values, kind, labels, more = _judge(name, np.asarray(columns[name]), (kinds or {}).get(name), where)
        present = values[~np.isnan(values)]
        if (present == present[0]).all():
            if names is not None:
                raise DataError(
                    f"column {name!r} of {where} has one value only: it explains nothing; do not ask for it"
                )
            notes.append(f"factor {name}: {LEFT_OUT}")
            continue
        if missing := len(values) - len(present):
            more.append(f"factor {name}: {missing} of {len(values)} values missing")
        notes.extend(more)
        found.append((name, values, kind, labels))
    if not found:
        raise DataError(f"{where} has no column that varies: factors must take at least two values")
    factors = Factors(
        tuple(name for name, *_ in found),
        np.stack([values for _, values, _, _ in found], axis=1),
        tuple(kind for _, _, kind, _ in found),
        tuple(labels for *_, labels in found),
    )
    return factors, tuple(notes)


def _judge(
    name: str, cells: np.ndarray, kind: FactorKind | None, where: str
) -> tuple[np.ndarray, FactorKind, tuple[str, ...] | None, list[str]]:
    """(N,) values, kind, labels and notes of one column."""
    if cells.dtype.kind in "OUS":
        numbers = _as_numbers(cells)
        if numbers is None:
            return _from_text(name, cells, kind, where)
        cells = numbers
    if cells.dtype.kind not in "buif":
        raise DataError(f"column {name!r} of {where} has type {cells.dtype}: factors are numbers or text")
    values = cells.astype(np.float64)
    if np.isinf(values).any():
        row = int(np.isinf(values).argmax())
        raise DataError(
            f"column {name!r} of {where} is infinite in row {row}: leave the cell empty for a missing value"
        )
    codes = np.unique(values[~np.isnan(values)])
    if not len(codes):
        raise DataError(f"column {name!r} of {where} has no values at all: remove the column")
    whole = bool((codes == np.floor(codes)).all())
    if kind == "continuous" or (kind is None and not (whole and len(codes) <= MOST_DISCRETE)):
        many = whole and kind is None
        notes = [f"factor {name}: {len(codes)} distinct whole numbers, taken as continuous"] if many else []
        return values, "continuous", None, notes
    if whole and codes[0] == 0 and codes[-1] == len(codes) - 1:
        return values, "discrete", None, []
    labels = tuple(f"{code:.15g}" for code in codes)
    renumbered = np.where(np.isnan(values), np.nan, np.searchsorted(codes, values))
    note = f"factor {name}: values {labels[0]} to {labels[-1]} numbered 0 to {len(codes) - 1}; labels keep the values"
    return renumbered, "discrete", labels, [note]


def _from_text(
    name: str, cells: np.ndarray, kind: FactorKind | None, where: str
) -> tuple[np.ndarray, FactorKind, tuple[str, ...] | None, list[str]]:
    if kind == "continuous":
        text = next(cell for cell in cells if not _is_missing(cell) and _number(str(cell)) is None)
        raise DataError(f"column {name!r} of {where} holds the text {str(text)!r}: a continuous factor needs numbers")
    texts = [None if _is_missing(cell) else str(cell).strip() for cell in cells]
    labels = tuple(sorted({text for text in texts if text is not None}))
    number = {label: float(code) for code, label in enumerate(labels)}
    values = np.array([np.nan if text is None else number[text] for text in texts])
    notes = []
    if len(labels) > MOST_DISCRETE:
        notes.append(f"factor {name}: {len(labels)} distinct texts, is it a name or a number of the observation?")
    return values, "discrete", labels, notes


def _as_numbers(cells: np.ndarray) -> np.ndarray | None:
    """(N,) floats when every cell that is not missing is a number, else None."""
    numbers = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        if _is_missing(cell):
            continue
        number = _number(cell)
        if number is None:
            return None
        numbers[row] = number
    return numbers


def _number(cell: Any) -> float | None:
    # Python reads "1_000" as a number; a table means text by it. True and False are names here.
    if isinstance(cell, (bool, np.bool_)) or (isinstance(cell, str) and "_" in cell):
        return None
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and np.isnan(cell)) or str(cell).strip().lower() in MISSING


def _match_files(path: Path, columns: Columns, files: Sequence[str]) -> tuple[Columns, tuple[str, ...]]:
    """The table's rows in the order of `files`, found by the column `file`."""
    row_of: dict[str, int] = {}
    for row, cell in enumerate(columns["file"]):
        file = str(cell).strip().replace("\\", "/").removeprefix("./")
        if file in row_of:
            raise DataError(f"factor table {path} has two rows for the file {file!r}: keep one")
        row_of[file] = row
    for file in files:
        if file not in row_of:
            raise DataError(
                f"factor table {path} has no row for the file {file!r}: add one (its cells may be empty); "
                "files are named by their path within the folder"
            )
    order = [row_of[file] for file in files]
    matched = {name: cells[order] for name, cells in columns.items() if name != "file"}
    if not matched:
        raise DataError(f"factor table {path} has no column but 'file': add a column for each factor")
    unused = len(row_of) - len(order)
    return matched, (f"{unused} rows of the factor table have no image",) if unused else ()


def _read_columns(path: Path) -> Columns:
    if not path.is_file():
        raise DataError(f"factor table {path} does not exist or is not a file: check the path")
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return _read_csv(path)
    if suffix in (".parquet", ".pq"):
        return _read_parquet(path)
    raise DataError(f"factor table {path} has the ending {suffix!r}: expected .csv or .parquet")


def _read_csv(path: Path) -> Columns:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            lines = list(csv.reader(stream, strict=True))
    except UnicodeDecodeError as error:
        raise DataError(f"factor table {path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from error
    except (OSError, csv.Error) as error:
        raise DataError(f"cannot read the factor table {path}: {error}") from error
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) < 2:
        raise DataError(
            f"factor table {path} is empty: expected a header with column names, then one row per observation"
        )
    header = [name.strip() for name in lines[0]]
    _check_header(path, header)
    for number, cells in enumerate(lines[1:], start=2):
        if len(cells) != len(header) and not (not cells and len(header) == 1):
            raise DataError(
                f"factor table {path}, row {number}: {len(cells)} cells, the header has {len(header)} names"
            )
    body = np.array([cells or [""] for cells in lines[1:]], dtype=object)
    return {name: body[:, column] for column, name in enumerate(header)}


def _check_header(path: Path, header: Sequence[str]) -> None:
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        raise DataError(f"factor table {path} does not separate its columns by commas: save it with commas")
    if all(_number(name) is not None for name in header):
        raise DataError(f"factor table {path} begins with numbers: its first line must be a header with column names")
    if "" in header:
        raise DataError(f"factor table {path} has a column without a name (column {header.index('') + 1}): name it")
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise DataError(f"factor table {path} has two columns named {twice[0]!r}: rename one")


def _read_parquet(path: Path) -> Columns:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(
            f"reading {path} needs pyarrow: pip install 'unweave[tables]', or save the table as CSV"
        ) from error
    try:
        _check_header(path, pyarrow.parquet.read_schema(path).names)  # reading two columns of one name would fail
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"factor table {path} is damaged or not Parquet: {reason}") from error
    if not table.num_rows:
        raise DataError(f"factor table {path} is empty: expected one row per observation")
    columns: dict[str, np.ndarray] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind):
            columns[name] = column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
        elif pyarrow.types.is_nested(kind) or pyarrow.types.is_temporal(kind) or pyarrow.types.is_binary(kind):
            raise DataError(f"column {name!r} of factor table {path} has type {kind}: factors are numbers or text")
        else:  # text, dictionary of text, bool, decimal
            columns[name] = np.array(column.to_pylist(), dtype=object)
    return columns
