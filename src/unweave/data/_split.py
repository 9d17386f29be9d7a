"""Which rows are trained on, which are kept for tests, and which combinations of factors are held out altogether.

A split depends on the seed and the row numbers only: not on the machine, the number of processes or the version of a
random generator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field, field_validator, model_validator

from unweave.base.config import Config
from unweave.base.errors import DataError, unknown_name
from unweave.core.factors import Factors
from unweave.data._dataset import DataSet

_CONDITION = re.compile(
    r"""\s*(?P<factor>[^=!<>,;"]+?)\s*(?P<operator>==|!=|<=|>=|=|<|>)\s*"""
    r"""(?:"(?P<quoted>[^"]*)"|(?P<bare>[^=!<>,;"]+?))\s*(?P<mark>[,;]|$)"""
)


class Split(Config):
    """How the rows of a data set are divided: train, validation, and the rest for test; held-out combinations apart."""

    train: float = Field(default=0.9, gt=0, le=1)
    """Part of the rows that are trained on."""
    validation: float = Field(default=0.0, ge=0, lt=1)
    """Part of the rows to choose settings by. What train and validation leave is the test part."""
    seed: int = Field(default=0, ge=0)
    """Which of the possible divisions."""
    hold_out: str = ""
    """Combinations of factors kept out of all other parts, such as shape=heart,x>=16: rows that fulfil all of these.
    Several combinations are separated by semicolons (or given as a list): shape=heart,x>=16; shape=square,x<4."""
    by: str = ""
    """A discrete factor whose values are divided as wholes, such as subject: no person is in two parts. The sizes of
    the parts are then parts of the values."""

    @field_validator("hold_out", mode="before")
    @classmethod
    def _joined(cls, value: Any) -> Any:
        return "; ".join(value) if isinstance(value, (list, tuple)) else value

    @field_validator("hold_out")
    @classmethod
    def _readable(cls, value: str) -> str:
        if value.strip():
            parse_combinations(value)
        return value.strip()

    @model_validator(mode="after")
    def _at_most_all(self) -> Split:
        if self.train + self.validation > 1 + 1e-9:
            raise ValueError(f"train {self.train:g} and validation {self.validation:g} are more than the whole")
        return self

    def rows(self, dataset: DataSet) -> dict[str, np.ndarray]:
        """Sorted row numbers of "train" and, where they have any, of "validation", "test" and "held_out"."""
        held = np.zeros(len(dataset), dtype=bool)
        if self.hold_out:
            if dataset.factors is None:
                raise DataError(f"{dataset.name} has no factors: hold_out={self.hold_out!r} needs a factor table")
            held = hold_out_combinations(dataset.factors, self.hold_out)
        kept = np.flatnonzero(~held)
        if not len(kept):
            raise DataError(f"hold_out={self.hold_out!r} holds out every row of {dataset.name}: nothing is left")
        rest = max(0.0, 1 - self.train - self.validation)
        fractions = {"train": self.train, "validation": self.validation, "test": rest if rest > 1e-9 else 0.0}
        fractions = {name: part for name, part in fractions.items() if part > 0}
        if self.by:
            parts = split_values(dataset, self.by, kept, fractions, self.seed)
        else:
            parts = split(kept, fractions, self.seed)
        return {**parts, "held_out": np.flatnonzero(held)} if held.any() else parts


def split(
    rows: DataSet | int | np.ndarray, fractions: Mapping[str, float] | None = None, seed: int = 0
) -> dict[str, np.ndarray]:
    """Divide rows into named parts of the given sizes; each part is sorted.

    rows:      a data set, a number of rows, or the row numbers to divide
    fractions: part of the rows for each name, adding up to 1; {"train": 0.8, "test": 0.2} when None

    Every row has a fixed rank u(seed, row), a hash; parts are consecutive stretches of the rows in the order of their
    ranks. So a row keeps its place among the others when rows are added or removed.
    """
    fractions = {"train": 0.8, "test": 0.2} if fractions is None else dict(fractions)
    if any(part <= 0 for part in fractions.values()) or abs(sum(fractions.values()) - 1) > 1e-6:
        raise DataError(f"split fractions {fractions} must be positive and add up to 1")
    if isinstance(rows, (int, np.integer)):
        rows = np.arange(int(rows))
    numbers = np.arange(len(rows)) if isinstance(rows, DataSet) else np.asarray(rows, dtype=np.int64)
    order = numbers[np.argsort(_rank(numbers, seed), kind="stable")]
    # Rounding the running total keeps every part within one row of its share and uses each row once.
    ends = np.round(np.cumsum(list(fractions.values())) * len(numbers)).astype(int)
    parts = dict(zip(fractions, np.split(order, ends[:-1]), strict=True))
    for name, part in parts.items():
        if not len(part):
            raise DataError(
                f"{len(numbers)} rows are too few for a part {name!r} of {fractions[name]:g}: enlarge or omit it"
            )
    return {name: np.sort(part) for name, part in parts.items()}


def split_values(
    dataset: DataSet, by: str, rows: np.ndarray, fractions: Mapping[str, float], seed: int = 0
) -> dict[str, np.ndarray]:
    """Divide rows so that all rows with one value of the discrete factor `by` are in one part; each part is sorted.

    The values are divided as `split` divides rows: each has a fixed rank u(seed, value).
    """
    if dataset.factors is None:
        raise DataError(f"{dataset.name} has no factors: split by={by!r} needs a factor table")
    column = dataset.factors.column(by)[rows]
    if dataset.factors.kinds[dataset.factors.position(by)] != "discrete":
        raise DataError(f"factor {by!r} of {dataset.name} is continuous: split by= needs a discrete one, with groups")
    if np.isnan(column).any():
        count = int(np.isnan(column).sum())
        raise DataError(
            f"{count} rows of {dataset.name} have no value of {by!r}: fill them in, or split by another one"
        )
    values = np.unique(column).astype(np.int64)
    if len(values) < len(fractions):
        raise DataError(
            f"factor {by!r} of {dataset.name} has {len(values)} values, too few for the parts {', '.join(fractions)}: "
            "leave out a part, or split by rows"
        )
    try:
        parts = split(values, fractions, seed)
    except DataError as error:
        raise DataError(str(error).replace(" rows are", f" values of {by!r} are", 1)) from None
    return {name: rows[np.isin(column, part)] for name, part in parts.items()}


def hold_out_combinations(factors: Factors, conditions: str | Sequence[str]) -> np.ndarray:
    """(N,) bool: rows that fulfil all conditions of at least one combination.

    A condition is `factor operator value` with = != < <= > >=. Commas join conditions by "and", semicolons (or the
    items of a list) join combinations by "or": "shape=heart,x>=16; shape=square,x<4". A value is a label of the factor
    or a number; where labels are numbers, numbers mean labels, otherwise the factor's values. A label with a comma,
    semicolon or operator in it goes in double quotes. A missing value fulfils no condition. Numbers count as equal
    when they agree to six digits.
    """
    text = conditions if isinstance(conditions, str) else "; ".join(conditions)
    mask = np.zeros(len(factors), dtype=bool)
    for combination in parse_combinations(text):
        fulfilled = np.ones(len(factors), dtype=bool)
        for condition in combination:
            fulfilled &= condition.fulfilled(factors)
        if not fulfilled.any():
            told = ",".join(f"{part.factor}{part.operator}{part.value}" for part in combination)
            raise DataError(f"no row fulfils hold_out={told!r}: loosen a condition or leave it out")
        mask |= fulfilled
    return mask


@dataclass(frozen=True)
class Condition:
    """`factor operator value`, for example x >= 16."""

    factor: str
    operator: str
    value: str

    def fulfilled(self, factors: Factors) -> np.ndarray:
        """(N,) bool."""
        values, value = self._comparable(factors)
        with np.errstate(invalid="ignore"):
            equal = np.isclose(values, value, rtol=1e-6, atol=1e-12)
            result = {
                "=": equal,
                "!=": ~equal & ~np.isnan(values),
                "<": (values < value) & ~equal,
                "<=": (values <= value) | equal,
                ">": (values > value) & ~equal,
                ">=": (values >= value) | equal,
            }[self.operator]
        return np.asarray(result)

    def _comparable(self, factors: Factors) -> tuple[np.ndarray, float]:
        """The factor's (N,) values and the condition's value on one scale."""
        values, labels = factors.column(self.factor), factors.labels[factors.position(self.factor)]
        number = _number(self.value)
        if labels is None:
            if number is None:
                raise DataError(f"hold_out: factor {self.factor!r} holds numbers, {self.value!r} is none")
            return values, number
        named = [_number(label) for label in labels]
        if number is not None and None not in named:
            scale = np.array([*named, np.nan], dtype=np.float64)
            return scale[np.where(np.isnan(values), len(labels), values).astype(int)], number
        if self.value in labels:
            if self.operator not in ("=", "!="):
                raise DataError(f"hold_out: factor {self.factor!r} has names without an order: use = or !=")
            return values, float(labels.index(self.value))
        if number is None:
            raise unknown_name(f"value of factor {self.factor!r}", self.value, labels)
        return values, number


def parse_combinations(text: str) -> tuple[tuple[Condition, ...], ...]:
    """The combinations of a text such as "shape=heart,x>=16; shape=square": those between semicolons, of conditions."""
    found: list[list[Condition]] = [[]]
    position, mark = 0, ","
    while mark:
        match = _CONDITION.match(text, position)
        if match is None:
            raise DataError(
                f"cannot read the held-out combination {text!r} from {text[position:]!r} on: write conditions such as "
                "shape=heart,x>=16 with one of = != < <= > >= each"
            )
        operator = "=" if match["operator"] == "==" else match["operator"]
        value = match["bare"] if match["quoted"] is None else match["quoted"]
        if mark == ";":
            found.append([])
        found[-1].append(Condition(match["factor"], operator, value))
        position, mark = match.end(), match["mark"]
    return tuple(tuple(combination) for combination in found)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _rank(rows: np.ndarray, seed: int) -> np.ndarray:
    """A well-mixed 64-bit number for each (seed, row): the SplitMix64 finaliser, twice.

    Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.
    """

    def mix(value: np.ndarray) -> np.ndarray:
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(value ^ (value >> np.uint64(31)))

    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):  # wrapping around 2^64 is meant
        stream = mix(np.asarray([seed], dtype=np.uint64) + golden)
        return mix(mix(rows.astype(np.uint64) * golden + stream))
