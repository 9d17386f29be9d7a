"""The dSprites renderer: a sprite is a polygon, moved, rounded to 1/256 pixel and filled at the pixel centres.

All coordinates are whole numbers of 1/256 pixel, so that filling is exact integer arithmetic: the same bits on every
machine, and the bits of the published images (`docs/data/dsprites.md` has the evidence). Pictures are bits too: a row
of pixels is a few bytes, first pixel in the highest bit, and filling to the right of an edge is one exclusive or.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from unweave.base.errors import DataError, unknown_name

Shape = Literal["square", "ellipse", "heart", "triangle"]
SHAPES: tuple[Shape, ...] = get_args(Shape)

_UNIT = 256  # steps per pixel that vertices are rounded to
_HALF_SIDE = 9.6  # of the square at scale 1, in pixels of a canvas of 64
_CHUNK = 1024  # images filled at once: bounds memory at about 20 MB


def outline(shape: Shape) -> np.ndarray:
    """(V, 2) vertices (u, v) of a shape at scale 1 and orientation 0, in pixels of a canvas of 64; v points down."""
    if shape == "square":
        return _HALF_SIDE * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    if shape == "ellipse":
        t = 2 * np.pi * np.arange(100) / 100
        return _HALF_SIDE * np.stack([1.33 * np.cos(t), np.sin(t) / 1.33], axis=1)
    if shape == "heart":
        t = 2 * np.pi * np.arange(150) / 150
        curve = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
        return np.stack([_HALF_SIDE * np.sin(t) ** 3, -(_HALF_SIDE / 14.5) * curve - 0.15 * _HALF_SIDE], axis=1)
    if shape == "triangle":
        # Not in dSprites. Equilateral, on the circle through the square's corners, so that it stays on the canvas.
        t = 2 * np.pi * np.arange(3) / 3
        return np.sqrt(2) * _HALF_SIDE * np.stack([np.sin(t), -np.cos(t)], axis=1)
    raise unknown_name("shape", shape, SHAPES)


def render_sprites(
    shape: str | np.ndarray | list[str] | tuple[str, ...],
    scale: np.ndarray | float,
    orientation: np.ndarray | float,
    x: np.ndarray | float,
    y: np.ndarray | float,
    resolution: int = 64,
) -> np.ndarray:
    """(n, resolution, resolution) bool pictures of sprites with these factors; axes are image, row (down), column.

    shape:       "square", "ellipse", "heart" or "triangle": one name or n of them
    scale:       size, 0.5 to 1 in dSprites
    orientation: angle in radians, counter-clockwise on the screen
    x, y:        position of the centre, 0 to 1 between a quarter and three quarters of the canvas; y points down

    Arguments are numbers or (n,) arrays. A sprite that leaves the canvas is cut off.
    """
    if resolution < 1:
        raise DataError(
            f"a picture of {resolution} x {resolution} pixels cannot be rendered: resolution must be 1 or more"
        )
    named = {"scale": scale, "orientation": orientation, "x": x, "y": y}
    real = {name: np.asarray(value, dtype=np.float64) for name, value in named.items()}
    for name, value in real.items():
        # The bound keeps the products of coordinates in _fill far inside 64 bits; nothing is visible beyond it anyway.
        if not np.isfinite(value).all() or (name != "orientation" and (np.abs(value) > 100).any()):
            raise DataError(f"{name} of a sprite has values that are not finite or beyond 100: dSprites uses 0 to 1")
    if (real["scale"] <= 0).any():
        raise DataError(f"scale of a sprite is {real['scale'].min()}: it must be above 0, and is 0.5 to 1 in dSprites")
    try:
        names, *values = np.broadcast_arrays(np.atleast_1d(np.asarray(shape, dtype=str)), *real.values())
    except ValueError:
        lengths = ", ".join(f"{name} {value.shape}" for name, value in real.items())
        raise DataError(
            f"factors of sprites do not go together (shape {np.shape(shape)}, {lengths}): "
            "give numbers or arrays of one length"
        ) from None
    if names.ndim != 1:
        raise DataError(f"factors of sprites have shape {names.shape}: give numbers or arrays with one axis")
    kinds, which = np.unique(names, return_inverse=True)
    packed = pack_sprites(tuple(kinds.tolist()), which, *values, resolution=resolution)
    return unpack(packed, resolution).astype(bool)


def pack_sprites(
    shapes: tuple[Shape, ...],
    which: np.ndarray,
    scale: np.ndarray,
    orientation: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    *,
    resolution: int,
) -> np.ndarray:
    """(n, resolution, bytes) packed pictures; `which` (n,) numbers the shapes, the rest is as in `render_sprites`."""
    packed = np.empty((len(which), resolution, row_bytes(resolution)), dtype=np.uint8)
    for number, shape in enumerate(shapes):
        rows = np.flatnonzero(which == number)
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            u, v = _turned(shape, scale[chunk], orientation[chunk], resolution)  # (c, V) each
            columns = _rounded(x[chunk, None], u, resolution)
            packed[chunk] = _fill(columns[None], _rounded(y[chunk, None], v, resolution), resolution)[0]
    return packed


def pack_grid(
    shape: Shape, scale: float, orientation: float, x: np.ndarray, y: np.ndarray, *, resolution: int
) -> np.ndarray:
    """(X, Y, resolution, bytes) packed pictures of one sprite at all pairs of X columns x and Y rows y.

    Rounding comes after moving, but it treats the two axes apart: which pixel rows an edge crosses depends on y alone,
    and the columns of its ends on x alone. So the edges are sorted into rows Y times, not X * Y times.
    """
    u, v = _turned(shape, np.array([scale]), np.array([orientation]), resolution)  # (1, V) each
    columns, rows = _rounded(x[:, None], u, resolution), _rounded(y[:, None], v, resolution)  # (X, V), (Y, V)
    return _fill(np.broadcast_to(columns[:, None], (len(x), *rows.shape)), rows, resolution)


def row_bytes(resolution: int) -> int:
    """Bytes that one row of pixels takes: whole words of 64 pixels."""
    return 8 * -(-resolution // 64)


def unpack(packed: np.ndarray, resolution: int) -> np.ndarray:
    """(n, resolution, bytes) packed pictures -> (n, resolution, resolution) uint8 of 0 and 1."""
    return np.unpackbits(packed, axis=-1, count=resolution)


def _turned(shape: Shape, scale: np.ndarray, orientation: np.ndarray, resolution: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices of n sprites about their centre, in pixels: (n, V) to the right and (n, V) down."""
    u, v = outline(shape).T
    cos, sin = np.cos(orientation)[:, None], np.sin(orientation)[:, None]
    size = scale[:, None] * (resolution / 64)
    return (cos * u + sin * v) * size, (cos * v - sin * u) * size


def _rounded(position: np.ndarray, local: np.ndarray, resolution: int) -> np.ndarray:
    """Canvas coordinates of vertices in whole 1/256 pixels; position 0 to 1 spans the middle half of the canvas."""
    return np.rint(_UNIT * (resolution * (0.25 + 0.5 * position) + local)).astype(np.int64)


def _fill(xs: np.ndarray, ys: np.ndarray, resolution: int) -> np.ndarray:
    """Fill polygons by the even-odd rule at pixel centres.

    xs: (M, N, V) and ys: (N, V) vertices in 1/256 pixel -> (M, N, resolution, bytes) packed.

    A centre on an upper edge is out and on a lower edge in; on a left edge in and on a right edge out.
    """
    moves, (count, vertices) = len(xs), ys.shape
    centre = _UNIT // 2

    # Pixel rows whose centre line an edge crosses: min(y0, y1) < 256 row + 128 <= max(y0, y1).
    ends = np.roll(ys, -1, axis=1)
    first = np.maximum((np.minimum(ys, ends) - centre) // _UNIT + 1, 0).ravel()
    last = np.minimum((np.maximum(ys, ends) - centre) // _UNIT, resolution - 1).ravel()
    crossed = np.maximum(last - first + 1, 0)  # (N V,)

    # One entry per crossing of an edge with a row, ordered by image and row.
    edge = np.repeat(np.arange(count * vertices), crossed)
    row = first[edge] + np.arange(len(edge)) - (np.cumsum(crossed) - crossed)[edge]
    line = (edge // vertices) * resolution + row
    order = np.argsort(line, kind="stable")
    edge, row, line = edge[order], row[order], line[order]
    image, begin = np.divmod(edge, vertices)
    end = np.where(begin + 1 == vertices, 0, begin + 1)

    # The first column whose centre is not left of the crossing: the ceiling of an exact fraction.
    x0, x1 = xs[:, image, begin], xs[:, image, end]  # (M, crossings)
    y0, y1 = ys[image, begin], ys[image, end]
    height, below = np.abs(y1 - y0), (row * _UNIT + centre - y0) * np.sign(y1 - y0)
    column = -(((centre - x0) * height - below * (x1 - x0)) // (_UNIT * height))
    np.clip(column, 0, resolution, out=column)

    # From there to the right border each pixel changes sides; all crossings of a row together are one exclusive or.
    packed = np.zeros((moves, count * resolution, row_bytes(resolution) // 8), dtype=np.uint64)
    if len(line):
        starts = np.flatnonzero(np.diff(line, prepend=-1))
        packed[:, line[starts]] = np.bitwise_xor.reduceat(_to_the_right(resolution)[column], starts, axis=1)
    return packed.view(np.uint8).reshape(moves, count, resolution, row_bytes(resolution))


def _to_the_right(resolution: int) -> np.ndarray:
    """(resolution + 1, words) uint64: entry c has the bits of pixels c, c + 1, ... set."""
    pixels = np.arange(8 * row_bytes(resolution))
    bits = (pixels >= np.arange(resolution + 1)[:, None]) & (pixels < resolution)
    return np.packbits(bits, axis=1).view(np.uint64)
