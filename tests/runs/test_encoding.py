"""New observations to codes and codes to observations, in Python: as in training, whatever they come as."""

import numpy as np
import pytest
import torch
from PIL import Image

from unweave.base.errors import DataError, ShapeError, UnweaveError
from unweave.core.codes import Codes
from unweave.data import from_arrays
from unweave.runs import Run, train

SMALL = {"nets.kind": "dense", "nets.hidden": [16], "training.steps": 4, "training.batch_size": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Own images, all of one size but not that of the run."""
    place, rng = tmp_path_factory.mktemp("own") / "images", np.random.default_rng(0)
    for person in ("ada", "ben", "cy"):
        (place / person).mkdir(parents=True)
        for number in range(4):
            pixels = rng.integers(0, 256, (12, 10, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / person / f"{number}.png")
    return place


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    where, small = tmp_path_factory.mktemp("runs") / "own", {**SMALL, "latent": 3}
    return train("vae", str(folder), data_settings={"resize": 8}, settings=small, run=where, progress=False, threads=1)


@pytest.fixture(scope="module")
def groups(folder, tmp_path_factory):
    own = {"resize": 8, "folder_factor": "person"}
    small = {**SMALL, "content": 2, "style": 2, "group": "person"}
    where = tmp_path_factory.mktemp("runs") / "groups"
    return train("mlvae", str(folder), data_settings=own, settings=small, run=where, progress=False, threads=1)


def flat(codes):
    return codes.flat()[0]


def test_images_of_the_training_data_get_their_own_codes(run, folder):
    expected = run.encode_rows(range(12))
    codes = run.encode(folder)
    np.testing.assert_allclose(flat(codes), flat(expected), rtol=1e-5)
    np.testing.assert_allclose(codes.flat_spread(), expected.flat_spread(), rtol=1e-5)
    assert codes.names[:2] == ("ada/0.png", "ada/1.png")
    one = run.encode(folder / "ben" / "1.png")
    np.testing.assert_allclose(flat(one), flat(expected.take([5])), rtol=1e-5)
    x = run.dataset().observations([5])
    for given in (x, x[0], np.moveaxis(x, 1, -1), list(x), torch.from_numpy(x)):
        np.testing.assert_allclose(flat(run.encode(given)), flat(expected.take([5])), rtol=1e-5)
    with Image.open(folder / "ben" / "1.png") as image:
        np.testing.assert_allclose(flat(run.encode([image, image])), flat(expected.take([5, 5])), rtol=1e-5)


def test_a_reopened_run_needs_no_data_for_new_ones(run, folder, tmp_path):
    moved = tmp_path / "away"
    folder.rename(moved)
    try:
        codes = Run.open(run.path).encode(moved)
    finally:
        moved.rename(folder)
    np.testing.assert_allclose(flat(codes), flat(run.encode_rows(range(12))), rtol=1e-5)


def test_what_was_done_is_said_once(run, folder, capsys):
    handle = Run.open(run.path)
    handle.encode(folder / "ada" / "0.png")
    handle.encode(folder / "ada" / "1.png")
    line = "inputs: resized 12 x 10 to 8 x 8 (bilinear, proportions not kept); bytes 0..255 divided by 255\n"
    assert capsys.readouterr().err == line
    heard = []
    Run.open(run.path).encode(folder / "ada" / "0.png", say=heard.append)
    assert heard == [line.strip()]
    assert capsys.readouterr().err == ""
    handle.encode(np.zeros((3, 8, 8)))
    assert capsys.readouterr().err == ""


def test_more_than_one_batch(run):
    x = np.random.default_rng(1).random((600, 3, 8, 8))
    codes = run.encode(x)
    few = flat(run.encode(x[[0, 300, 599]]))
    np.testing.assert_allclose(flat(codes.take([0, 300, 599])), few, rtol=1e-5, atol=1e-6)  # sums of other sizes
    assert run.decode(codes).shape == (600, 3, 8, 8)


def test_decoding_gives_what_the_system_renders(run, folder):
    codes = run.encode(folder)
    x = run.decode(codes)
    assert x.shape == (12, 3, 8, 8)
    assert x.dtype == np.float32
    assert 0 <= x.min() <= x.max() <= 1
    np.testing.assert_array_equal(x, run.system().render(codes))
    matrix = flat(codes)
    for given in (matrix, matrix.tolist(), {"z": matrix}, torch.from_numpy(matrix)):
        np.testing.assert_allclose(run.decode(given), x, rtol=1e-6)
    for given in (matrix[3], {"z": matrix[3]}):
        np.testing.assert_allclose(run.decode(given), x[3:4], rtol=1e-5)
    np.testing.assert_allclose(flat(run.encode(x)), flat(run.encode(list(x))), rtol=1e-6)  # what it decodes it encodes


def test_an_edited_code_changes_the_picture(run, folder):
    codes = run.encode(folder)
    z = codes["z"].copy()
    z[:, 1] += 3
    edited = codes.replace(z=z)
    assert edited.names == codes.names
    assert not np.allclose(run.decode(edited), run.decode(codes))


def test_members_of_a_group_are_encoded_together(groups, folder):
    people = [person for person in ("ada", "ben", "cy") for _ in range(4)]
    expected = groups.encode_rows(range(12), groups=np.repeat([0, 1, 2], 4))
    by_order = groups.encode(folder, groups=people)
    by_name = groups.encode(folder, groups={f"{person}/{n}.png": person for n in range(4) for person in set(people)})
    for codes in (by_order, by_name):
        np.testing.assert_allclose(flat(codes), flat(expected), rtol=1e-4, atol=1e-6)
        assert np.ptp(codes["content"][:4], axis=0).max() == 0
    alone = groups.encode(folder)
    np.testing.assert_allclose(flat(alone), flat(groups.encode_rows(range(12))), rtol=1e-4, atol=1e-6)
    assert np.ptp(alone["content"][:4], axis=0).max() > 0


def test_own_images_are_swapped(groups, folder):
    """The content of one with the style of another, of pictures that are in no data set."""
    first, second = (groups.encode(folder / person / "0.png") for person in ("ada", "ben"))
    mixed = groups.decode(first.replace(style=second["style"]))
    assert mixed.shape == (1, 3, 8, 8)
    np.testing.assert_array_equal(mixed, groups.decode({"content": first["content"], "style": second["style"]}))


def test_data_in_memory_and_vectors(tmp_path):
    rng = np.random.default_rng(0)
    data = from_arrays(rng.normal(size=(40, 5)).astype(np.float32), values="real")
    run = train("vae", data, settings={**SMALL, "latent": 2}, run=tmp_path / "run", progress=False, threads=1)
    codes = Run.open(run.path).encode(data.observations(range(6)))
    np.testing.assert_allclose(flat(codes), flat(run.encode_rows(range(6))), rtol=1e-5)
    assert run.decode(codes).shape == (6, 5)
    assert run.encode(np.zeros(5)).rows == 1
    with pytest.raises(DataError, match=r"shape \(4,\): the run was trained on observations of shape \(5\)"):
        run.encode(np.zeros(4))


def test_clips(tmp_path):
    clips = np.random.default_rng(0).random((12, 4, 1, 16, 16), dtype=np.float32)
    small = {"training.steps": 2, "training.batch_size": 4}
    run = train("video", from_arrays(clips), settings=small, run=tmp_path / "run", progress=False, threads=1)
    codes = run.encode(clips[0])
    np.testing.assert_allclose(flat(codes), flat(run.encode(np.moveaxis(clips[:1], 2, -1))), rtol=1e-5)
    assert run.decode(codes).shape == (1, 4, 1, 16, 16)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (np.zeros((2, 4)), r"shape \(2, 4\): expected \(n, 3\), side by side z\[3\]"),
        (np.zeros((2, 1, 3)), r"shape \(2, 1, 3\)"),
        ({"z": np.zeros((2, 4))}, r"block 'z' has values of shape \(2, 4\): expected \(2, 3\)"),
        ({"y": np.zeros((2, 3))}, "unknown block 'y'"),
        ({}, "codes lack block 'z'"),
        (np.zeros((0, 3)), "no codes to decode"),
        ([[0, np.nan, 0]], "row 0 of block 'z' has nan: expected a finite number"),
        ("codes.csv", "codes are of type <U9: expected numbers"),
        ([[1, 2], [1, 2, 3]], "codes are no array"),
    ],
)
def test_codes_that_are_none_of_the_run(run, given, told):
    with pytest.raises(UnweaveError, match=told) as raised:
        run.decode(given)
    assert "\n" not in str(raised.value)


def test_codes_of_another_run(run, groups, folder):
    with pytest.raises(ShapeError, match=r"codes of content\[2\], style\[2\]: this run has z\[3\]"):
        run.decode(groups.encode(folder))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([0] * 11, r"groups have shape \(11,\) and there are 12 observations"),
        ({"ada/0.png": 1}, "there is no group for 'ada/1.png'"),
    ],
)
def test_groups_that_do_not_fit(groups, folder, given, told):
    with pytest.raises(DataError, match=told):
        groups.encode(folder, groups=given)


def test_groups_where_there_are_none(run, groups, folder):
    with pytest.raises(DataError, match="vae knows no groups"):
        run.encode(folder, groups=[0] * 12)
    with pytest.raises(DataError, match="by file name and the inputs are no files"):
        groups.encode(np.zeros((2, 3, 8, 8)), groups={"a": 1})


def test_names_of_rows():
    run_blocks = Codes.from_flat
    from unweave.core.block import Block

    codes = run_blocks([Block("z", (2,))], np.arange(6).reshape(3, 2)).named(["a", "b", "c"])
    assert codes.take([2, 0]).names == ("c", "a")
    assert Codes.concatenate([codes, codes]).names == ("a", "b", "c") * 2
    assert Codes.concatenate([codes, codes.named(None)]).names is None
    with pytest.raises(ShapeError, match="2 names were given for 3 rows"):
        codes.named(["a", "b"])
