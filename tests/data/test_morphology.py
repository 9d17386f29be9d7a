"""Measures of a digit's shape, on drawn strokes of known size and against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unweave.data._morphology import SHAPE_MEASURES, measure_shape


def measured(picture: np.ndarray) -> dict[str, float]:
    return dict(zip(SHAPE_MEASURES, measure_shape(picture[None])[0], strict=True))


def stroke(width: float, angle: float, length: float = 60, size: int = 96) -> np.ndarray:
    """A straight stroke with soft edges; angle from upright in radians, leaning to the right."""
    i, j = np.mgrid[:size, :size] - (size - 1) / 2
    along = -i * math.cos(angle) + j * math.sin(angle)
    across = i * math.sin(angle) + j * math.cos(angle)
    soft = [np.clip(half + 0.5 - np.abs(value), 0, 1) for half, value in ((length / 2, along), (width / 2, across))]
    return soft[0] * soft[1]


@pytest.mark.parametrize("angle", [0.0, 0.3, -0.6])
@pytest.mark.parametrize("width", [3.0, 5.0])
def test_a_straight_stroke(width, angle):
    found = measured(stroke(width, angle))
    assert found["area"] == pytest.approx(60 * width, rel=0.01)
    # 2 L w / (2 L + 2 w): the ends are border too. Differences of pixels see the length of edges to within 8 %.
    assert found["thickness"] == pytest.approx(60 * width / (60 + width), rel=0.08)
    assert found["slant"] == pytest.approx(math.tan(angle), abs=0.01)
    assert found["height"] == pytest.approx(60 * math.cos(angle) + width * abs(math.sin(angle)), abs=2)
    assert found["width"] == pytest.approx(60 * abs(math.sin(angle)) + width * math.cos(angle), abs=2)


def test_against_loops():
    rng = np.random.default_rng(0)
    pictures = rng.random((4, 6, 5)) * (rng.random((4, 6, 5)) > 0.6)
    for picture, found in zip(pictures, measure_shape(pictures), strict=True):
        ink = [(i, j, picture[i, j]) for i in range(6) for j in range(5)]
        area = sum(x for _, _, x in ink)
        at = lambda i, j, p=picture: p[i, j] if 0 <= i < 6 and 0 <= j < 5 else 0.0  # noqa: E731
        border = 0.0
        for i in range(-1, 6):
            for j in range(-1, 5):
                a, b, c, d = at(i, j), at(i, j + 1), at(i + 1, j), at(i + 1, j + 1)
                border += math.hypot((b + d - a - c) / 2, (c + d - a - b) / 2)
        mi, mj = sum(i * x for i, _, x in ink) / area, sum(j * x for _, j, x in ink) / area
        covariance = sum((i - mi) * (j - mj) * x for i, j, x in ink)
        variance = sum((i - mi) ** 2 * x for i, _, x in ink)
        columns = [j for _, j, x in ink if x >= 0.5]
        rows = [i for i, _, x in ink if x >= 0.5]
        expected = [
            area,
            2 * area / border,
            max(columns) - min(columns) + 1,
            max(rows) - min(rows) + 1,
            -covariance / variance,
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_no_ink_has_no_measures():
    found = measured(np.zeros((28, 28)))
    assert found["area"] == 0
    assert all(math.isnan(found[name]) for name in SHAPE_MEASURES[1:])
    assert measure_shape(np.zeros((0, 28, 28))).shape == (0, 5)
    line = np.zeros((28, 28))
    line[4, 3:9] = 1.0
    assert math.isnan(measured(line)["slant"])
    assert (measured(line)["width"], measured(line)["height"]) == (6, 1)
