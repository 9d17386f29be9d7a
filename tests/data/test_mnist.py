"""MNIST and Fashion-MNIST: the official files when they are there, small ones of the same form otherwise."""

from __future__ import annotations

import gzip
import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unweave.base.errors import ConfigError, DataError
from unweave.data import _cache, fashion_mnist, load, mnist

MODULES = {"mnist": mnist, "fashion_mnist": fashion_mnist}


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return gzip.compress(header + array.astype(np.uint8).tobytes())


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Four small files in the published form, with their checksums."""
    rng = np.random.default_rng(0)
    contents = {}
    for part, count in (("train", 7), ("t10k", 3)):
        contents[f"{part}-images-idx3-ubyte.gz"] = idx(rng.integers(0, 256, (count, 28, 28)))
        contents[f"{part}-labels-idx1-ubyte.gz"] = idx(np.arange(count))
    (tmp_path / "mnist").mkdir()
    for name, content in contents.items():
        (tmp_path / "mnist" / name).write_bytes(content)
    checksums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    monkeypatch.setattr(mnist, "FILES", replace(mnist.FILES, checksums=checksums))
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    return tmp_path / "mnist"


def raw(path: Path) -> np.ndarray:
    return np.frombuffer(gzip.decompress(path.read_bytes())[16:], np.uint8).reshape(-1, 28, 28)


def test_splits_and_values_against_the_bytes(small):
    train, test = raw(small / "train-images-idx3-ubyte.gz"), raw(small / "t10k-images-idx3-ubyte.gz")
    for split, expected in (("train", train), ("test", test), ("all", np.concatenate([train, test]))):
        data = load("mnist", split=split)
        assert data.spec.shape == (1, 28, 28)
        assert data.spec.values == "unit"
        rows = np.arange(len(expected))
        np.testing.assert_array_equal(data.observations(rows)[:, 0], expected.astype(np.float32) / np.float32(255))
    assert load("mnist", split="all").factors.column("digit").tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1, 2]
    assert load("mnist").notes == (f"pixels {train.min()}..{train.max()} divided by 255",)


def test_binary_is_the_stated_threshold(small):
    pixels = raw(small / "train-images-idx3-ubyte.gz")
    data = load("mnist", values="binary")
    assert data.spec.values == "binary"
    observed = data.observations(np.arange(7))[:, 0]
    np.testing.assert_array_equal(observed, pixels / 255 > 0.5)
    assert observed.dtype == np.float32
    assert "threshold 0.5" in " ".join(data.notes)


def test_padding_keeps_the_middle(small):
    plain, padded = load("mnist"), load("mnist", size=32)
    x, y = plain.observations([4]), padded.observations([4])
    assert y.shape == (1, 1, 32, 32)
    np.testing.assert_array_equal(y[:, :, 2:-2, 2:-2], x)
    assert y.sum() == pytest.approx(x.sum())


def test_morphology_adds_factors_and_changes_nothing_else(small):
    plain, measured = load("mnist", values="binary", size=32), load("mnist", values="binary", size=32, morphology=True)
    assert measured.factors.names == ("digit", "area", "thickness", "width", "height", "slant")
    assert measured.factors.kinds == ("discrete", *["continuous"] * 5)
    np.testing.assert_array_equal(measured.factors.column("digit"), plain.factors.column("digit"))
    np.testing.assert_array_equal(measured.observations([0, 6]), plain.observations([0, 6]))
    # Measured from the grey picture, whatever the observations are made of.
    grey = raw(small / "train-images-idx3-ubyte.gz") / 255
    np.testing.assert_allclose(measured.factors.column("area"), grey.sum(axis=(1, 2)), rtol=1e-6)
    assert "thickness" in measured.notes[-1]


def test_a_truncated_file_is_named(small, monkeypatch):
    monkeypatch.setattr(_cache, "_verified", set())
    file = small / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DataError, match=f"{file} is damaged"):
        load("mnist")


def test_images_and_labels_of_different_length(small, monkeypatch):
    content = idx(np.arange(5))
    (small / "train-labels-idx1-ubyte.gz").write_bytes(content)
    checksums = {**mnist.FILES.checksums, "train-labels-idx1-ubyte.gz": hashlib.sha256(content).hexdigest()}
    monkeypatch.setattr(mnist, "FILES", replace(mnist.FILES, checksums=checksums))
    with pytest.raises(DataError, match="7 images and 5 labels"):
        load("mnist")


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="setting 'split'"):
        load("mnist", split="tset")
    with pytest.raises(ConfigError, match="setting 'size'"):
        load("mnist", size=64)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_the_official_files(name, real_data, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(real_data))
    train, test = load(name), load(name, split="test")
    assert (len(train), len(test)) == (60_000, 10_000)
    counts = np.bincount(train.factors.values[:, 0].astype(int))
    if name == "mnist":
        # Class counts and the mean brightness 0.1307 of the training set are widely published.
        assert counts.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        assert train.observations(np.arange(60_000)).mean(dtype=np.float64) == pytest.approx(0.1307, abs=5e-5)
        assert test.factors.values[:5, 0].tolist() == [7, 2, 1, 0, 4]
    else:
        assert counts.tolist() == [6000] * 10
        assert train.observations(np.arange(60_000)).mean(dtype=np.float64) == pytest.approx(0.2860, abs=5e-5)
        assert train.factors.labels[0][int(train.factors.values[0, 0])] == "Ankle boot"
    assert train.factors.labels[0] == MODULES[name].FILES.labels
