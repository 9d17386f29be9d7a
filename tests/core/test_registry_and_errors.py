"""Registries find what a file defines, take entries from outside, and name the nearest when asked for the unknown."""

import sys
import types

import pytest

from unweave.base.errors import UnknownNameError, UnweaveError, unknown_name
from unweave.base.registry import Registry


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "some_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "first.py").write_text("class Alpha: pass\nclass _Other: pass\n")
    (folder / "second.py").write_text("from some_package.first import Alpha\nclass Beta: pass\n")
    (folder / "_private.py").write_text("raise RuntimeError('private modules are not walked')")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "some_package"
    for name in [name for name in sys.modules if name.startswith("some_package")]:
        del sys.modules[name]


def registry_of(package):
    accepts = lambda value: isinstance(value, type) and not value.__name__.startswith("_")  # noqa: E731
    return Registry("letter", package, accepts, lambda value: value.__name__.lower())


def test_files_are_found_and_imports_are_not_entries_twice(package):
    registry = registry_of(package)
    assert registry.names() == ("alpha", "beta")
    assert len(registry) == 2
    assert "alpha" in registry
    assert [entry.__name__ for entry in registry] == ["Alpha", "Beta"]


def test_unknown_names_teach(package):
    with pytest.raises(UnknownNameError, match="unknown letter 'alpa': did you mean 'alpha'"):
        registry_of(package)["alpa"]


def test_entries_from_outside(package):
    registry = registry_of(package)
    gamma = registry.register(types.new_class("Gamma"))
    assert registry["gamma"] is gamma
    again = registry.register(types.new_class("Gamma"))  # a notebook cell that runs twice
    assert registry["gamma"] is again
    with pytest.raises(UnweaveError, match="exists already"):
        registry.register(types.new_class("Alpha"))


def test_messages_list_all_names_when_none_is_near():
    assert str(unknown_name("score", "xyzzy", ["mig", "sap"])) == "unknown score 'xyzzy': known: mig, sap"
    assert "no score to choose from" in str(unknown_name("score", "mig", []))
