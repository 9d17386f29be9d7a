"""One function finds data by name and by path."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import unweave.data
from unweave.base.errors import ConfigError, DataError, UnknownNameError
from unweave.data import DATA, DataSet, load, source


def test_names_and_settings():
    assert source("mnist", split="test") == DATA["mnist"](split="test")
    assert source("mnist", size="32") == DATA["mnist"](size=32)
    assert source("folder", path="here", resize="[8, 9]", factor_names="a, b").resize == (8, 9)
    assert isinstance(load("digits"), DataSet)


def test_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.random.default_rng(0).random((4, 3)))
    np.savez("a.npz", np.random.default_rng(0).random((4, 3)))
    (tmp_path / "pics").mkdir()
    assert source("a.npy").name == "array"
    assert source(tmp_path / "a.npz").name == "array"
    assert source("pics").name == "folder"
    assert source("pics").path == tmp_path / "pics"
    (tmp_path / "mnist").mkdir()
    assert source("mnist").name == "mnist"
    assert source("./mnist").name == "folder"


def test_unknown_names_and_paths(tmp_path):
    with pytest.raises(
        UnknownNameError, match=r"unknown data set 'mnsit': did you mean 'mnist'.*path of a folder"
    ) as caught:
        load("mnsit")
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="no file or folder"):
        load("some/where")
    with pytest.raises(DataError, match="no file or folder"):
        load(tmp_path / "where")
    with pytest.raises(DataError, match="does not exist"):
        load("missing.npz")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(DataError, match="neither a folder of images nor"):
        load(tmp_path / "a.txt")


def test_unknown_settings():
    with pytest.raises(UnknownNameError, match="'splt': did you mean 'split'"):
        source("mnist", splt="test")
    with pytest.raises(ConfigError, match="setting 'path' of Folder"):
        source("folder")


def test_public_names():
    for name in unweave.data.__all__:
        assert getattr(unweave.data, name) is not None
        assert name in dir(unweave.data)
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        _ = unweave.data.lod


def test_listing_the_data_sets_imports_nothing_heavy():
    code = (
        "import sys, unweave.data; names = unweave.data.DATA.names(); assert 'mnist' in names; "
        "print([m for m in ('torch', 'sklearn', 'scipy', 'PIL', 'matplotlib', 'pooch', 'pyarrow', 'pandas') "
        "if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
