"""Codes in files: an .npz with every block as an array, or a .csv with a column for each number."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unweave.base.errors import RunError, ShapeError, nearest
from unweave.base.files import replacing, write_text
from unweave.core.block import Block
from unweave.core.codes import Codes

NAME = "file"
"""The column of a .csv with the names of rows."""
SUFFIXES = (".npz", ".csv", ".npy")


def write_codes(path: Path, codes: Codes, **about: Any) -> Path:
    """Write codes; about: further arrays beside them, in an .npz only.

    .npz: value/BLOCK (N, *shape), spread/BLOCK where a block has them, names (N,) of rows where they have some
    .csv: the column `file` where rows have names, then the columns of `codes.flat()`
    .npy: the matrix of `codes.flat()` alone
    """
    check_suffix(path)
    suffix = path.suffix.lower()
    if suffix == ".csv":
        write_text(path, _as_csv(codes))
        return path
    with replacing(path) as temporary, temporary.open("wb") as file:
        if suffix == ".npy":
            np.save(file, codes.flat()[0])
        else:
            arrays: dict[str, Any] = {**about, **_as_arrays(codes)}
            np.savez_compressed(file, **arrays)
    return path


def check_suffix(path: Path) -> None:
    """Raise RunError unless codes can be written to a file of this name."""
    if path.suffix.lower() not in SUFFIXES or path.is_dir():
        raise RunError(f"cannot write codes to {path}: name a file that ends in {', '.join(SUFFIXES)}")


def read_codes(path: Path, blocks: Sequence[Block]) -> Codes:
    """Codes of these blocks from a file that `write_codes` wrote, also after it was edited."""
    if not path.is_file():
        raise RunError(f"there is no file {path}: check the path, or make one with `unweave encode`")
    if path.suffix.lower() == ".csv":
        return _from_csv(path, blocks)
    if path.suffix.lower() not in SUFFIXES:
        raise RunError(f"{path} is no file of codes: expected one that ends in {', '.join(SUFFIXES)}")
    try:
        arrays = load_arrays(path)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise RunError(f"the codes at {path} are damaged ({error}): write them again with `unweave encode`") from None
    if isinstance(arrays, np.ndarray):
        try:
            return Codes.from_flat(blocks, arrays)
        except ShapeError as error:
            raise ShapeError(f"the codes at {path} are none of this run: {error}") from None
    known = {block.name for block in blocks}
    missing = [block.name for block in blocks if f"value/{block.name}" not in arrays]
    other = [name for name in arrays if name.startswith("value/") and name.removeprefix("value/") not in known]
    if missing or other:
        has = ", ".join(name.removeprefix("value/") for name in arrays if name.startswith("value/")) or "no codes"
        raise RunError(f"{path} has {has}: expected codes of {', '.join(sorted(known))}; they are of another run")
    return from_arrays(arrays, blocks)


def load_arrays(path: Path, *names: str) -> Any:
    """The named arrays of an .npz, all when none is named; the array of an .npy."""
    with path.open("rb") as file:  # NumPy does not close what it cannot read
        found = np.load(file, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        return {name: found[name] for name in names or found.files}


def from_arrays(arrays: Mapping[str, np.ndarray], blocks: Sequence[Block]) -> Codes:
    values = {name.removeprefix("value/"): value for name, value in arrays.items() if name.startswith("value/")}
    spreads = {name.removeprefix("spread/"): value for name, value in arrays.items() if name.startswith("spread/")}
    names = [str(name) for name in arrays["names"]] if "names" in arrays else None
    return Codes(blocks, values, spreads, names)


def _as_arrays(codes: Codes) -> dict[str, np.ndarray]:
    arrays = {f"value/{block.name}": codes[block.name] for block in codes.blocks}
    for block in codes.blocks:
        spread = codes.spread(block.name)
        if spread is not None:
            arrays[f"spread/{block.name}"] = spread
    return arrays if codes.names is None else {**arrays, "names": np.array(codes.names)}


def _as_csv(codes: Codes) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    matrix, columns = codes.flat()
    writer.writerow([*([NAME] if codes.names is not None else []), *columns])
    for number, row in enumerate(matrix):
        name = [] if codes.names is None else [codes.names[number]]
        writer.writerow([*name, *map(str, row)])  # as many digits as the number has
    return text.getvalue()


def _from_csv(path: Path, blocks: Sequence[Block]) -> Codes:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [line for line in csv.reader(file, strict=True) if line]
    except (OSError, ValueError, csv.Error) as error:
        raise RunError(f"the codes at {path} cannot be read ({error}): save them as CSV in UTF-8") from None
    wanted = [column for block in blocks for column in block.columns]
    header = [name.strip() for name in lines[0]] if lines else []
    for name in wanted:
        if name not in header:
            raise RunError(f"{path} has no column {name!r}: expected {NAME} (or none) and {', '.join(wanted)}")
    for name in header:
        if name not in (NAME, *wanted) or header.count(name) > 1:
            close = nearest(name, wanted)
            hint = f", did you mean {close[0]!r}?" if close and close[0] != name else ""
            raise RunError(f"{path} has the column {name!r}, which is no number of these codes or there twice{hint}")
    if len(lines) < 2:
        raise RunError(f"{path} has no rows: expected a line for each code below the names of the columns")
    matrix = np.empty((len(lines) - 1, len(wanted)))
    places = [header.index(name) for name in wanted]
    for number, line in enumerate(lines[1:]):
        if len(line) != len(header):
            raise RunError(f"row {number + 1} of {path} has {len(line)} cells and the header {len(header)}: mend it")
        for column, place in enumerate(places):
            try:
                matrix[number, column] = float(line[place])
            except ValueError:
                raise RunError(
                    f"row {number + 1} of {path} has {line[place]!r} in column {wanted[column]!r}: expected a number"
                ) from None
    codes = Codes.from_flat(blocks, matrix.astype(np.float32))
    return codes.named([line[header.index(NAME)] for line in lines[1:]]) if NAME in header else codes
