"""Names of blocks and dimensions, and what they stand for in the matrix of all codes."""

import numpy as np
import pytest

from toy_blobs import Blobs
from unweave.base.config import Config
from unweave.base.errors import UnknownNameError
from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.knobs import Names, find_columns, find_knobs, knobs, render_grid

BLOCKS = (
    Block("digit", (4,), kind="simplex"),
    Block("entity", (2, 3), ("entity", "dim")),
    Block("letter", (2, 3), ("place", "category"), kind="simplex"),
    Block("count", (), (), kind="discrete"),
)


def codes_of(blocks, rows=5):
    rng = np.random.default_rng(0)
    return Codes(blocks, {block.name: rng.normal(size=(rows, *block.shape)) for block in blocks})


def test_a_knob_is_a_number_or_a_whole_simplex():
    found = knobs(BLOCKS)
    assert [knob.name for knob in found] == [
        "digit",
        *(f"entity[{e},{d}]" for e in range(2) for d in range(3)),
        "letter[0]",
        "letter[1]",
        "count",
    ]
    assert found[0].columns == (0, 1, 2, 3)
    assert found[-2].columns == (13, 14, 15)


def test_columns_of_knobs_hold_the_values_of_their_place():
    codes = codes_of(BLOCKS)
    flat, _ = codes.flat()
    at = {knob.name: list(knob.columns) for knob in knobs(BLOCKS)}
    np.testing.assert_array_equal(flat[:, at["entity[1,2]"]][:, 0], codes["entity"][:, 1, 2])
    np.testing.assert_array_equal(flat[:, at["letter[1]"]], codes["letter"][:, 1])
    np.testing.assert_array_equal(flat[:, at["count"]][:, 0], codes["count"])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("entity[1,0]",), ["entity[1,0]"]),
        (("letter",), ["letter[0]", "letter[1]"]),
        (("digit[2]", "digit"), ["digit"]),
        (("count", "entity[0,1]", "count"), ["count", "entity[0,1]"]),
        (("letter[1,2]",), ["letter[1]"]),
    ],
)
def test_names_find_knobs_in_the_order_named(names, expected):
    assert [knob.name for knob in find_knobs(BLOCKS, names)] == expected


def test_columns_are_ascending_and_unique():
    assert find_columns(BLOCKS, ("count", "digit", "digit[1]")).tolist() == [0, 1, 2, 3, 16]


def test_an_unknown_name_lists_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown block or dimension 'entity\[1,9\]': did you mean 'entity\[1"):
        find_knobs(BLOCKS, ("entity[1,9]",))
    with pytest.raises(UnknownNameError, match="did you mean 'digit'"):
        find_knobs(BLOCKS, ("digits",))


@pytest.mark.parametrize(
    ("given", "expected"),
    [("z[1,3], style", ("z[1,3]", "style")), (["a", "b"], ("a", "b")), ("", ()), ("z[0]", ("z[0]",))],
)
def test_names_are_read_from_text_or_sequences(given, expected):
    class Params(Config):
        names: Names = ()
        """Names."""

    assert Params(names=given).names == expected


def test_render_grid_renders_each_full_cell_once_and_leaves_the_others_empty():
    system = Blobs()
    inputs = system.inputs(3)
    flat, _ = inputs.codes.flat()
    cells = np.full((2, 2, flat.shape[1]), np.nan)
    cells[0, 0], cells[0, 1], cells[1, 0] = flat
    system.rendered = 0
    images = render_grid(system, inputs.codes, cells, at_once=2)
    assert system.rendered == 3
    np.testing.assert_array_equal(images[1, 0], system.render(inputs.codes.take([2]))[0])
    assert np.isnan(images[1, 1]).all()
