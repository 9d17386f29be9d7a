"""Settings: text from the command line and values from Python take one path; mistakes name the nearest setting."""

from typing import Literal

import pydantic
import pytest

from unweave.base.config import Config, parse_assignments
from unweave.base.errors import ConfigError, UnknownNameError
from unweave.base.schedule import Schedule, Weight


class Inner(Config):
    """Inner settings."""

    lr: pydantic.PositiveFloat = 0.1
    """Learning rate."""


class Outer(Config):
    """Outer settings."""

    beta: Weight = 1.0
    """Weight."""
    kind: Literal["auto", "none", "some"] = "auto"
    """Kind."""
    sizes: tuple[int, ...] = (1, 2)
    """Sizes."""
    names: tuple[str, ...] = ()
    """Names."""
    path: str | None = None
    """Path."""
    inner: Inner = Inner()
    """Inner."""


@pytest.mark.parametrize(
    ("assignment", "field", "value"),
    [
        ("beta=4", "beta", 4.0),
        ("beta=linear(0, 4, 10)", "beta", Schedule(kind="linear", start=0, end=4, steps=10)),
        ("kind=none", "kind", "none"),
        ("sizes=[3, 4]", "sizes", (3, 4)),
        ("sizes=3,4", "sizes", (3, 4)),
        ("sizes=5", "sizes", (5,)),
        ("names=style[0,1], z[2]", "names", ("style[0,1]", "z[2]")),
        ("path=a.csv", "path", "a.csv"),
        ("path=none", "path", None),
        ("inner.lr=0.5", "inner", Inner(lr=0.5)),
    ],
)
def test_text_is_read_as_the_fields_type(assignment, field, value):
    changed = Outer().override(parse_assignments([assignment]))
    assert getattr(changed, field) == value
    assert Outer.from_dict(changed.to_dict()) == changed


def test_settings_do_not_change():
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        Outer().beta = 2


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"bta": 1}, UnknownNameError, "unknown setting 'bta': did you mean 'beta'"),
        ({"inner.rl": 1}, UnknownNameError, "unknown setting 'rl': did you mean 'lr'"),
        ({"lr": 1}, UnknownNameError, "unknown setting 'lr': did you mean 'inner.lr'"),
        ({"learning_rate": 1}, UnknownNameError, "unknown setting 'learning_rate': did you mean 'inner.lr'"),
        ({"beta.x": 1}, ConfigError, "setting 'beta' has no parts"),
        ({"inner.lr": -1}, ConfigError, "'inner.lr'.*greater than 0"),
        ({"kind": "atuo"}, ConfigError, "did you mean 'auto'"),
        ({"beta": "nan"}, ConfigError, "beta"),
    ],
)
def test_mistakes_are_one_line_that_teaches(change, error, match):
    with pytest.raises(error, match=match) as caught:
        Outer().override(change)
    assert "\n" not in str(caught.value)


def test_names_of_settings_and_what_a_word_means():
    names = Outer.setting_names()
    assert {"beta", "inner.lr"} <= set(names)
    assert "inner" not in names
    assert (
        Outer.setting_meant("inner.lr")
        == Outer.setting_meant("lr")
        == Outer.setting_meant("learning_rate")
        == "inner.lr"
    )
    assert Outer.setting_meant("beta") == "beta"
    assert Outer.setting_meant("epochs") is None  # this class has no steps


def test_assignments_need_an_equals_sign():
    with pytest.raises(ConfigError, match="write name=value"):
        parse_assignments(["beta 4"])


def test_field_docs_come_from_docstrings():
    assert Inner.model_fields["lr"].description == "Learning rate."


class Sized(Config):
    size: pydantic.PositiveInt | tuple[int, int] | None = None
    """One number or two."""


@pytest.mark.parametrize(("text", "value"), [("64", 64), ("[64, 48]", (64, 48)), ("64,48", (64, 48)), ("none", None)])
def test_one_number_stays_one_where_the_field_takes_it(text, value):
    assert Sized().override({"size": text}).size == value


def test_a_wrong_number_of_numbers_is_told():
    with pytest.raises(ConfigError, match="size"):
        Sized().override({"size": "0"})
