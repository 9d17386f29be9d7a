"""Images of the user's own: read within limits, never kept."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from unweave.base.errors import DataError
from unweave.core.dataspec import DataSpec
from unweave.explorer import uploads
from unweave.explorer.uploads import observation

GREY, COLOUR = DataSpec((1, 8, 8), "unit", 10), DataSpec((3, 8, 12), "unit", 10)


def file(image, kind="PNG"):
    memory = io.BytesIO()
    image.save(memory, kind)
    return memory.getvalue()


def test_an_image_of_the_right_size_is_taken_as_it_is():
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)
    seen = observation(file(Image.fromarray(pixels)), GREY)
    assert seen.shape == (1, 1, 8, 8)
    assert seen.dtype == np.float32
    np.testing.assert_allclose(seen[0, 0], pixels / 255, atol=1e-6)


def test_channels_come_first_and_the_middle_is_kept():
    image = Image.new("RGB", (48, 16), (255, 0, 0))
    image.paste((0, 0, 255), (8, 0, 40, 16))  # the middle half, and what the filter sees beside it, is blue
    seen = observation(file(image), COLOUR)
    assert seen.shape == (1, 3, 8, 12)
    np.testing.assert_allclose(seen[0, 2], 1, atol=0.02)
    np.testing.assert_allclose(seen[0, 0], 0, atol=0.02)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
def test_formats(kind):
    assert observation(file(Image.new("L", (20, 20), 255), kind), GREY).min() > 0.9


def test_transparent_lies_on_black_and_two_colours_are_two():
    image = Image.new("RGBA", (8, 8), (255, 255, 255, 0))
    image.paste((200, 200, 200, 255), (0, 0, 4, 8))
    seen = observation(file(image), DataSpec((1, 8, 8), "binary", 10))
    assert np.array_equal(np.unique(seen), [0, 1])
    assert seen[0, 0, :, :3].min() == 1
    assert seen[0, 0, :, 5:].max() == 0


@pytest.mark.parametrize("content", [b"", b"not an image", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.4"])
def test_no_image_is_told(content):
    with pytest.raises(DataError, match="no image that can be read"):
        observation(content, GREY)


def test_a_cut_file_is_told():
    with pytest.raises(DataError, match="no image that can be read"):
        observation(file(Image.effect_noise((64, 64), 50))[:600], GREY)


@pytest.mark.parametrize("side", [4_500, 10_000, 20_000, 40_000])
def test_a_bomb_is_refused_by_its_header(side):
    """A file of a few bytes that claims up to a billion pixels; Pillow itself warns of some and refuses others."""
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    chunk = b"IHDR" + header
    content = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    data = b"IDAT" + zlib.compress(b"\0" * 100)
    content += struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))
    with pytest.raises(DataError, match=r"20,000,000( pixels, the most that)? are read; shrink it"):
        observation(content, GREY)


@pytest.mark.parametrize(
    ("orientation", "bright"), [(1, np.s_[:4]), (3, np.s_[4:]), (6, np.s_[:, 4:]), (8, np.s_[:, :4])]
)
def test_photographs_are_upright(orientation, bright):
    """Cameras store what the sensor saw, and beside it how the camera was held."""
    image, memory, exif = Image.new("L", (32, 32)), io.BytesIO(), Image.Exif()
    image.paste(255, (0, 0, 32, 16))  # the upper half is bright
    exif[0x0112] = orientation
    image.save(memory, "JPEG", exif=exif)
    seen = observation(memory.getvalue(), GREY)[0, 0]
    assert seen[bright].mean() > 0.9
    assert seen.mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("exif", [b"Exif\0\0", b"Exif\0\0II*\0\x08\0\0\0\xff\xff", b"Exif\0\0nonsense and more of it"])
def test_damaged_metadata_are_no_reason_to_refuse(exif):
    memory = io.BytesIO()
    Image.new("L", (16, 16), 255).save(memory, "JPEG", exif=exif)
    assert observation(memory.getvalue(), GREY).min() > 0.9


def test_too_many_bytes_are_refused_before_they_are_read(monkeypatch):
    monkeypatch.setattr(uploads, "MOST_BYTES", 10)
    with pytest.raises(DataError, match="at most 10 are read"):
        observation(file(Image.new("L", (8, 8))), GREY)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (DataSpec((5,), "unit", 10), "only images"),
        (DataSpec((1, 8, 8), "real", 10), "real values"),
        (DataSpec((5, 8, 8), "unit", 10), "5 channels"),
    ],
)
def test_runs_that_see_no_images_are_told(spec, told):
    with pytest.raises(DataError, match=told):
        observation(file(Image.new("L", (8, 8))), spec)
