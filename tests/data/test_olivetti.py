"""Olivetti faces: a small file of the layout, and the real one where it is."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.base.errors import ConfigError, DataError
from unweave.data import load


@pytest.fixture
def small(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (6, 64, 64), dtype=np.uint8)
    (tmp_path / "olivetti").mkdir()
    np.savez(tmp_path / "olivetti" / "olivetti_64x64.npz", images=images, subject=np.array([0, 0, 1, 1, 2, 2]))
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    return images


def test_pictures_and_people_against_the_file(small):
    data = load("olivetti")
    np.testing.assert_array_equal(data.observations([4, 0])[:, 0], small[[4, 0]] / np.float32(255))
    assert data.factors.names == ("subject",)
    assert data.factors.column("subject").tolist() == [0, 0, 1, 1, 2, 2]
    half = load("olivetti", size=32)
    assert half.spec.shape == (1, 32, 32)
    expected = small[1].reshape(32, 2, 32, 2).mean(axis=(1, 3)) / 255
    np.testing.assert_allclose(half.observations([1])[0, 0], expected, rtol=1e-5)


def test_one_line_errors(small, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="setting 'size'"):
        load("olivetti", size=128)
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match=r"olivetti_64x64.npz was not found: .*UNWEAVE_DATA.*subject: the person 0"):
        load("olivetti")


def test_the_real_file(real_data, monkeypatch):
    if not list(real_data.glob("olivetti/*.npz")):
        pytest.skip("olivetti is not among the real data")
    monkeypatch.setenv("UNWEAVE_DATA", str(real_data))
    data = load("olivetti")
    assert data.spec.shape == (1, 64, 64)
    assert np.bincount(data.factors.column("subject").astype(int)).tolist() == [10] * 40
    # Pictures of one person are nearer to one another than to those of others.
    x = data.observations(np.arange(400)).reshape(40, 10, -1)
    within = np.square(x - x.mean(1, keepdims=True)).sum(-1).mean()
    between = np.square(x.mean(1) - x.mean((0, 1))).sum(-1).mean()
    assert between > within / 2
    assert len(data.notes) == 3
