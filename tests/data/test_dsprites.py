"""dSprites as a data set: official order, lazy reading, the cache and its failures, colours, continuous factors."""

from __future__ import annotations

import itertools
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from unweave.base.errors import ConfigError, DataError
from unweave.data import dsprites
from unweave.data.dsprites import DSprites, render_sprites

SMALL = {"steps": (2, 3, 4, 5)}  # 360 images


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dsprites"


def forbid(monkeypatch, *names: str) -> None:
    """Make these renderers fail, to show that they are not called."""

    def called(*_, **__):
        raise AssertionError("rendered")

    for name in names:
        monkeypatch.setattr(dsprites, name, called)


def test_official_order_and_factors(monkeypatch):
    forbid(monkeypatch, "pack_grid", "pack_sprites")
    data = DSprites().load()
    assert (len(data), data.spec.shape, data.spec.values) == (737_280, (1, 64, 64), "binary")
    assert data.factors.names == ("shape", "scale", "orientation", "x", "y")
    assert data.factors.kinds == ("discrete",) * 5
    assert data.factors.labels[0] == ("square", "ellipse", "heart")
    np.testing.assert_array_equal(data.factors.values.max(axis=0), [2, 5, 39, 31, 31])
    for shape, scale, orientation, x, y in [(0, 0, 0, 0, 0), (2, 5, 39, 31, 31), (1, 2, 33, 7, 21)]:
        row = (((shape * 6 + scale) * 40 + orientation) * 32 + x) * 32 + y
        np.testing.assert_array_equal(data.factors.values[row], [shape, scale, orientation, x, y])


def test_committed_real_frames_by_row():
    handful = np.load(Path(__file__).parent / "dsprites_handful.npz")
    rows = np.ravel_multi_index(handful["classes"].astype(int).T, (3, 6, 40, 32, 32))
    images = DSprites(cached=False).load().observations(rows)
    assert images.dtype == np.float32
    np.testing.assert_array_equal(images.reshape(40, -1), np.unpackbits(handful["packed"], axis=1))


def test_images_belong_to_their_factors():
    settings = DSprites(**SMALL, shapes=("heart", "triangle"), resolution=30)
    data = settings.load()
    images = data.observations(np.arange(len(data)))
    levels = itertools.product(
        ("heart", "triangle"), (0.5, 1.0), (0.0, np.pi, 2 * np.pi), np.linspace(0, 1, 4), np.linspace(0, 1, 5)
    )
    for row, factors in enumerate(levels):
        np.testing.assert_array_equal(images[row], render_sprites(*factors, resolution=30))
    assert row + 1 == len(data) == 2 * 2 * 3 * 4 * 5


def test_first_and_last_orientation_are_the_same_image():
    data = DSprites(steps=(1, 40, 2, 2), cached=False).load()
    orientation = data.factors.column("orientation")
    first, last = np.flatnonzero(orientation == 0), np.flatnonzero(orientation == 39)
    np.testing.assert_array_equal(data.observations(first), data.observations(last))


@pytest.mark.parametrize("cached", [True, False])
def test_orientations_are_in_degrees_from_the_first_to_the_last(cached):
    data = DSprites(steps=(1, 5, 2, 2), orientations=(-30, 50), cached=cached).load()
    images = data.observations(np.arange(len(data)))
    levels = itertools.product(
        ("square", "ellipse", "heart"), np.radians([-30, -10, 10, 30, 50]), np.linspace(0, 1, 2), np.linspace(0, 1, 2)
    )
    for row, (shape, *pose) in enumerate(levels):
        np.testing.assert_array_equal(images[row], render_sprites(shape, 0.5, *pose))
    drawn = DSprites(continuous=True, size=300, orientations=(-30, 50)).load().factors.column("orientation")
    assert np.radians(-30) <= drawn.min() < np.radians(-20)
    assert np.radians(40) < drawn.max() <= np.radians(50)


def test_cache_is_written_once_and_read_afterwards(cache, monkeypatch):
    data = DSprites(**SMALL).load()
    assert not cache.exists()
    assert "rendered on first reading" in data.notes[0]
    first = data.observations([5, 359, 5])
    assert sorted(path.suffix for path in cache.iterdir()) == [".json", ".npy"]
    forbid(monkeypatch, "pack_grid", "pack_sprites")
    again = DSprites(**SMALL).load()
    assert "read from" in again.notes[0]
    np.testing.assert_array_equal(again.observations([5, 359, 5]), first)
    first[:] = 7  # what was read belongs to the reader
    assert again.observations([5]).max() == 1


def test_cache_and_rendering_on_reading_agree():
    rows = np.random.default_rng(0).integers(0, 360, 100)
    cached, uncached = (DSprites(**SMALL, resolution=70, cached=flag).load() for flag in (True, False))
    np.testing.assert_array_equal(cached.observations(rows), uncached.observations(rows))


def test_uncached_writes_nothing(cache):
    DSprites(**SMALL, cached=False).load().observations([0, 1])
    assert not cache.exists()


def test_settings_that_change_the_images_have_their_own_file(cache):
    changes = ({"resolution": 32}, {"shapes": ("heart", "square")}, {"steps": (2, 3, 5, 4)}, {"orientations": (0, 50)})
    for settings in ({}, *changes):
        DSprites(**{**SMALL, **settings}).load().observations([0])
    assert len(list(cache.glob("*.npy"))) == 5


def test_touched_file_is_read_through_and_accepted(cache):
    images = DSprites(**SMALL).load().observations([1, 2])
    (path,) = cache.glob("*.npy")
    os.utime(path, (1, 1))
    np.testing.assert_array_equal(DSprites(**SMALL).load().observations([1, 2]), images)


@pytest.mark.parametrize("damage", ["bit", "truncated", "empty", "stamp", "other"])
def test_damaged_cache_is_refused_with_the_remedy(cache, damage):
    DSprites(**SMALL).load().observations([0])
    (path,) = cache.glob("*.npy")
    content = bytearray(path.read_bytes())
    if damage == "bit":
        content[1000] ^= 4
        path.write_bytes(content)
    elif damage == "truncated":
        path.write_bytes(content[:-100])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "stamp":
        path.with_suffix(".json").unlink()
    else:
        np.save(path, np.zeros((3, 64, 8), dtype=np.uint8))
    with pytest.raises(DataError, match="delete it, and it is rendered again"):
        DSprites(**SMALL).load().observations([0])
    path.unlink()
    assert DSprites(**SMALL).load().observations([0]).any()


def test_interrupted_rendering_leaves_nothing_behind(cache, monkeypatch):
    calls = iter(range(100))

    def interrupted(*args, **settings):
        if next(calls) == 5:
            raise KeyboardInterrupt
        return dsprites_pack_grid(*args, **settings)

    dsprites_pack_grid = dsprites.pack_grid
    monkeypatch.setattr(dsprites, "pack_grid", interrupted)
    with pytest.raises(KeyboardInterrupt):
        DSprites(**SMALL).load().observations([0])
    assert list(cache.iterdir()) == []


def test_cache_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match="UNWEAVE_DATA"):
        DSprites(**SMALL).load().observations([0])


def test_subset_renders_only_what_is_read(cache, monkeypatch):
    forbid(monkeypatch, "pack_grid")
    data = DSprites(subset=50, seed=3).load()
    images = data.observations(np.arange(50))
    assert not cache.exists()
    rows = np.ravel_multi_index(data.factors.values.astype(int).T, (3, 6, 40, 32, 32))
    assert len(set(rows)) == 50
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(images, DSprites(cached=False).load().observations(rows))
    np.testing.assert_array_equal(DSprites(subset=50, seed=3).load().factors.values, data.factors.values)
    assert not np.array_equal(DSprites(subset=50, seed=4).load().factors.values, data.factors.values)


def test_subset_uses_the_cache_when_it_is_there(monkeypatch):
    whole = DSprites(**SMALL).load()
    whole.observations([0])
    subset = DSprites(**SMALL, subset=40).load()
    forbid(monkeypatch, "pack_grid", "pack_sprites")
    rows = np.ravel_multi_index(subset.factors.values.astype(int).T, (3, 2, 3, 4, 5))
    np.testing.assert_array_equal(subset.observations(np.arange(40)), whole.observations(rows))


def test_palette_is_one_more_factor():
    white = DSprites(**SMALL).load()
    data = DSprites(**SMALL, colour="palette", palette=("green", "magenta")).load()
    assert (len(data), data.spec.shape, data.spec.values) == (720, (3, 64, 64), "binary")
    assert data.factors.names[0] == "colour"
    assert data.factors.labels[0] == ("green", "magenta")
    np.testing.assert_array_equal(data.factors.values[360:, 1:], white.factors.values)
    sprite = white.observations([123])
    np.testing.assert_array_equal(data.observations([123])[0], np.array([0, 1, 0])[:, None, None] * sprite[0])
    np.testing.assert_array_equal(data.observations([123 + 360])[0], np.array([1, 0, 1])[:, None, None] * sprite[0])


def test_rgb_colours_are_three_continuous_factors():
    data = DSprites(**SMALL, colour="rgb", subset=30, seed=1).load()
    assert (data.spec.shape, data.spec.values) == ((3, 64, 64), "unit")
    assert data.factors.names == ("red", "green", "blue", "shape", "scale", "orientation", "x", "y")
    assert data.factors.kinds == ("continuous",) * 3 + ("discrete",) * 5
    rows = [4, 17]
    images = data.observations(rows)
    assert images.dtype == np.float32
    colours = data.factors.values[rows, :3]
    assert (colours >= 0.5).all()
    assert (colours <= 1).all()
    np.testing.assert_array_equal(images.max(axis=(2, 3)), colours)
    assert all(len(np.unique(channel)) == 2 for image in images for channel in image)


@pytest.mark.parametrize("colour", ["white", "palette", "rgb"])
def test_continuous_factors(colour):
    data = DSprites(continuous=True, size=400, seed=5, colour=colour, resolution=32).load()
    pose = data.factors.select(("scale", "orientation", "x", "y"))
    assert len(data) == 400
    assert pose.kinds == ("continuous",) * 4
    low, high = np.array([0.5, 0, 0, 0]), np.array([1, 2 * np.pi, 1, 1])
    assert (pose.values >= low).all()
    assert (pose.values <= high).all()
    assert (np.ptp(pose.values, axis=0) > 0.9 * (high - low)).all()
    shape = data.factors.column("shape")
    assert set(shape) == {0, 1, 2}
    names = np.array(["square", "ellipse", "heart"])[shape.astype(int)]
    rows = np.arange(0, 400, 7)
    expected = render_sprites(names[rows], *pose.values[rows].T, resolution=32)
    np.testing.assert_array_equal(data.observations(rows).max(axis=1) > 0, expected)
    other = DSprites(continuous=True, size=400, seed=6, colour=colour, resolution=32).load()
    assert not np.array_equal(other.factors.values, data.factors.values)


def test_reading_no_rows():
    assert DSprites(**SMALL).load().observations([]).shape == (0, 1, 64, 64)
    assert DSprites(**SMALL, cached=False, colour="rgb").load().observations([]).shape == (0, 3, 64, 64)


def test_data_set_travels_to_other_processes_without_its_images():
    data = DSprites(steps=(2, 4, 16, 16)).load()
    images = data.observations([9])
    sent = pickle.dumps(data.read)
    assert len(sent) < 100_000 < data.read.bits.bytes
    np.testing.assert_array_equal(pickle.loads(sent)(np.array([9])), images)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shapes": ()}, "shapes"),
        ({"shapes": ("heart", "heart")}, "names a value twice"),
        ({"shapes": ("hart",)}, "'heart' or 'triangle'"),
        ({"steps": (6, 40, 0, 32)}, "steps"),
        ({"resolution": 4}, "resolution"),
        ({"colour": "blue"}, "colour"),
        ({"subset": 737_281}, "there are 737280 images"),
        ({"subset": 0}, "subset"),
        ({"continuous": True, "subset": 5}, "set 'size' instead"),
        ({"resolution": 256}, "cached=false"),
        ({"seed": -1}, "seed"),
        ({"orientations": (50, 20)}, "the smaller first"),
        ({"orientations": (0, 400)}, "between -360 and 360"),
        ({"orientations": (float("nan"), 50)}, "orientations"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ConfigError, match=message):
        DSprites(**settings)


def test_large_images_without_cache_are_allowed():
    assert DSprites(resolution=256, cached=False).load().observations([700_000]).shape == (1, 1, 256, 256)


def test_settings_survive_json():
    settings = DSprites(subset=7, shapes=("triangle",), colour="palette")
    assert DSprites.from_dict(settings.to_dict()) == settings
