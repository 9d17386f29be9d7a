"""Operations on clips: knobs that span time, film strips and GIFs."""

import numpy as np
import pytest
from PIL import Image

from toy_blobs import Clips
from unweave.base.errors import UnknownNameError
from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.core.dataspec import DataSpec
from unweave.knobs import find_columns, find_knobs, information, knobs
from unweave.media import Shown, save_gif, save_png
from unweave.media.pictures import FRAME_MS, HOLD_MS, PAPER, as_pictures, clip_frames, enlarge, film_strips
from unweave.operations import independent, interpolate, predict, reconstruct, sample, swap, traverse

BLOCKS = (
    Block("digit", (4,), kind="simplex"),
    Block("factor", (3, 2), ("time", "dim")),
    Block("mood", (3, 2), ("time", "category"), kind="simplex"),
    Block("object", (2, 3, 2), ("entity", "time", "dim")),
    Block("on", (3,), ("time",), kind="discrete"),
)


@pytest.fixture
def system():
    return Clips(steps=4)


def codes_of(rows=6):
    rng = np.random.default_rng(0)
    values = {block.name: rng.normal(size=(rows, *block.shape)) for block in BLOCKS}
    return Codes(BLOCKS, {**values, "on": rng.integers(0, 3, (rows, 3))})


def test_a_knob_spans_all_steps():
    found = {knob.name: knob for knob in knobs(BLOCKS)}
    assert list(found) == [
        "digit",
        *("factor[:,0]", "factor[:,1]", "mood[:]"),
        *(f"object[{e},:,{d}]" for e in range(2) for d in range(2)),
        "on[:]",
    ]
    codes = codes_of()
    flat = codes.flat()[0]
    np.testing.assert_array_equal(flat[:, list(found["factor[:,1]"].columns)], codes["factor"][:, :, 1])
    np.testing.assert_array_equal(flat[:, list(found["object[1,:,0]"].columns)], codes["object"][:, 1, :, 0])
    np.testing.assert_array_equal(flat[:, list(found["mood[:]"].columns)], codes["mood"].reshape(6, -1))
    np.testing.assert_array_equal(flat[:, found["mood[:]"].by_step[2]], codes["mood"][:, 2])
    assert sorted(column for knob in found.values() for column in knob.columns) == list(range(flat.shape[1]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("factor", ["factor[:,0]", "factor[:,1]"]),
        ("factor[:,1]", ["factor[:,1]"]),
        ("factor[2,1]", ["factor[2,1]"]),
        ("mood[1,0]", ["mood[1]"]),
        ("object[0,2,1]", ["object[0,2,1]"]),
        ("digit[2]", ["digit"]),
    ],
)
def test_names_of_all_steps_and_of_one(name, expected):
    assert [knob.name for knob in find_knobs(BLOCKS, [name])] == expected


def test_one_step_has_its_own_columns():
    columns = [column for block in BLOCKS for column in block.columns]
    assert [columns[c] for c in find_columns(BLOCKS, ["factor[2,1]"])] == ["factor[2,1]"]
    assert [columns[c] for c in find_columns(BLOCKS, ["mood[1,0]"])] == ["mood[1,0]", "mood[1,1]"]
    with pytest.raises(UnknownNameError, match=r"unknown block or dimension 'factor\[3,0\]'"):
        find_columns(BLOCKS, ["factor[3,0]"])


def test_information_over_time_is_the_mean_over_steps(system):
    codes = system.sample_of_data(300)[0]
    known = information(codes)
    steps = []
    for t in range(4):
        block = Block("z", (2,))
        one = Codes((block,), {"z": codes["place"][:, t]}, {"z": codes.spread("place")[:, t]})
        steps.append(information(one)["z[1]"])
    assert known["place[:,1]"] == pytest.approx(np.mean(steps))
    assert known["place[:,1]"] > known["light[:]"] > 0


def test_traverse_moves_all_steps_together(system):
    inputs = system.inputs(1)
    shown = traverse(system, inputs, traverse.params(dims=("place[:,0]", "light[2]", "shape"), steps=3))
    assert shown.rows == ("place[:,0]", "light[2]", "shape")
    assert shown.images.shape == (3, 3, 4, 3, 16, 16)
    values, spreads = inputs.reference["place"][..., 0], inputs.reference.spread("place")[..., 0]
    for column, k in enumerate((-2, 0, 2)):
        place = inputs.codes["place"].copy()
        for t in range(4):
            place[0, t, 0] = values[:, t].mean() + k * np.sqrt(values[:, t].var() + np.mean(spreads[:, t] ** 2))
        expected = system.render(inputs.codes.replace(place=place))[0]
        np.testing.assert_allclose(shown.images[0, column], expected, atol=1e-6)
    same = [0, 1, 3]
    np.testing.assert_allclose(shown.images[1, 0, same], system.render(inputs.codes)[0, same], atol=1e-6)
    assert np.abs(shown.images[1, 0, 2] - shown.images[1, 2, 2]).max() > 0.1


class Mood(Clips):
    """Shows its codes as vectors: a category and a whole number at each step."""

    def render(self, codes, context=None):
        return codes.flat()[0].astype(np.float32)


def test_categories_and_whole_numbers_take_one_value_at_all_steps():
    codes = codes_of()
    system = Mood()
    inputs = system.inputs(1)
    inputs = type(inputs)(codes.flat()[0][:1], codes.take([0]), codes, np.arange(1))
    shown = traverse(system, inputs, traverse.params(dims=("mood", "on")))
    at = {knob.name: list(knob.columns) for knob in knobs(BLOCKS)}
    np.testing.assert_array_equal(shown.images[0, :2, at["mood[:]"]].T, [[1, 0] * 3, [0, 1] * 3])
    np.testing.assert_array_equal(shown.images[1, :, at["on[:]"]].T, [[0] * 3, [1] * 3, [2] * 3])
    system.draw = lambda rows, seed: codes.take(np.arange(rows))
    fixed = sample(system, inputs, sample.params(lines=2, columns=2, fix=("mood",))).images
    np.testing.assert_array_equal(fixed[1, :, at["mood[:]"]].T, [[0, 1] * 3] * 2)


@pytest.mark.parametrize(
    ("operation", "count"), [(reconstruct, 3), (swap, 2), (interpolate, 3), (sample, 0), (traverse, 1)]
)
def test_every_operation_has_clips_in_its_cells(operation, count, system, tmp_path):
    shown = operation(system, system.inputs(count))
    assert shown.has_clips
    assert shown.plays
    assert shown.images.shape[2:] == (4, 3, 16, 16)
    save_png(shown, tmp_path / "clips.png", system.spec)
    with Image.open(save_gif(shown, tmp_path / "clips.gif", system.spec)) as gif:
        assert gif.n_frames == 4


def test_a_film_strip_has_the_frames_side_by_side():
    images = np.random.default_rng(0).random((2, 1, 3, 3, 8, 6))
    images[1] = np.nan
    spec = DataSpec(images.shape[2:], "unit", 2)
    strips = as_pictures(images, spec)
    assert strips.full.tolist() == [[True], [False]]
    assert strips.grid.shape == (2, 1, 48, 3 * 36 + 2, 3)
    for step in range(3):
        alone = enlarge(as_pictures(images[:1, :, step], spec).grid, 48)[0, 0]
        np.testing.assert_array_equal(strips.grid[0, 0, :, step * 37 : step * 37 + 36], alone)
    assert strips.grid[0, 0, 5, 36].tolist() == list(PAPER)
    small = film_strips(clip_frames(images, spec), width=3 * 16)
    assert small.grid.shape == (2, 1, 16, 3 * 12 + 2, 3)


def test_frames_share_one_scale():
    images = np.zeros((1, 1, 2, 1, 4, 4))
    images[0, 0, 1] = 10.0
    frames = clip_frames(images, DataSpec((2, 1, 4, 4), "real", 2))
    assert (frames[0].grid.max(), frames[1].grid.min()) == (0, 255)


def test_a_gif_of_clips_shows_the_whole_grid_forward(system, tmp_path):
    inputs = system.inputs(2)
    shown = reconstruct(system, inputs)
    with Image.open(save_gif(shown, tmp_path / "clips.gif", system.spec)) as gif:
        frames, times = [], []
        for number in range(gif.n_frames):
            gif.seek(number)
            frames.append(np.array(gif.convert("RGB")).astype(int))
            times.append(gif.info["duration"])
        assert gif.info["loop"] == 0
    assert times == [FRAME_MS] * 3 + [HOLD_MS]
    side = 96  # 16 pixels, enlarged
    bottom, right = frames[0].shape[0] - 16, frames[0].shape[1] - 16
    for step in range(4):
        corner = frames[step][bottom - side : bottom, right - side : right]
        expected = enlarge(as_pictures(shown.images[1:, 1:, step], system.spec).grid, side)[0, 0]
        assert np.abs(corner - expected).mean() < 6  # the palette has 256 colours


def test_columns_that_are_time_play_forward_and_leave_blanks(system, tmp_path):
    shown = predict(system, system.inputs(1), predict.params(steps=2))
    save_png(shown, tmp_path / "predicted.png", system.spec)
    with Image.open(save_gif(shown, tmp_path / "predicted.gif", system.spec)) as gif:
        assert gif.n_frames == 6
        gif.seek(5)
        last = np.array(gif.convert("RGB")).astype(int)
    assert np.ptp(last[40:120, 20:100].reshape(-1, 3), axis=0).max() < 8, "the clip has ended: its cell is blank"
    shown = independent(system, system.inputs(1))
    with Image.open(save_gif(shown, tmp_path / "independent.gif", system.spec)) as gif:
        assert gif.n_frames == 4


def test_other_grids_still_go_there_and_back(tmp_path):
    images = np.random.default_rng(0).random((1, 4, 1, 8, 8))
    shown = Shown("way", images, ("",), ("",) * 4, moves=True)
    assert shown.plays
    assert not shown.has_clips
    with Image.open(save_gif(shown, tmp_path / "way.gif")) as gif:
        assert gif.n_frames == 6
    assert not Shown("still", images, ("",), ("",) * 4).plays
