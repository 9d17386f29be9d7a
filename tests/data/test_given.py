"""Observations that a person gives: read as the data were, each change told, each mistake one line."""

import numpy as np
import pytest
from PIL import Image

from unweave.base.errors import DataError
from unweave.core.dataspec import DataSpec
from unweave.data import DATA, load, source
from unweave.data._given import Given

GREY, COLOUR = DataSpec((1, 8, 8), "unit", 10), DataSpec((3, 8, 12), "unit", 10)
RNG = np.random.default_rng(0)


def read(given, spec, origin=None):
    """(all observations, what was told)."""
    made = Given(given, spec, origin)
    seen = made.observations(range(len(made)))
    assert seen.dtype == np.float32
    assert seen.shape[1:] == spec.shape
    return seen, made.note


# Arrays ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 8, 12), (1, 3, 8, 12), (5, 3, 8, 12)])
def test_arrays_in_the_shape_of_the_data_are_taken_as_they_are(shape):
    x = RNG.random(shape, dtype=np.float32)
    seen, told = read(x, COLOUR)
    np.testing.assert_array_equal(seen, x.reshape(-1, 3, 8, 12))
    assert told == ""


@pytest.mark.parametrize("batch", [(), (1,), (4,)])
def test_channels_may_be_last(batch):
    x = RNG.random((*batch, 8, 12, 3))
    seen, _ = read(x, COLOUR)
    np.testing.assert_allclose(seen, np.moveaxis(x.reshape(-1, 8, 12, 3), -1, 1), rtol=1e-6)


@pytest.mark.parametrize("shape", [(8, 8), (1, 8, 8), (8, 8, 1), (5, 8, 8), (5, 1, 8, 8), (5, 8, 8, 1)])
def test_grey_images_need_no_axis_of_channels(shape):
    x = RNG.random(shape)
    np.testing.assert_allclose(read(x, GREY)[0], x.reshape(-1, 1, 8, 8), rtol=1e-6)


def test_a_cube_is_read_as_the_data_are():
    """(3, 3, 3) could be read in two ways: channels first is how the data are."""
    x = RNG.random((3, 3, 3))
    np.testing.assert_allclose(read(x, DataSpec((3, 3, 3), "unit", 1))[0][0], x, rtol=1e-6)


def test_bytes_are_divided_and_told():
    x = RNG.integers(0, 256, (2, 8, 8), dtype=np.uint8)
    seen, told = read(x, GREY)
    np.testing.assert_allclose(seen[:, 0], x / 255, atol=1e-6)
    assert told == "bytes 0..255 divided by 255"


def test_a_dark_picture_of_bytes_is_still_one_of_bytes():
    assert read(np.ones((8, 8), dtype=np.uint8), GREY)[0].max() == pytest.approx(1 / 255)


def test_two_colours():
    binary = DataSpec((1, 2, 2), "binary", 10)
    assert read(np.array([[0, 255], [127, 128]], dtype=np.uint8), binary)[0].ravel().tolist() == [0, 1, 0, 1]
    seen, told = read(np.array([[0, 1], [1, 1]], dtype=np.uint8), binary)
    assert seen.ravel().tolist() == [0, 1, 1, 1]
    assert told == ""
    seen, told = read(np.array([[0.2, 0.6], [1, 0]]), binary)
    assert seen.ravel().tolist() == [0, 1, 1, 0]
    assert told == "0 or 1 by the threshold 0.5"
    assert read(np.array([[True, False], [True, False]]), binary)[1] == ""


@pytest.mark.parametrize(
    ("shape", "kind"), [((16, 16), "u1"), ((3, 16, 16), "u1"), ((16, 16), "f4"), ((2, 16, 16, 1), "f8")]
)
def test_images_of_another_size_are_resized(shape, kind):
    x = np.full(shape, 204 if kind == "u1" else 0.8, dtype=kind)
    seen, told = read(x, GREY)
    np.testing.assert_allclose(seen, 0.8, atol=1e-6)
    assert "resized 16 x 16 to 8 x 8 (the middle, scaled)" in told


def test_floats_and_bytes_are_resized_alike():
    x = RNG.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    np.testing.assert_allclose(read(x, COLOUR)[0], read(x / np.float32(255), COLOUR)[0], atol=0.005)


def test_sharp_edges_do_not_leave_the_range():
    x = np.zeros((20, 20), dtype=np.float32)
    x[:, 9:] = 1
    seen, _ = read(x, GREY)
    assert seen.min() >= 0
    assert seen.max() <= 1


def test_vectors_clips_and_numbers_of_other_kinds():
    vectors = DataSpec((5,), "real", 10)
    assert read(np.arange(5) - 2.0, vectors)[0].tolist() == [[-2, -1, 0, 1, 2]]
    assert read(np.zeros((3, 5)), vectors)[0].shape == (3, 5)
    assert read([[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]], vectors)[0].shape == (2, 5)
    clips = DataSpec((4, 3, 8, 8), "unit", 10)
    x = RNG.random((2, 4, 8, 8, 3))
    np.testing.assert_allclose(read(x, clips)[0], np.moveaxis(x, -1, 2), rtol=1e-6)
    assert read(RNG.random((4, 8, 8)), DataSpec((4, 1, 8, 8), "unit", 10))[0].shape == (1, 4, 1, 8, 8)
    counts = DataSpec((3,), "counts", 10)
    assert read(np.array([0, 7, 2], dtype=np.uint8), counts)[0].tolist() == [[0, 7, 2]]


def test_tensors_are_arrays_too():
    import torch

    assert read(torch.full((8, 8), 0.5, requires_grad=True), GREY)[0].mean() == 0.5


# Pictures and files ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "training"
    for name in ("a", "b"):
        (place / name).mkdir(parents=True)
        for number in range(3):
            pixels = RNG.integers(0, 256, (10, 14, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / name / f"{number}.png")
    return place


@pytest.mark.parametrize(
    "settings",
    [{}, {"resize": 8}, {"resize": (8, 12), "channels": "grey"}, {"channels": "rgb"}],
    ids=["as they are", "square", "grey", "colour"],
)
def test_a_folder_is_read_as_in_training_bit_for_bit(folder, settings):
    data, origin = load(folder, **settings), source(folder, **settings)
    trained = data.observations(range(len(data)))
    made = Given(folder, data.spec, origin)
    np.testing.assert_array_equal(made.observations(range(len(made))), trained)
    assert made.names == ("a/0.png", "a/1.png", "a/2.png", "b/0.png", "b/1.png", "b/2.png")
    one = Given(str(folder / "b" / "1.png"), data.spec, origin)
    np.testing.assert_array_equal(one.observations([0])[0], trained[4])
    assert one.names == ("1.png",)
    with Image.open(folder / "b" / "1.png") as image:
        np.testing.assert_array_equal(read(image, data.spec, origin)[0][0], trained[4])


def test_what_was_done_is_told_on_one_line(folder):
    Image.fromarray(RNG.integers(0, 256, (8, 8), dtype=np.uint8)).save(folder / "c.png")
    _, told = read(folder, GREY)
    assert told.split("; ") == [
        "made grey: 6 of 7",
        "resized 10 x 14 to 8 x 8 (the middle, scaled): 6 of 7",
        "bytes 0..255 divided by 255",
    ]
    for number, side in enumerate((9, 11)):
        Image.new("L", (side, side)).save(folder / f"d{number}.png")
    assert "resized from 3 sizes, such as: resized 10 x 14 to 8 x 8" in read(folder, GREY)[1]


def test_lists_of_anything(folder, tmp_path):
    np.save(tmp_path / "two.npy", RNG.random((2, 3, 8, 12)))
    given = [folder / "a" / "0.png", Image.new("L", (12, 8), 51), np.zeros((8, 12, 3)), tmp_path / "two.npy", folder]
    made = Given(given, COLOUR)
    assert len(made) == 1 + 1 + 1 + 2 + 6
    assert made.names[:5] == ("0.png", "", "", "", "")
    np.testing.assert_allclose(made.observations([1, 2])[:, 0, 0, 0], [0.2, 0])
    assert Given([np.zeros((8, 8)), np.zeros((2, 8, 8))], GREY).names is None


def test_transparency_and_turned_photographs(tmp_path):
    image = Image.new("RGBA", (8, 8), (255, 255, 255, 0))
    image.paste((255, 255, 255, 255), (0, 0, 4, 8))
    seen, told = read(image, GREY)
    assert seen[0, 0, :, :4].min() == 1
    assert seen[0, 0, :, 4:].max() == 0
    assert told == "what is transparent on black; made grey; bytes 0..255 divided by 255"
    photograph, exif = Image.new("L", (32, 32)), Image.Exif()
    photograph.paste(255, (0, 0, 32, 16))
    exif[0x0112] = 3  # held upside down
    photograph.save(tmp_path / "photo.jpg", exif=exif)
    assert read(tmp_path / "photo.jpg", GREY)[0][0, 0, 4:].mean() > 0.9


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_digits_with_a_margin_get_one(name):
    x = RNG.integers(0, 256, (28, 28), dtype=np.uint8)
    seen, told = read(Image.fromarray(x), DataSpec((1, 32, 32), "unit", 10), DATA[name](size=32))
    np.testing.assert_allclose(seen[0, 0, 2:-2, 2:-2], x / 255, atol=1e-6)
    assert seen[0, 0, :2].max() == seen[0, 0, :, -2:].max() == 0
    assert "with a black margin" in told


def test_faces_are_averaged_or_get_bars():
    spec = DataSpec((1, 8, 8), "unit", 10)
    high = Image.new("L", (8, 16), 255)
    assert read(high, spec, DATA["yaleb"](size=8))[0].min() == 1
    with_bars = read(high, spec, DATA["yaleb"](size=8, square="pad"))[0][0, 0]
    assert with_bars[:, 2:6].min() == 1
    assert with_bars[:, :2].max() == with_bars[:, 6:].max() == 0
    assert "(the middle, scaled)" in read(high, spec, DATA["olivetti"]())[1]


def test_arrays_in_files(tmp_path):
    x = RNG.random((4, 8, 8))
    np.save(tmp_path / "x.npy", x)
    np.testing.assert_allclose(read(tmp_path / "x.npy", GREY)[0][:, 0], x, rtol=1e-6)
    np.savez(tmp_path / "one.npz", anything=x)
    assert len(Given(tmp_path / "one.npz", GREY)) == 4
    np.savez(tmp_path / "x.npz", images=x, angle=np.arange(4))
    origin = source(tmp_path / "x.npz", key="images")
    assert len(Given(tmp_path / "x.npz", GREY, origin)) == 4
    with pytest.raises(DataError, match=r"holds images, angle: save one alone as .npy"):
        Given(tmp_path / "x.npz", GREY)
    np.savez(tmp_path / "y.npz", pictures=x, angle=np.arange(4))
    with pytest.raises(KeyError, match=r"unknown array of .*'images'"):
        Given(tmp_path / "y.npz", GREY, origin)


# Mistakes --------------------------------------------------------------------------------------------------------


def with_nan(shape):
    x = np.zeros(shape)
    x[..., 1, 2] = np.nan
    return x


@pytest.mark.parametrize(
    ("given", "spec", "told"),
    [
        (np.zeros((5, 8, 8, 3)), GREY, r"shape \(5, 8, 8, 3\): .* shape \(1, 8, 8\).* with 1 channel; pictures"),
        (np.zeros((8, 12)), COLOUR, r"shape \(8, 12\): .* with 3 channels"),
        (np.zeros((8, 12, 4)), COLOUR, r"a batch \(N, 3, 8, 12\)"),
        (np.zeros((3, 50, 3)), COLOUR, r"can be read in two ways: give it as \(N, C, H, W\), in the size 8 x 12"),
        (np.zeros(()), GREY, r"shape \(\)"),
        (np.zeros((0, 8, 8)), GREY, "is empty"),
        ([], GREY, "the list is empty"),
        (with_nan((4, 8, 8)), GREY, r"observation 0 is nan at \(0, 1, 2\)"),
        (np.full((8, 8), 1.5), GREY, r"values 1.5 to 1.5.* trained on values 0 to 1: .* bytes 0 to 255"),
        (np.full((8, 8), -0.1), GREY, "first outside in observation 0"),
        (np.full((8, 8), 255), GREY, r"int64 values 255 to 255.*type uint8"),
        (np.full((8, 8), "a"), GREY, "type <U1: give an array of numbers"),
        (np.full(5, 0.5), DataSpec((5,), "counts", 1), "whole numbers: round them"),
        (np.full(5, -1), DataSpec((5,), "counts", 1), "values 0 to inf"),
        (np.full(5, 9), DataSpec((5,), "levels", 1, levels=4), "values 0 to 3"),
        (np.zeros((9, 9)), DataSpec((1, 8, 8), "counts", 1), "cannot be resized"),
        (np.zeros(6), DataSpec((5,), "real", 1), r"shape \(6,\): .* shape \(5\); give one of them or .* \(N, 5\)$"),
        (np.zeros((5, 1, 8, 8)), DataSpec((4, 1, 8, 8), "unit", 1), r"shape \(5, 1, 8, 8\)"),
        (np.ma.masked_array(np.zeros((8, 8)), mask=True), GREY, "masked"),
        ([np.zeros((8, 8)), "nowhere.png"], GREY, "there is no file or folder nowhere.png"),
        ("nowhere.npy", GREY, "there is no file nowhere.npy"),
        (Image.new("L", (8, 8)), DataSpec((5,), "unit", 1), "only images can be pictures; give an array"),
        (Image.new("L", (8, 8)), DataSpec((1, 8, 8), "real", 1), "real values: .* scaled as the training data were"),
        (Image.new("L", (8, 8)), DataSpec((5, 8, 8), "unit", 1), "5 channels"),
        (Image.new("I", (8, 8)), GREY, "pixel format 'I': more than 8 bits"),
        ({"a": 1}, GREY, "cannot encode dict"),
        (None, GREY, "cannot encode NoneType"),
    ],
)  # fmt: skip
def test_mistakes_name_what_differs(given, spec, told):
    with pytest.raises(DataError, match=told) as raised:
        read(given, spec)
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="has no images"):
        Given(tmp_path / "empty", GREY)
    (tmp_path / "notes.txt").write_text("no image")
    with pytest.raises(DataError, match="neither an image"):
        Given(tmp_path / "notes.txt", GREY)
    (tmp_path / "damaged.png").write_bytes(b"\x89PNG\r\n\x1a\nand then nothing")
    with pytest.raises(DataError, match=r"damaged.png is damaged or cannot be read"):
        read(tmp_path / "damaged.png", GREY)
    (tmp_path / "damaged.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(DataError, match=r"damaged.npy is damaged"):
        Given(tmp_path / "damaged.npy", GREY)
    whole = Image.effect_noise((64, 64), 50)
    whole.save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:600])
    with pytest.raises(DataError, match=r"cut.png is damaged"):
        read(tmp_path / "cut.png", GREY)
