"""Shape of a handwritten digit, measured from its picture: ink, thickness, width, height and slant.

With x (H, W) the ink of each pixel in [0, 1], rows i counted downwards and columns j to the right:

    area       sum_ij x_ij                             pixels of ink
    thickness  2 area / sum_ij |grad x_ij|             pixels across a stroke
    width      columns from the first to the last that has a pixel of 1/2 or more;   height the same for rows
    slant      -cov(i, j) / var(i), weighted by x      pixels to the right for each pixel upwards

A stroke of length L and width w has the area L w and a border of about 2 L. The sum of gradient lengths is the length
of the border whatever its direction, also where pixels are grey (the coarea formula).
"""

from __future__ import annotations

import numpy as np

SHAPE_MEASURES = ("area", "thickness", "width", "height", "slant")
CHUNK = 5000  # pictures measured at once


def measure_shape(pictures: np.ndarray) -> np.ndarray:
    """(N, 5) measures in the order of `SHAPE_MEASURES`, of pictures (N, H, W) in [0, 1]; NaN where there is no ink."""
    parts = [_measure(pictures[start : start + CHUNK]) for start in range(0, len(pictures), CHUNK)]
    return np.concatenate(parts) if parts else np.zeros((0, len(SHAPE_MEASURES)))


def _measure(pictures: np.ndarray) -> np.ndarray:
    x = np.asarray(pictures, dtype=np.float64)
    area = x.sum(axis=(1, 2))
    # Central differences at the corners where four pixels meet, on a frame of background: no direction is favoured.
    framed = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    left, right = framed[:, :, :-1], framed[:, :, 1:]
    above, below = (left + right)[:, :-1], (left + right)[:, 1:]
    across = (right - left)[:, :-1] + (right - left)[:, 1:]
    down = below - above
    border = 0.5 * np.sqrt(down**2 + across**2).sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        thickness = 2 * area / border
    return np.stack([area, thickness, _extent(x, axis=1), _extent(x, axis=2), _slant(x)], axis=1)


def _extent(x: np.ndarray, axis: int) -> np.ndarray:
    """(N,) how far the pixels of 1/2 or more reach along the other axis; NaN where there are none."""
    inked: np.ndarray = np.any(x >= 0.5, axis=axis)
    first, last = inked.argmax(axis=1), inked.shape[1] - 1 - inked[:, ::-1].argmax(axis=1)
    return np.where(np.any(inked, axis=1), last - first + 1.0, np.nan)


def _slant(x: np.ndarray) -> np.ndarray:
    """(N,) -cov(i, j) / var(i); NaN for a picture without ink or with ink in one row only."""
    area = x.sum(axis=(1, 2))
    rows, columns = x.sum(axis=2), x.sum(axis=1)
    i, j = np.arange(x.shape[1]), np.arange(x.shape[2])
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_i, mean_j = rows @ i / area, columns @ j / area
        variance = rows @ i**2 / area - mean_i**2
        covariance = (x @ j) @ i / area - mean_i * mean_j
        return np.where(variance > 1e-9, -covariance / variance, np.nan)
