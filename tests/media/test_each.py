"""Observations as files of their own: the pixels they have, under names that stay in the folder."""

import numpy as np
import pytest
from PIL import Image

from unweave.base.errors import DataError
from unweave.core.dataspec import DataSpec
from unweave.media import save_each

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_pixels_come_back(tmp_path, channels):
    x = RNG.integers(0, 256, (11, channels, 6, 9)).astype(np.float32) / 255
    paths = save_each(x, tmp_path / "out", DataSpec((channels, 6, 9), "unit", 1))
    assert [path.name for path in paths[::10]] == ["00.png", "10.png"]
    for path, each in zip(paths, x, strict=True):
        with Image.open(path) as image:
            pixels = np.asarray(image).reshape(6, 9, channels) / 255
        np.testing.assert_allclose(np.moveaxis(pixels, -1, 0), each, atol=1e-6)


def test_clips_play(tmp_path):
    x = RNG.random((2, 4, 3, 8, 8), dtype=np.float32)
    paths = save_each(x, tmp_path, DataSpec((4, 3, 8, 8), "unit", 1), ["a.gif", "b"])
    assert [path.name for path in paths] == ["a.gif", "b.gif"]
    with Image.open(paths[0]) as image:
        assert image.n_frames == 4


def test_names_keep_their_folders(tmp_path):
    spec, x = DataSpec((1, 4, 4), "unit", 1), np.zeros((3, 1, 4, 4))
    paths = save_each(x, tmp_path, spec, ["ada/0.jpg", "ben/0.jpg", ""])
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == ["ada/0.png", "ben/0.png", "2.png"]
    paths = save_each(x, tmp_path, spec, ["0.jpg", "0.png", "a/1.png"])  # two would be 0.png
    assert [path.name for path in paths] == ["0-0.jpg.png", "1-0.png.png", "2-a-1.png.png"]
    assert all(path.exists() for path in paths)


@pytest.mark.parametrize("name", ["../x.png", "a/../../x", "/etc/x", "C:\\x.png", "\\x", "..\\x.png", ".", "a\nb"])
def test_names_that_lead_out_are_refused(tmp_path, name):
    with pytest.raises(DataError, match=r"row 1 has the name .* no file name within a folder"):
        save_each(np.zeros((2, 1, 4, 4)), tmp_path / "out", DataSpec((1, 4, 4), "unit", 1), ["fine.png", name])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("shape", "values"), [((5,), "unit"), ((1, 4, 4), "real"), ((6, 4, 4), "unit")])
def test_what_is_no_picture_is_told(tmp_path, shape, values):
    with pytest.raises(DataError, match=r"are no pictures: write them to a .npy file"):
        save_each(np.zeros((2, *shape)), tmp_path, DataSpec(shape, values, 1))
