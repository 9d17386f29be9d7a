"""Blobs: against the formula written as a loop over pixels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unweave.base.errors import ConfigError
from unweave.data.blobs import Blobs


def slow_blob(x: float, y: float, sigma: float, resolution: int) -> np.ndarray:
    picture = np.zeros((resolution, resolution))
    cx, cy = (resolution * (3 * sigma + (1 - 6 * sigma) * position) for position in (x, y))
    for row in range(resolution):
        for column in range(resolution):
            squared = (column + 0.5 - cx) ** 2 + (row + 0.5 - cy) ** 2
            picture[row, column] = math.exp(-squared / (2 * (sigma * resolution) ** 2))
    return picture


@pytest.mark.parametrize("resolution", [64, 21])
def test_grid_matches_a_loop_over_pixels(resolution):
    data = Blobs(steps=5, resolution=resolution, sigma=0.1).load()
    assert (len(data), data.spec.shape, data.spec.values) == (25, (1, resolution, resolution), "unit")
    assert data.factors.names == ("x", "y")
    assert data.factors.kinds == ("discrete", "discrete")
    images = data.observations(np.arange(25))
    assert images.dtype == np.float32
    for row in (0, 4, 13, 20, 24):
        x, y = divmod(row, 5)
        np.testing.assert_array_equal(data.factors.values[row], [x, y])
        np.testing.assert_allclose(images[row, 0], slow_blob(x / 4, y / 4, 0.1, resolution), atol=1e-6)


def test_continuous_positions():
    data = Blobs(continuous=True, size=300, seed=2).load()
    assert data.factors.kinds == ("continuous", "continuous")
    assert data.factors.values.min() >= 0
    assert data.factors.values.max() <= 1
    x, y = data.factors.values[77]
    np.testing.assert_allclose(data.observations([77])[0, 0], slow_blob(x, y, 0.0625, 64), atol=1e-6)
    np.testing.assert_array_equal(data.factors.values, Blobs(continuous=True, size=300, seed=2).load().factors.values)
    assert not np.array_equal(data.factors.values, Blobs(continuous=True, size=300, seed=3).load().factors.values)


def test_the_blob_is_whole_at_every_position():
    images = Blobs(steps=2).load().observations(np.arange(4))
    totals = images.sum(axis=(1, 2, 3))
    np.testing.assert_allclose(totals, 2 * np.pi * (0.0625 * 64) ** 2, rtol=0.005)
    assert images.max() <= 1


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"sigma": 0.0}, "sigma"), ({"sigma": 0.2}, "sigma"), ({"steps": 0}, "steps"), ({"resolution": 1}, "resolution")],
)
def test_settings_that_cannot_be(settings, name):
    with pytest.raises(ConfigError, match=name):
        Blobs(**settings)
