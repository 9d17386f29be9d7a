"""The published dSprites layout, on a small file written here."""

from __future__ import annotations

import errno
import itertools

import numpy as np
import pytest

from unweave.base.errors import DataError
from unweave.data import dsprites_official, load


def write(path, imgs, classes, **more):
    metadata = np.array({b"title": b"a pickle, as in the real file"}, dtype=object)
    np.savez_compressed(path, metadata=metadata, imgs=imgs, latents_classes=classes, **more)
    return path


@pytest.fixture
def parts():
    classes = np.array(list(itertools.product([0], range(3), range(2), range(4), range(2), range(3))))
    imgs = np.random.default_rng(0).integers(0, 2, (len(classes), 9, 7), dtype=np.uint8)  # 63 pixels: not whole bytes
    return imgs, classes


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(dsprites_official, "_CHUNK", 10)  # several pieces, the last not full
    return tmp_path / "cache"


def test_images_and_factors_are_those_of_the_file(tmp_path, parts, folder):
    imgs, classes = parts
    data = load("dsprites_official", path=write(tmp_path / "d.npz", imgs, classes, latents_values=classes / 2))
    assert data.spec.shape == (1, 9, 7)
    assert data.spec.values == "binary"
    rows = np.random.default_rng(1).permutation(len(imgs))
    np.testing.assert_array_equal(data.observations(rows)[:, 0], imgs[rows])
    assert data.observations(rows).dtype == np.float32
    assert data.factors.names == ("shape", "scale", "orientation", "x", "y")
    np.testing.assert_array_equal(data.factors.values, classes[:, 1:])
    assert data.factors.labels[0] == ("square", "ellipse", "heart")
    assert any("color" in note and "left out" in note for note in data.notes)


def test_packed_once_and_memory_mapped(tmp_path, parts, folder, monkeypatch):
    path = write(tmp_path / "d.npz", *parts)
    first = load("dsprites_official", path=path)
    (packed,) = (folder / "dsprites_official").iterdir()
    assert np.load(packed).shape == (len(first), 8)
    monkeypatch.setattr(dsprites_official, "_pieces", None)  # a second packing would fail
    second = load("dsprites_official", path=path)
    assert isinstance(second.read.packed, np.memmap)
    np.testing.assert_array_equal(first.observations(range(50)), second.observations(range(50)))


def test_other_images_are_packed_anew(tmp_path, parts):
    imgs, classes = parts
    load("dsprites_official", path=write(tmp_path / "d.npz", imgs, classes))
    other = load("dsprites_official", path=write(tmp_path / "d.npz", 1 - imgs, classes))
    np.testing.assert_array_equal(other.observations([3])[0, 0], 1 - imgs[3])


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, parts, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "file"))
    data = load("dsprites_official", path=write(tmp_path / "d.npz", *parts))
    assert "packed in memory" in data.notes
    np.testing.assert_array_equal(data.observations([70])[0, 0], parts[0][70])


def test_the_published_file_is_looked_for_in_the_cache(parts, folder, monkeypatch):
    def offline(*args, **kwargs):
        raise OSError(errno.ENETUNREACH, "no network")

    monkeypatch.setattr("pooch.retrieve", offline)
    with pytest.raises(DataError, match=f"{dsprites_official.FILE} was not found"):
        load("dsprites_official")
    folder.mkdir(exist_ok=True)
    write(folder / dsprites_official.FILE, *parts)
    with pytest.raises(DataError, match=r"is damaged or incomplete .*md5 7da33b31"):
        load("dsprites_official")


def broken(imgs, classes):
    yield "no array 'imgs'", {"pictures": imgs, "latents_classes": classes}
    yield "no array 'latents_classes'", {"imgs": imgs}
    yield "pixel value 255", {"imgs": imgs * 255, "latents_classes": classes}
    yield "expected uint8", {"imgs": imgs.astype(float), "latents_classes": classes}
    yield "expected uint8", {"imgs": imgs[0], "latents_classes": classes}
    yield "is empty", {"imgs": imgs[:0], "latents_classes": classes}
    yield "expected whole numbers", {"imgs": imgs, "latents_classes": classes[:, :4]}
    yield "144 images and 100 rows", {"imgs": imgs, "latents_classes": classes[:100]}


@pytest.mark.parametrize("case", range(8))
def test_wrong_files_are_one_line(tmp_path, parts, case):
    message, arrays = list(broken(*parts))[case]
    np.savez_compressed(tmp_path / "d.npz", **arrays)
    with pytest.raises(DataError, match=message) as caught:
        load("dsprites_official", path=tmp_path / "d.npz")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("where", [0.3, 0.6, 0.9, 0.99])
def test_a_truncated_or_changed_file_is_named(tmp_path, parts, where, folder):
    path = write(tmp_path / "d.npz", *parts)
    content = path.read_bytes()
    path.write_bytes(content[: int(where * len(content))])
    with pytest.raises(DataError, match=str(path)):
        load("dsprites_official", path=path)
    assert not list(folder.glob("*/*"))


def test_a_flipped_byte_in_the_images_is_noticed(tmp_path, parts, folder):
    import zipfile

    path = write(tmp_path / "d.npz", *parts)
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("imgs.npy")
    content = bytearray(path.read_bytes())
    content[entry.header_offset + entry.compress_size // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged|truncated|pixel value|not a NumPy file"):
        load("dsprites_official", path=path)
    assert not list(folder.glob("*/*"))


def test_a_missing_path(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        load("dsprites_official", path=tmp_path / "none.npz")
