"""Pictures of grids: values, layout, files."""

import io

import numpy as np
import pytest
from PIL import Image

from toy_blobs import Blobs
from unweave.base.errors import DataError
from unweave.core.dataspec import DataSpec
from unweave.media import Shown, save_gif, save_png
from unweave.media.pictures import (
    FRAME_MS,
    HOLD_MS,
    NEGATIVE,
    PAPER,
    POSITIVE,
    as_pictures,
    enlarge,
    grid_png_bytes,
    montage,
    shrink,
    to_uint8,
    value_limits,
)
from unweave.operations import swap, traverse


@pytest.mark.parametrize(
    ("values", "levels", "array", "expected"),
    [
        ("unit", None, [0.0, 0.5, 1.0, 1.2], [0, 128, 255, 255]),
        ("binary", None, [0.0, 1.0], [0, 255]),
        ("levels", 256, [0.0, 51.0, 255.0], [0, 51, 255]),
        ("levels", 3, [0.0, 1.0, 2.0], [0, 128, 255]),
        ("real", None, [-1.0, 0.0, 3.0], [0, 64, 255]),
        ("counts", None, [1.0, 4.0], [64, 255]),
        (None, None, [0.2, 0.4], [51, 102]),
        (None, None, [-1.0, 1.0], [0, 255]),
        (None, None, [10.0, 40.0], [64, 255]),
        ("real", None, [7.0, 7.0], [0, 0]),
    ],
)
def test_values_become_shades(values, levels, array, expected):
    assert to_uint8(np.array(array), values, levels=levels).tolist() == expected


def test_limits_can_be_given_and_words_have_no_picture():
    assert to_uint8(np.array([0.0, 5.0]), "real", limits=(-5.0, 5.0)).tolist() == [128, 255]
    assert value_limits(np.full((1, 1, 2), np.nan), "real") == (0.0, 1.0)
    with pytest.raises(DataError, match="no picture"):
        to_uint8(np.zeros(3), "tokens")


def test_channels():
    rng = np.random.default_rng(0)
    grey = as_pictures(rng.random((2, 3, 1, 4, 5))).grid
    assert grey.shape == (2, 3, 4, 5, 3)
    assert (np.ptp(grey, axis=-1) == 0).all()
    images = rng.random((1, 1, 3, 4, 5))
    colour = as_pictures(images).grid
    assert colour[0, 0, 2, 3].tolist() == np.round(images[0, 0, :, 2, 3] * 255).astype(int).tolist()
    images = rng.random((1, 1, 4, 4, 5))
    averaged = as_pictures(images, DataSpec((4, 4, 5), "unit", 10))
    assert averaged.note == "mean of 4 channels"
    assert averaged.grid[0, 0, 1, 1, 0] == round(images[0, 0, :, 1, 1].mean() * 255)


def test_bars_rise_from_zero_and_fall_below_it():
    picture = as_pictures(np.array([[[1.0, -1.0, 0.0]]]), limits=(-1.0, 1.0)).grid[0, 0]
    third = picture.shape[1] // 3
    tops = [picture[3, column].tolist() for column in (1, third + 1, 2 * third + 1)]
    bottoms = [picture[-3, column].tolist() for column in (1, third + 1, 2 * third + 1)]
    assert tops[0] == list(POSITIVE)
    assert bottoms[0] != list(POSITIVE)
    assert bottoms[1] == list(NEGATIVE)
    assert tops[1] != list(NEGATIVE)
    assert tops[2] == bottoms[2] == tops[1]


def test_long_vectors_and_matrices_are_heat():
    strip = as_pictures(np.linspace(0, 1, 500)[None, None]).grid
    assert strip.shape[2] == 24
    assert strip.shape[3] <= 192
    brightness = strip[0, 0, 0].astype(int).sum(axis=1)
    assert (np.diff(brightness) <= 0).all()
    assert brightness[0] - brightness[-1] > 400
    assert as_pictures(np.random.default_rng(0).random((2, 2, 6, 7))).grid.shape == (2, 2, 6, 7, 3)


def test_what_has_no_picture_is_refused():
    with pytest.raises(DataError, match="NaN or infinite"):
        as_pictures(np.array([[[np.nan, 1.0]]]))
    with pytest.raises(DataError, match="have no picture"):
        as_pictures(np.zeros((1, 1, 6, 2, 3, 4, 5)))


def test_enlarge_repeats_pixels_and_shrink_averages_them():
    grid = np.random.default_rng(0).integers(0, 256, (1, 2, 5, 4, 3)).astype(np.uint8)
    large = enlarge(grid, 12)
    assert large.shape == (1, 2, 15, 12, 3)
    np.testing.assert_array_equal(large[:, :, 1::3, 1::3], grid)
    np.testing.assert_array_equal(shrink(large, 5), grid)
    assert shrink(grid, 5) is grid
    assert shrink(np.zeros((1, 1, 7, 7, 3), dtype=np.uint8), 3).shape == (1, 1, 2, 2, 3)


def test_montage_places_cells_and_leaves_gaps():
    grid = np.arange(4, dtype=np.uint8).reshape(2, 2, 1, 1, 1) * np.ones((2, 2, 2, 3, 3), dtype=np.uint8)
    sheet = montage(grid, np.array([[True, True], [True, False]]), gap=1)
    assert sheet.shape == (5, 7, 3)
    assert sheet[0, 4, 0] == 1
    assert sheet[3, 0, 0] == 2
    assert sheet[2, 0].tolist() == sheet[4, 6].tolist() == list(PAPER)


@pytest.mark.parametrize(("channels", "mode"), [(1, "LA"), (3, "RGBA")])
def test_png_of_a_grid_is_transparent_between_its_cells(channels, mode):
    pictures = as_pictures(np.random.default_rng(0).random((1, 2, channels, 6, 6)))
    image = Image.open(io.BytesIO(grid_png_bytes(pictures.grid, gap=2)))
    assert image.mode == mode
    alpha = np.array(image)[..., -1]
    assert (alpha[:, 6:8] == 0).all()
    assert (alpha[:, :6] == 255).all()
    whole = Image.open(io.BytesIO(grid_png_bytes(pictures.grid)))
    np.testing.assert_array_equal(np.array(whole.convert("RGB")), montage(pictures.grid))


def test_a_saved_png_holds_the_pixels_and_room_for_names(tmp_path):
    system = Blobs()
    shown = swap(system, system.inputs(2))
    path = save_png(shown, tmp_path / "deep" / "grid.png", system.spec)
    image = np.array(Image.open(path))
    factor, gap = 4, 4  # 24 pixels become 96
    cells = enlarge(as_pictures(shown.images, system.spec).grid, 96)
    assert cells.shape[2] == 24 * factor
    assert image.shape[0] > 3 * 96 + 2 * gap
    bottom, right = image.shape[0] - 16, image.shape[1] - 16
    np.testing.assert_array_equal(image[bottom - 96 : bottom, right - 96 : right], cells[2, 2])
    named = image[:, : right - 3 * 96 - 2 * gap]
    assert (named < 128).any(), "row names are drawn left of the grid"


def test_a_gif_goes_there_and_back(tmp_path):
    system = Blobs()
    shown = traverse(system, system.inputs(1), traverse.params(dims=("z[0]", "shape"), steps=4))
    with Image.open(save_gif(shown, tmp_path / "moving.gif", system.spec)) as gif:
        assert gif.n_frames == 6
        frames, times = [], []
        for number in range(6):
            gif.seek(number)
            frames.append(np.array(gif.convert("RGB")).astype(int))
            times.append(gif.info["duration"])
    assert times == [HOLD_MS, FRAME_MS, FRAME_MS, HOLD_MS, FRAME_MS, FRAME_MS]
    np.testing.assert_array_equal(frames[1], frames[5])
    assert np.abs(frames[0] - frames[3]).max() > 100
    half = frames[0].shape[1] // 2
    np.testing.assert_array_equal(frames[2][:, half:], frames[3][:, half:])  # the category rests on its last value
    assert np.abs(frames[2][:, :half] - frames[3][:, :half]).max() > 100


def test_what_does_not_move_is_no_gif(tmp_path):
    system = Blobs()
    with pytest.raises(DataError, match="save it as PNG"):
        save_gif(swap(system, system.inputs(2)), tmp_path / "still.gif")


def test_a_failure_keeps_the_old_file(tmp_path):
    path = tmp_path / "grid.png"
    path.write_bytes(b"old")
    broken = Shown("broken", np.zeros((1, 1, 6, 2, 3, 4, 5)), ("",), ("",))
    with pytest.raises(DataError):
        save_png(broken, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
