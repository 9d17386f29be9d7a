"""Typed, frozen settings: one class is the Python argument, the command line, the saved JSON and the web form.

A settings class lists its fields with types, defaults and a docstring under each. Unknown names and values of the wrong
type raise one line that names the setting, what it expects and the nearest known names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import pydantic

from unweave.base.errors import ConfigError, UnknownNameError, nearest, unknown_name

C = TypeVar("C", bound="Config")

_STEPS = ("training.steps",)
ELSEWHERE = {
    "epochs": _STEPS,
    "n_epochs": _STEPS,
    "num_epochs": _STEPS,
    "max_epochs": _STEPS,
    "max_steps": _STEPS,
    "num_steps": _STEPS,
    "iterations": _STEPS,
    "learning_rate": ("lr",),
    "bs": ("batch_size",),
    "optimizer": ("optimiser.kind",),
    "latent_dim": ("latent",),
    "latent_dims": ("latent",),
    "latent_size": ("latent",),
    "z_dim": ("latent",),
}
"""What other libraries call settings."""


class Config(pydantic.BaseModel):
    """Base of all settings: immutable, no unknown fields, field docs from the docstrings beneath the fields."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )

    def __init__(self, **values: Any):
        try:
            super().__init__(**values)
        except pydantic.ValidationError as error:
            raise _teach(type(self), error) from None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` gives the same settings back."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls: type[C], values: Mapping[str, Any]) -> C:
        return cls(**values)

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """Dotted names of all settings: `beta`, `training.steps`, ..."""
        names: list[str] = []
        for name, field in cls.model_fields.items():
            inner = field.annotation
            if isinstance(inner, type) and issubclass(inner, Config):
                names += [f"{name}.{part}" for part in inner.setting_names()]
            else:
                names.append(name)
        return tuple(names)

    @classmethod
    def setting_meant(cls, name: str) -> str | None:
        """The setting that a name without its first parts, or another library's word for it, stands for."""
        for word in (name, *ELSEWHERE.get(name, ())):
            found = [dotted for dotted in cls.setting_names() if dotted == word or dotted.endswith(f".{word}")]
            if found:
                return min(found, key=lambda dotted: dotted.count("."))
        return None

    def override(self: C, changes: Mapping[str, Any]) -> C:
        """The same settings with dotted names changed: `{"beta": 4, "training.steps": "2000"}`.

        Text values are read as the field's type ("4" for a number, "[32, 64]" for a list, "linear(0, 4, 1000)" for a
        schedule), so that the command line and Python share this one path.
        """
        values = self.to_dict()
        for dotted, value in changes.items():
            _assign(type(self), values, dotted, value)
        return type(self)(**values)


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """`["beta=4", "training.steps=2000"]` as a mapping from dotted name to text."""
    changes: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"cannot read the setting {assignment!r}: write name=value, for example beta=4")
        changes[name.strip()] = value.strip()
    return changes


def _assign(cls: type[Config], values: dict[str, Any], dotted: str, value: Any) -> None:
    head, _, rest = dotted.partition(".")
    if head not in cls.model_fields:
        meant = cls.setting_meant(dotted)
        if meant is not None:
            raise UnknownNameError(f"unknown setting {dotted!r}: did you mean {meant!r}?")
        raise unknown_name("setting", head, cls.model_fields)
    if rest:
        inner = cls.model_fields[head].annotation
        if not (isinstance(inner, type) and issubclass(inner, Config)):
            raise ConfigError(f"setting {head!r} has no parts: write {head}=value instead of {dotted}={value}")
        nested = dict(values[head])
        _assign(inner, nested, rest, value)
        values[head] = nested
    else:
        values[head] = _read(value, cls.model_fields[head].annotation)


def _read(value: Any, annotation: Any) -> Any:
    """Text as the field's type: JSON where it is JSON (numbers, lists, true, null), "a,b" for a list, else the text."""
    if not isinstance(value, str):
        return value
    choices = _choices(annotation)
    if value in choices:
        return value  # one of the field's own words, such as "auto"; "none" may be one
    if value in ("None", "none"):
        return None
    listed = any(get_origin(choice) is tuple for choice in choices)
    if not listed and any(choice in (str, Path) for choice in choices):
        return value  # text stays text, also when it looks like a number
    try:
        parsed = json.loads(value)
    except ValueError:
        return _split_list(value) if listed and str not in choices else value
    alone = listed and not isinstance(parsed, list) and type(parsed) not in choices  # `resize` takes 64 and [64, 48]
    return [parsed] if alone else parsed


def _choices(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a type: `A | B` gives A and B, `Literal["a", "b"]` gives "a" and "b"."""
    if get_origin(annotation) in (Union, UnionType, Literal):
        return tuple(choice for argument in get_args(annotation) for choice in _choices(argument))
    if get_origin(annotation) is Annotated:
        return _choices(get_args(annotation)[0])
    return (annotation,)


def _split_list(text: str) -> list[str]:
    """`"style[0,1], style[2]"` at the commas that are outside brackets."""
    items, depth = [""], 0
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            items.append("")
        else:
            items[-1] += character
    return [item.strip() for item in items if item.strip()]


def _dotted(cls: type[Config], location: tuple[int | str, ...]) -> str:
    """`training.steps`, `shapes[1]`: the part of a location that names fields, not branches of a type."""
    name, owner = "", cls
    for part in location:
        if isinstance(part, int):
            name += f"[{part}]"
        elif part in getattr(owner, "model_fields", {}):
            name += f".{part}" if name else part
            owner = owner.model_fields[part].annotation  # type: ignore[assignment]
    return name


def _teach(cls: type[Config], error: pydantic.ValidationError) -> ConfigError | UnknownNameError:
    """The first complaint of a validation error as one line."""
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    owner: Any = cls
    for part in path[:-1]:
        field = getattr(owner, "model_fields", {}).get(part)
        owner = field.annotation if field is not None else None
    if first["type"] == "extra_forbidden":
        known = getattr(owner, "model_fields", cls.model_fields)
        return unknown_name(f"setting of {cls.__name__}", path[-1], known)
    if first["type"] == "missing":
        return ConfigError(f"setting {path[-1]!r} of {cls.__name__} is needed: give {path[-1]}=...")
    message = first["msg"].removeprefix("Value error, ")
    name = _dotted(cls, first["loc"])
    if not name:
        return ConfigError(message)
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError) and str(cause).startswith("setting '"):
        inner = str(cause).removeprefix("setting '")  # of settings within settings: give the whole dotted name
        return ConfigError(f"setting '{name}.{inner}")
    expected = first.get("ctx", {}).get("expected", "")
    close = nearest(str(first["input"]), re.findall(r"'([^']+)'", expected))
    hint = f"; did you mean {close[0]!r}?" if close and isinstance(first["input"], str) else ""
    got = first["input"] if not isinstance(first["input"], Mapping) else "a mapping"
    return ConfigError(f"setting {name!r} of {cls.__name__}: {message[:1].lower()}{message[1:]} (got {got!r}){hint}")
