"""Data sets: observations with factors where they are known. `load("dsprites")`, or `load` with a path of your own."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unweave.data._arrays import from_arrays as from_arrays
    from unweave.data._check import check_observations as check_observations
    from unweave.data._check import check_values as check_values
    from unweave.data._dataset import DATA as DATA
    from unweave.data._dataset import DataSet as DataSet
    from unweave.data._dataset import DataSource as DataSource
    from unweave.data._dataset import row_numbers as row_numbers
    from unweave.data._digest import data_difference as data_difference
    from unweave.data._digest import digest as digest
    from unweave.data._digest import factor_difference as factor_difference
    from unweave.data._given import Given as Given
    from unweave.data._morphology import SHAPE_MEASURES as SHAPE_MEASURES
    from unweave.data._morphology import measure_shape as measure_shape
    from unweave.data._picture import check_takes_pictures as check_takes_pictures
    from unweave.data._picture import observed as observed
    from unweave.data._split import Split as Split
    from unweave.data._split import hold_out_combinations as hold_out_combinations
    from unweave.data._split import split as split
    from unweave.data._table import read_factors as read_factors
    from unweave.data._table import read_groups as read_groups

_PLACES = {
    "Given": "_given",
    "check_observations": "_check",
    "check_takes_pictures": "_picture",
    "check_values": "_check",
    "data_difference": "_digest",
    "digest": "_digest",
    "factor_difference": "_digest",
    "observed": "_picture",
    "row_numbers": "_dataset",
    "read_groups": "_table",
    "SHAPE_MEASURES": "_morphology",
    "measure_shape": "_morphology",
    "DATA": "_dataset",
    "DataSet": "_dataset",
    "DataSource": "_dataset",
    "Split": "_split",
    "from_arrays": "_arrays",
    "hold_out_combinations": "_split",
    "read_factors": "_table",
    "split": "_split",
}

__all__ = ["load", "source", *_PLACES]


def load(name_or_path: str | Path, **settings: Any) -> DataSet:
    """The data set of this name, or the one at this path: a folder of images, a `.npy` or a `.npz` file."""
    return source(name_or_path, **settings).load()


def source(name_or_path: str | Path, **settings: Any) -> DataSource:
    """As `load`, without loading: the typed settings, whose `load()` gives the data set.

    A name wins over a path; write ./mnist for a folder that has the name of a data set. Settings may be text, as on the
    command line: size="32".
    """
    from unweave.base.errors import ArgumentError, DataError, UnknownNameError, unknown_name
    from unweave.data._dataset import DATA

    if not isinstance(name_or_path, (str, os.PathLike)):
        raise ArgumentError(
            f"data are of type {type(name_or_path).__name__}: give a name, a path, or unweave.data.from_arrays(...) of "
            "what is in memory"
        )
    text = os.fspath(name_or_path)
    if not text.strip():
        raise DataError("data is an empty text: give a name or a path, or write . for this folder")
    if isinstance(name_or_path, str) and text in DATA:
        return _settle(DATA[text], settings)
    path = Path(text).expanduser()
    if path.is_dir():
        return _settle(DATA["folder"], {**settings, "path": path})
    if path.suffix.lower() in (".npy", ".npz"):
        return _settle(DATA["array"], {**settings, "path": path})
    if path.is_file():
        raise DataError(f"{text} is neither a folder of images nor a .npy or .npz file: convert it to one of these")
    if isinstance(name_or_path, Path) or os.sep in text or "/" in text:
        raise DataError(f"there is no file or folder {text}: check the path")
    hint = "or give the path of a folder of images, a .npy or a .npz file"
    raise UnknownNameError(f"{unknown_name('data set', text, DATA.names())}; {hint}")


def _settle(cls: type[DataSource], settings: dict[str, Any]) -> DataSource:
    """What cannot be left out first, then the rest as changes, which reads text as the type of its field."""
    needed = {key: settings[key] for key, field in cls.model_fields.items() if field.is_required() and key in settings}
    return cls(**needed).override({key: value for key, value in settings.items() if key not in needed})


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
