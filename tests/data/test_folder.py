"""A folder of images against the pixels that were written."""

from __future__ import annotations

import os

import numpy as np
import pytest
from PIL import Image

from unweave.base.errors import ConfigError, DataError
from unweave.data import folder as module
from unweave.data import load

RNG = np.random.default_rng(0)


@pytest.fixture
def pictures(tmp_path):
    """Six grey PNGs in two sub-folders, written out of order, and other files beside them."""
    arrays = {}
    for name in ("b/2.png", "a/10.png", "b/1.PNG", "a/9.png", "a/x/3.png", "b/3.png"):
        path = tmp_path / "pics" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays[name] = RNG.integers(0, 256, (5, 7), dtype=np.uint8)
        Image.fromarray(arrays[name]).save(path, format="PNG")
    (tmp_path / "pics" / "notes.txt").write_text("not an image")
    (tmp_path / "pics" / ".hidden.png").write_text("not an image")
    (tmp_path / "pics" / ".cache").mkdir()
    (tmp_path / "pics" / ".cache" / "x.png").write_text("not an image")
    return tmp_path / "pics", arrays


ORDER = ["a/10.png", "a/9.png", "a/x/3.png", "b/1.PNG", "b/2.png", "b/3.png"]


def test_sorted_pixels_and_notes(pictures):
    path, arrays = pictures
    data = load(path)
    assert data.name == "pics"
    assert data.spec.shape == (1, 5, 7)
    assert data.spec.values == "unit"
    for row, name in enumerate(ORDER):
        np.testing.assert_array_equal(data.observations([row])[0, 0], arrays[name] / np.float32(255))
    assert "pixels 0..255 divided by 255" in data.notes[0]
    assert "6 images, a/10.png to b/3.png" in data.notes
    assert data.factors is None


def test_large_folders_are_decoded_on_reading(pictures, monkeypatch):
    path, _ = pictures
    small = load(path)
    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    large = load(path)
    np.testing.assert_array_equal(large.observations([5, 0, 5]), small.observations([5, 0, 5]))
    assert large.spec == small.spec
    (path / "b" / "3.png").write_bytes(b"gone")
    with pytest.raises(DataError, match=r"b/3.png is damaged"):
        large.observations([5])


@pytest.mark.parametrize("suffix", ["png", "bmp", "gif", "webp", "jpg", "jpeg"])
def test_every_format_reads_as_pillow_does(tmp_path, suffix):
    colours = np.kron(RNG.integers(0, 256, (2, 3, 3), dtype=np.uint8), np.ones((8, 8, 1), np.uint8))
    picture = Image.fromarray(colours)
    if suffix == "gif":
        second = Image.fromarray(255 - colours)
        picture.save(tmp_path / "a.gif", save_all=True, append_images=[second])
    else:
        picture.save(tmp_path / f"a.{suffix}", **({"lossless": True} if suffix == "webp" else {}))
    observed = load(tmp_path).observations([0])[0]
    assert observed.shape == (3, 16, 24)
    tolerance = 20 / 255 if suffix in ("jpg", "jpeg") else 0.5 / 255
    error = np.abs(observed - colours.transpose(2, 0, 1) / 255)
    assert error.mean() < tolerance


def test_one_bit_images_are_binary(tmp_path):
    bits = RNG.integers(0, 2, (3, 6, 6)).astype(bool)
    for number, picture in enumerate(bits):
        Image.fromarray(picture).save(tmp_path / f"{number}.png")
    data = load(tmp_path)
    assert data.spec.values == "binary"
    np.testing.assert_array_equal(data.observations([0, 1, 2])[:, 0], bits)


def test_alpha_is_kept_unless_asked(tmp_path):
    pixels = RNG.integers(0, 256, (4, 4, 4), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert load(tmp_path).spec.shape == (4, 4, 4)
    rgb = load(tmp_path, channels="rgb")
    assert rgb.spec.shape == (3, 4, 4)
    assert "every image converted to rgb" in rgb.notes


def test_conversion_and_resizing_only_on_request(tmp_path):
    Image.fromarray(np.full((6, 8, 3), 90, np.uint8)).save(tmp_path / "a.png")
    Image.fromarray(np.full((6, 8), 200, np.uint8)).save(tmp_path / "b.png")
    with pytest.raises(DataError, match=r"b.png has channels L and a.png RGB.*channels='grey'"):
        load(tmp_path)
    grey = load(tmp_path, channels="grey")
    np.testing.assert_allclose(grey.observations([0, 1])[:, 0, 0, 0], [90 / 255, 200 / 255], rtol=1e-6)
    Image.fromarray(np.full((9, 8), 100, np.uint8)).save(tmp_path / "c.png")
    with pytest.raises(DataError, match=r"c.png is 9 x 8 and a.png 6 x 8 .*resize"):
        load(tmp_path, channels="grey")
    both = load(tmp_path, channels="grey", resize=4)
    assert both.spec.shape == (1, 4, 4)
    assert "every image resized to 4 x 4 (bilinear)" in both.notes
    np.testing.assert_allclose(both.observations([2]), 100 / 255, rtol=1e-6)
    assert load(tmp_path, channels="grey", resize=(4, 5)).spec.shape == (1, 4, 5)
    with pytest.raises(ConfigError, match="setting 'channels'"):
        load(tmp_path, channels="gray")


def test_sub_folders_as_a_factor(pictures):
    path, _ = pictures
    data = load(path, folder_factor="group")
    assert data.factors.names == ("group",)
    assert data.factors.labels == (("a", "b"),)
    assert data.factors.values[:, 0].tolist() == [0, 0, 0, 1, 1, 1]
    Image.fromarray(np.zeros((5, 7), np.uint8)).save(path / "top.png")
    with pytest.raises(DataError, match=r"top.png is in no sub-folder"):
        load(path, folder_factor="group")


def test_an_empty_sub_folder_is_an_empty_group(tmp_path):
    for person in ("ada", "bob", "eve", ".cache"):
        (tmp_path / person).mkdir()
    for person in ("ada", "eve"):
        Image.fromarray(np.zeros((8, 8), dtype=np.uint8)).save(tmp_path / person / "0.png")
    with pytest.raises(DataError, match=r"sub-folder .*bob has no images.*'person' makes an empty group.*remove it"):
        load(tmp_path, folder_factor="person")
    (tmp_path / "bob").rmdir()
    assert len(load(tmp_path, folder_factor="person")) == 2


def test_tables_by_row_and_by_file(pictures, tmp_path):
    path, _ = pictures
    by_row, by_file = tmp_path / "row.csv", tmp_path / "file.csv"
    by_row.write_text("n\n0\n1\n2\n3\n4\n5\n")
    by_file.write_text("n,file\n" + "\n".join(f"{row},{name}" for row, name in reversed(list(enumerate(ORDER)))))
    for table in (by_row, by_file):
        data = load(path, factors=table, folder_factor="group")
        assert data.factors.names == ("group", "n")
        assert data.factors.column("n").tolist() == [0, 1, 2, 3, 4, 5]
    by_row.write_text("n\n0\n1\n")
    with pytest.raises(DataError, match="has 2 rows and the data 6 observations"):
        load(path, factors=by_row)


@pytest.mark.parametrize("damage", ["text", "empty", "half"])
def test_a_corrupt_file_is_named(pictures, damage):
    path, _ = pictures
    noisy = Image.fromarray(RNG.integers(0, 256, (200, 200), dtype=np.uint8))
    for name in ("b/1.PNG", "b/2.png"):
        noisy.save(path / name, format="PNG")
    content = (path / "b" / "2.png").read_bytes()
    (path / "b" / "2.png").write_bytes(
        {"text": b"no image", "empty": b"", "half": content[: len(content) // 2]}[damage]
    )
    with pytest.raises(DataError, match=r"b/2.png is damaged or cannot be read") as caught:
        load(path, resize=8)
    assert "\n" not in str(caught.value)


def test_more_than_eight_bits_are_refused(tmp_path):
    Image.fromarray(RNG.integers(0, 65536, (4, 4)).astype(np.uint16)).save(tmp_path / "a.png")
    for channels in ("keep", "grey"):
        with pytest.raises(DataError, match=r"a.png has the pixel format 'I;16': more than 8 bits"):
            load(tmp_path, channels=channels)


def test_cmyk_needs_a_conversion(tmp_path):
    Image.fromarray(RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8)).convert("CMYK").save(tmp_path / "a.jpg")
    with pytest.raises(DataError, match="set channels='grey' or channels='rgb'"):
        load(tmp_path)
    assert load(tmp_path, channels="rgb").spec.shape == (3, 8, 8)


def test_missing_empty_and_unreadable_folders(tmp_path, monkeypatch, pictures):
    with pytest.raises(DataError, match="does not exist or is not a folder"):
        load("folder", path=tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="has no images"):
        load(tmp_path / "empty")

    scandir = os.scandir

    def refused(path="."):
        if str(path).endswith("b"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    # Permissions do not bind the superuser that tests may run as: refuse in the system's place.
    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(DataError, match=r"pics/b cannot be read \(Permission denied\): check its permissions"):
        load(pictures[0])
