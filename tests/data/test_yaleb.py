"""Extended Yale B: a small file of the layout, and the real one where it is."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from unweave.base.errors import ConfigError, DataError
from unweave.data import Split, _faces, load
from unweave.data.yaleb import pack


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Four people (there is no 14), three lights each."""
    rng = np.random.default_rng(0)
    arrays = {
        "images": rng.integers(0, 256, (12, 96, 84), dtype=np.uint8),
        "subject": np.repeat([12, 13, 15, 16], 3).astype(np.uint8),
        "azimuth": np.tile([-130, 0, 25], 4).astype(np.int16),
        "elevation": np.tile([20, 0, -35], 4).astype(np.int16),
    }
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    np.savez(tmp_path / "yaleb_cropped_96x84.npz", **arrays)
    return tmp_path, arrays


def averaged(image: np.ndarray, size: int) -> np.ndarray:
    """The mean over each new pixel's area, by loops over a grid so fine that both sizes divide it."""
    side, fine = len(image), np.kron(image.astype(float), np.ones((size, size)))
    return fine.reshape(size, side, size, side).mean(axis=(1, 3))


@pytest.mark.parametrize(("before", "after"), [(84, 32), (12, 5), (7, 7), (96, 48)])
def test_area_averages_against_a_fine_grid(before, after):
    images = np.random.default_rng(1).integers(0, 256, (2, before, before), dtype=np.uint8)
    got = _faces.area_average(images, after, after)
    np.testing.assert_allclose(got, [averaged(image, after) for image in images], rtol=1e-5)
    np.testing.assert_allclose(got.mean(), images.mean(), rtol=1e-5)


def test_pictures_against_the_file(small):
    images = small[1]["images"]
    native = load("yaleb", size=None)
    assert native.spec.shape == (1, 96, 84)
    np.testing.assert_array_equal(native.observations([3, 1])[:, 0], images[[3, 1]] / np.float32(255))
    cropped = load("yaleb", size=28)
    assert cropped.spec.shape == (1, 28, 28)
    np.testing.assert_allclose(cropped.observations([5])[0, 0], averaged(images[5, 6:90], 28) / 255, rtol=1e-5)
    padded = load("yaleb", size=96, square="pad").observations([5])[0, 0]
    np.testing.assert_allclose(padded[:, 6:90], images[5] / 255, rtol=1e-6)
    assert not padded[:, :6].any()
    assert not padded[:, 90:].any()
    assert any("another sha256" in note for note in native.notes)


def test_factors_and_a_part_of_the_people(small):
    data = load("yaleb", size=8)
    assert data.factors.names == ("subject", "azimuth", "elevation")
    assert data.factors.kinds == ("discrete", "continuous", "continuous")
    assert data.factors.column("subject").tolist() == np.repeat([0, 1, 2, 3], 3).tolist()
    assert data.factors.labels[0] == ("12", "13", "15", "16")
    assert data.factors.column("azimuth").tolist() == [-130, 0, 25] * 4
    part = load("yaleb", size=8, subjects="13-15, 16")
    assert part.factors.labels[0] == ("13", "15", "16")
    np.testing.assert_array_equal(part.observations(range(9)), data.observations(range(3, 12)))


def test_one_line_errors(small, monkeypatch):
    folder, arrays = small
    for settings, words in (
        ({"subjects": "14"}, "no subject 14: it has 12, 13, 15, 16"),
        ({"subjects": "12"}, "one person"),
        ({"size": 90}, "larger than the 84 pixels"),
    ):
        with pytest.raises(DataError, match=words):
            load("yaleb", **settings)
    with pytest.raises(ConfigError, match=r"setting 'subjects' .*cannot read 'a'"):
        load("yaleb", subjects="1,a")
    path = folder / "yaleb_cropped_96x84.npz"
    np.savez(path, **{**arrays, "azimuth": arrays["azimuth"][1:]})
    with pytest.raises(DataError, match=r"azimuth of .* shape \(11,\): expected 12 whole numbers"):
        load("yaleb")
    np.savez(path, **{name: array for name, array in arrays.items() if name != "subject"})
    with pytest.raises(DataError, match=r"has no array 'subject' .* expected an .npz with images: uint8"):
        load("yaleb")
    np.savez(path, **{**arrays, "images": arrays["images"] / 255})
    with pytest.raises(DataError, match=r"holds float64 .* expected uint8"):
        load("yaleb")
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DataError, match="is damaged"):
        load("yaleb")
    monkeypatch.setenv("UNWEAVE_DATA", str(folder / "elsewhere"))
    with pytest.raises(DataError, match=r"yaleb_cropped_96x84.npz was not found") as caught:
        load("yaleb")
    assert "\n" not in str(caught.value)
    for word in ("UNWEAVE_DATA", "elsewhere", "azimuth: of the light, degrees", "docs/data/yaleb.md"):
        assert word in str(caught.value)
    assert not (folder / "elsewhere").exists()


def test_packing_the_published_pictures(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    names = ("yaleB01/yaleB01_P00A-005E+10", "yaleB02/yaleB02_P00A+130E-20", "yaleB02/yaleB02_P00_Ambient")
    pixels = {}
    for name in names:
        path = tmp_path / "CroppedYale" / f"{name}.pgm"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels[name] = rng.integers(0, 256, (192, 168), dtype=np.uint8)
        Image.fromarray(pixels[name]).save(path)
    pack(tmp_path / "CroppedYale", tmp_path / "yaleb_cropped_96x84.npz")
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    data = load("yaleb", size=None)
    assert data.factors.values.tolist() == [[0, -5, 10], [1, 130, -20]]
    for row in (0, 1):
        for i, j in ((0, 0), (95, 83), (40, 7)):
            mean = pixels[names[row]][2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean()
            assert abs(255 * data.observations([row])[0, 0, i, j] - mean) <= 0.5 + 1e-4
    with pytest.raises(DataError, match="has no pictures such as"):
        pack(tmp_path / "nothing", tmp_path / "x.npz")


def test_the_real_file(real_data, monkeypatch):
    if not list(real_data.glob("yaleb/*.npz")):
        pytest.skip("yaleb is not among the real data")
    monkeypatch.setenv("UNWEAVE_DATA", str(real_data))
    data = load("yaleb", size=32)
    assert len(data) == 2414
    assert len(data.notes) == 3  # no word of another checksum
    subject = data.factors.column("subject")
    counts = np.bincount(subject.astype(int))
    assert len(counts) == 38
    assert counts.min() == 59
    assert counts.max() == 64
    assert len(np.unique(data.factors.values[:, 1:], axis=0)) == 64
    rows = Split(train=0.6, validation=0.15, by="subject").rows(data)
    people = [set(subject[part]) for part in rows.values()]
    assert [len(some) for some in people] == [23, 5, 10]
    assert len(set.union(*people)) == 38
    # Light from the left brightens the left half of the picture.
    x = data.observations(np.arange(len(data)))[:, 0]
    side = x[:, :, :16].mean((1, 2)) - x[:, :, 16:].mean((1, 2))
    assert abs(np.corrcoef(side, data.factors.column("azimuth"))[0, 1]) > 0.5
