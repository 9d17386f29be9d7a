"""Every data set that the registry finds: it has a page, loads, and gives what it declares, the same each time."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest
from pydantic_core import PydanticUndefined

from unweave.base.errors import ConfigError, DataError
from unweave.data import DATA, DataSet, source

NAMES = DATA.names()
SMALL = {"dsprites": {"subset": 300}}  # settings that keep this suite quick; any other data set is loaded by default


@pytest.fixture(autouse=True)
def folder(tmp_path_factory, monkeypatch) -> Path:
    """An own cache folder, in which real files are links: nothing is downloaded, nothing is written beside them."""
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("UNWEAVE_DATA", str(cache))

    def offline(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENETUNREACH, "no network in tests")

    monkeypatch.setattr("pooch.retrieve", offline)
    return cache


@pytest.fixture
def real_files(folder, request) -> None:
    try:
        real = request.getfixturevalue("real_data")
    except pytest.skip.Exception:
        return  # data sets that need files skip with their own message
    for file in (*real.glob("*mnist/*.gz"), *real.glob("yaleb/*.npz"), *real.glob("olivetti/*.npz")):
        (folder / file.parent.name).mkdir(exist_ok=True)
        (folder / file.parent.name / file.name).symlink_to(file)


def required(name: str) -> list[str]:
    return [key for key, field in DATA[name].model_fields.items() if field.is_required()]


def load(name: str) -> DataSet:
    """The data set, or a skip with the one line that says what is missing."""
    try:
        return source(name, **SMALL.get(name, {})).load()
    except (ConfigError, DataError) as error:
        message = str(error)
        assert "\n" not in message
        if isinstance(error, ConfigError):
            assert required(name)
            assert repr(required(name)[0]) in message
        else:
            assert "was not found" in message
            assert "UNWEAVE_DATA" in message
        pytest.skip(message)


@pytest.mark.parametrize("name", NAMES)
def test_has_a_page_that_names_every_setting_and_runs(name, root, run_page, real_files):
    page = root / "docs" / "data" / f"{name}.md"
    assert page.is_file(), f"write docs/data/{name}.md"
    text = page.read_text(encoding="utf-8")
    missing = [setting for setting in DATA[name].model_fields if f"`{setting}`" not in text]
    assert not missing, f"docs/data/{name}.md does not name the settings {missing}"
    index = (root / "docs" / "data" / "index.md").read_text(encoding="utf-8")
    assert f"({name}.md)" in index, f"docs/data/index.md does not link {name}.md"
    try:
        assert run_page(page) > 0, f"docs/data/{name}.md has no python block"
    except DataError as error:
        if "was not found" not in str(error):
            raise
        pytest.skip(str(error))


def test_the_overview_runs(root, run_page):
    assert run_page(root / "docs" / "data" / "index.md") > 0


@pytest.mark.parametrize("name", NAMES)
def test_is_described_and_tested(name, root):
    card = DATA[name].card
    assert card.summary
    assert "\n" not in card.summary
    assert card.needs
    assert bool(card.paper) == card.bibtex.startswith("@")
    assert all(field.description for field in DATA[name].model_fields.values()), "a setting has no docstring"
    tests = (root / "tests" / "data").glob("test_*.py")
    classes = DATA[name].__name__
    assert any(f'"{name}"' in text or classes in text for text in (file.read_text(encoding="utf-8") for file in tests))


@pytest.mark.parametrize("name", NAMES)
def test_settings_go_to_json_and_back(name):
    values = dict.fromkeys(required(name), "somewhere")
    settings = DATA[name](**values)
    assert DATA[name].from_dict(settings.to_dict()) == settings
    for key, field in DATA[name].model_fields.items():
        if field.default not in (PydanticUndefined, None):
            assert getattr(settings, key) == field.default


@pytest.mark.parametrize("name", NAMES)
def test_observations_are_what_the_spec_says(name, real_files):
    data = load(name)
    rows = np.unique(np.linspace(0, len(data) - 1, 64).astype(int))
    x = data.observations(rows)
    assert x.shape == (len(rows), *data.spec.shape)
    assert x.dtype == np.float32
    assert np.isfinite(x).all()
    if data.spec.values == "binary":
        assert set(np.unique(x)) <= {0.0, 1.0}
    elif data.spec.values == "unit":
        assert x.min() >= 0
        assert x.max() <= 1
        assert x.max() > 1 / 2, "are the values really in 0 to 1, and not divided twice?"
    elif data.spec.values in ("levels", "tokens", "counts"):
        assert (x == np.floor(x)).all()
        assert x.min() >= 0
        assert data.spec.values == "counts" or x.max() < data.spec.levels
    assert data.notes
    assert all("\n" not in note for note in data.notes)
    x[:] = -7
    assert not (data.observations(rows) == -7).all(), "what `read` returns is shared with the data set"
    with pytest.raises(DataError):
        data.observations([len(data)])


@pytest.mark.parametrize("name", NAMES)
def test_factors_belong_to_the_rows(name, real_files):
    data = load(name)
    factors = data.factors
    if factors is None:
        pytest.skip(f"{name} has no factors")
    assert len(factors) == len(data)
    for column, kind, labels in zip(factors.values.T, factors.kinds, factors.labels, strict=True):
        present = column[~np.isnan(column)]
        assert len(np.unique(present)) > 1
        if kind == "discrete":
            assert (present == np.floor(present)).all()
            assert present.min() >= 0
            assert labels is None or present.max() < len(labels)


@pytest.mark.parametrize("name", NAMES)
def test_two_loads_and_a_part_agree(name, real_files):
    data, again = load(name), load(name)
    assert data.spec == again.spec
    rows = np.array([len(data) - 1, 0, len(data) // 2, 0])
    x = data.observations(rows)
    np.testing.assert_array_equal(x, again.observations(rows))
    part = data.take(rows)
    assert len(part) == 4
    np.testing.assert_array_equal(part.observations([3, 2, 1, 0]), x[::-1])
    for place, row in enumerate(rows):
        np.testing.assert_array_equal(data.observations([row])[0], x[place])
    if data.factors is not None:
        np.testing.assert_array_equal(data.factors.values, again.factors.values)
        np.testing.assert_array_equal(part.factors.values, data.factors.values[rows])
