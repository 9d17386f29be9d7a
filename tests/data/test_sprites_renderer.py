"""The sprite renderer: against real dSprites frames, all re-rendered images, and a loop over pixels in fractions."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from unweave.base.errors import DataError, UnknownNameError
from unweave.data._sprites import SHAPES, outline, pack_grid, render_sprites, unpack

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("UNWEAVE_TEST_DATA", HERE.parents[1].parent / "shared" / "data")) / "dsprites"

SCALES, ORIENTATIONS, POSITIONS = np.linspace(0.5, 1, 6), np.linspace(0, 2 * np.pi, 40), np.linspace(0, 1, 32)


def render_classes(classes: np.ndarray) -> np.ndarray:
    """Pictures of rows of official class numbers: shape, scale, orientation, x, y."""
    shape, scale, orientation, x, y = classes.astype(int).T
    names = np.array(SHAPES)[shape]
    return render_sprites(names, SCALES[scale], ORIENTATIONS[orientation], POSITIONS[x], POSITIONS[y])


def slow_sprite(shape: str, scale: float, orientation: float, x: float, y: float, resolution: int) -> np.ndarray:
    """Each pixel by itself: inside when an odd number of edges passes to its left, in exact fractions of a pixel."""
    pixel, points = resolution / 64, []
    for u, v in outline(shape):
        right = (math.cos(orientation) * u + math.sin(orientation) * v) * scale * pixel
        down = (-math.sin(orientation) * u + math.cos(orientation) * v) * scale * pixel
        centre = [resolution / 4 + resolution / 2 * position for position in (x, y)]
        points.append((Fraction(round(256 * (centre[0] + right)), 256), Fraction(round(256 * (centre[1] + down)), 256)))
    picture = np.zeros((resolution, resolution), dtype=bool)
    half = Fraction(1, 2)
    for row in range(resolution):
        crossings = []
        for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
            if (y0 < row + half) != (y1 < row + half):
                crossings.append(x0 + (row + half - y0) * (x1 - x0) / (y1 - y0))
        for column in range(resolution):
            picture[row, column] = sum(crossing <= column + half for crossing in crossings) % 2
    return picture


@pytest.mark.parametrize(
    ("shape", "scale", "orientation", "x", "y", "resolution"),
    [
        ("square", 1.0, 0.0, 0.0, 0.0, 64),  # upright: edges along pixel rows
        ("square", 0.8, ORIENTATIONS[7], 0.3, 0.9, 64),
        ("square", 10 / 9.6, 0.0, 0.5, 0.5, 65),  # odd canvas: the centre is the centre of a pixel
        ("ellipse", 0.6, ORIENTATIONS[11], POSITIONS[31], POSITIONS[4], 64),
        ("heart", 0.9, 2.0, 0.123, 0.456, 64),
        ("heart", 1.0, 5.5, 0.7, 0.2, 28),
        ("triangle", 0.75, 1.0, 0.5, 0.1, 40),
        ("triangle", 3.0, 0.3, 1.0, 0.0, 32),  # cut off by the canvas on two sides
        ("ellipse", 1.0, 0.5, 0.2, 0.9, 130),  # three words per row
    ],
)
def test_matches_a_loop_over_pixels(shape, scale, orientation, x, y, resolution):
    fast = render_sprites(shape, scale, orientation, x, y, resolution)
    assert fast.shape == (1, resolution, resolution)
    assert fast.any()
    np.testing.assert_array_equal(fast[0], slow_sprite(shape, scale, orientation, x, y, resolution))


def test_ties_on_edges():
    # A square with corners at (11.5, 11.5) and (20.5, 20.5): centres of rows and columns 11 and 20 lie on its edges.
    picture = render_sprites("square", 4.5 / 9.6, 0.0, 0.0, 0.0, 64)[0]
    rows, columns = np.flatnonzero(picture.any(axis=1)), np.flatnonzero(picture.any(axis=0))
    assert (rows[0], rows[-1]) == (12, 20)  # upper edge out, lower edge in
    assert (columns[0], columns[-1]) == (11, 19)  # left edge in, right edge out


def test_committed_real_frames():
    handful = np.load(HERE / "dsprites_handful.npz")
    real = np.unpackbits(handful["packed"], axis=1).reshape(-1, 64, 64)
    assert len(real) == 40
    np.testing.assert_array_equal(render_classes(handful["classes"]), real)


@pytest.mark.skipif(not (SHARED / "dsprites_real_frames.npz").exists(), reason="needs the shared dSprites frames")
def test_all_real_frames():
    frames = np.load(SHARED / "dsprites_real_frames.npz")
    assert len(frames["imgs"]) == 620
    np.testing.assert_array_equal(render_classes(frames["latents_classes"][:, 1:]), frames["imgs"])


@pytest.mark.skipif(not (SHARED / "dsprites_rerendered_packed.npz").exists(), reason="needs the shared dSprites file")
def test_all_737280_images():
    expected = np.load(SHARED / "dsprites_rerendered_packed.npz")["imgs_packed"].reshape(720, 32, 32, 64, 8)
    number = 0
    for shape in ("square", "ellipse", "heart"):
        for scale in SCALES:
            for orientation in ORIENTATIONS:
                packed = pack_grid(shape, scale, orientation, POSITIONS, POSITIONS, resolution=64)
                assert np.array_equal(packed, expected[number]), f"{shape}, scale {scale}, orientation {orientation}"
                number += 1
    assert number == 720


def test_grid_and_single_pictures_agree():
    x, y = np.array([0.0, 0.31, 1.0]), np.array([0.05, 0.77])
    for shape in SHAPES:
        grid = pack_grid(shape, 0.7, 1.1, x, y, resolution=50)
        assert grid.shape == (3, 2, 50, 8)
        single = render_sprites(shape, 0.7, 1.1, np.repeat(x, 2), np.tile(y, 3), 50)
        np.testing.assert_array_equal(unpack(grid.reshape(6, 50, 8), 50), single)


def test_moving_by_whole_pixels_moves_the_picture():
    rng = np.random.default_rng(3)
    n = 200
    shape = rng.choice(SHAPES, n)
    scale, angle = rng.uniform(0.5, 1, n), rng.uniform(0, 2 * np.pi, n)
    x, y = rng.integers(0, 16, (2, n)) / 32
    here, there = render_sprites(shape, scale, angle, x, y), render_sprites(shape, scale, angle, x + 5 / 32, y + 3 / 32)
    np.testing.assert_array_equal(np.roll(here, (3, 5), axis=(1, 2)), there)


def test_many_pictures_equal_one_at_a_time():
    # More than one chunk, shapes mixed.
    rng = np.random.default_rng(4)
    n = 2500
    factors = rng.choice(SHAPES, n), rng.uniform(0.5, 1, n), rng.uniform(0, 7, n), rng.random(n), rng.random(n)
    together = render_sprites(*factors, resolution=16)
    for row in (0, 1, 1023, 1024, 2047, 2048, 2499):
        np.testing.assert_array_equal(together[row], render_sprites(*(f[row] for f in factors), resolution=16)[0])


def test_orientation_turns_counter_clockwise():
    # The heart's tip points down; after a quarter turn counter-clockwise it points right.
    upright, turned = render_sprites("heart", 1.0, np.array([0.0, np.pi / 2]), 0.5, 0.5)
    assert np.flatnonzero(upright.any(axis=0)).tolist() != np.flatnonzero(upright.any(axis=1)).tolist()
    tip_row = np.flatnonzero(upright.any(axis=1))[-1]
    assert upright[tip_row].sum() < upright[np.flatnonzero(upright.any(axis=1))[0]].sum()
    widths = turned.sum(axis=0)[turned.any(axis=0)]
    assert widths[-1] < widths[0]


def test_area_does_not_depend_on_resolution():
    area = [render_sprites(SHAPES, 1.0, 0.4, 0.5, 0.5, n).mean(axis=(1, 2)) for n in (64, 512)]
    u, v = outline("heart").T
    shoelace = abs((u * np.roll(v, -1) - v * np.roll(u, -1)).sum()) / 2 / 64**2
    np.testing.assert_allclose(area[0], area[1], rtol=0.02)
    np.testing.assert_allclose(area[1][2], shoelace, rtol=0.002)


def test_a_sprite_outside_the_canvas_leaves_it_black():
    assert not render_sprites("heart", 1.0, 0.0, np.array([-2.0, 3.0, 0.5, 0.5]), np.array([0.5, 0.5, -2.0, 3.0])).any()
    assert render_sprites("square", 50.0, 0.0, 0.5, 0.5).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": 0.0}, "above 0"),
        ({"x": np.nan}, "x of a sprite"),
        ({"y": 1e9}, "y of a sprite"),
        ({"orientation": np.inf}, "orientation of a sprite"),
        ({"x": np.zeros(3), "y": np.zeros(2)}, "arrays of one length"),
        ({"x": np.zeros((2, 2))}, "one axis"),
        ({"resolution": 0}, "1 or more"),
    ],
)
def test_factors_that_cannot_be_rendered(arguments, message):
    with pytest.raises(DataError, match=message):
        render_sprites(**{"shape": "heart", "scale": 1.0, "orientation": 0.0, "x": 0.5, "y": 0.5, **arguments})


def test_unknown_shape():
    with pytest.raises(UnknownNameError, match="did you mean 'heart'"):
        render_sprites("hart", 1.0, 0.0, 0.5, 0.5)
