"""Blocks name their numbers; codes are immutable, editable by replacement, and flatten to a matrix and back."""

import numpy as np
import pytest

from unweave.base.errors import ConfigError, ShapeError, UnknownNameError
from unweave.core.block import Block
from unweave.core.codes import Codes

BLOCKS = (Block("digit", (3,), kind="simplex"), Block("entity", (2, 2), axes=("entity", "dim")))


def some_codes(rows=4):
    rng = np.random.default_rng(0)
    values = {"digit": rng.dirichlet(np.ones(3), rows), "entity": rng.normal(size=(rows, 2, 2))}
    return Codes(BLOCKS, values, {"entity": np.full((rows, 2, 2), 0.1)})


def test_columns_name_every_number():
    assert BLOCKS[0].columns == ("digit[0]", "digit[1]", "digit[2]")
    assert BLOCKS[1].columns == ("entity[0,0]", "entity[0,1]", "entity[1,0]", "entity[1,1]")
    assert Block("count", (), axes=()).columns == ("count",)


def test_flat_and_back():
    codes = some_codes()
    matrix, names = codes.flat()
    assert matrix.shape == (4, 7)
    assert names == codes.columns
    back = codes.unflat(matrix)
    for name in codes:
        np.testing.assert_array_equal(back[name], codes[name])
    np.testing.assert_array_equal(matrix[:, 3:], codes["entity"].reshape(4, 4))
    spreads = codes.flat_spread()
    assert np.isnan(spreads[:, :3]).all()
    assert (spreads[:, 3:] == 0.1).all()


def test_codes_do_not_change():
    values = {"digit": np.zeros((1, 3)), "entity": np.zeros((1, 2, 2))}
    codes = Codes(BLOCKS, values)
    values["digit"][0, 0] = 9
    assert codes["digit"][0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        codes["digit"][0, 0] = 1


def test_replace_keeps_the_rest_and_drops_the_spread():
    codes = some_codes()
    edited = codes.replace(entity=np.zeros((4, 2, 2)))
    np.testing.assert_array_equal(edited["digit"], codes["digit"])
    assert edited.spread("entity") is None
    assert codes.spread("entity") is not None


def test_take_and_concatenate():
    codes = some_codes()
    twice = Codes.concatenate([codes.take([0, 1]), codes.take([2, 3])])
    for name in codes:
        np.testing.assert_array_equal(twice[name], codes[name])
    np.testing.assert_array_equal(twice.spread("entity"), codes.spread("entity"))
    assert codes.take([2, 2, 0]).rows == 3


def test_membership_is_a_question_and_not_an_error():
    assert "digit" in some_codes()
    assert "digits" not in some_codes()
    assert some_codes().get("digits") is None


def test_mistakes_are_named():
    codes = some_codes()
    with pytest.raises(UnknownNameError, match="unknown block 'digits': did you mean 'digit'"):
        codes.replace(digits=np.zeros((4, 3)))
    with pytest.raises(ShapeError, match="lack block 'entity'"):
        Codes(BLOCKS, {"digit": np.zeros((1, 3))})
    with pytest.raises(ShapeError, match=r"block 'digit' has values of shape \(4, 2\)"):
        codes.replace(digit=np.zeros((4, 2)))
    with pytest.raises(ShapeError, match="different numbers of rows"):
        Codes(BLOCKS, {"digit": np.zeros((1, 3)), "entity": np.zeros((2, 2, 2))})
    with pytest.raises(ShapeError, match=r"expected \(rows, 7\)"):
        codes.unflat(np.zeros((2, 6)))
    with pytest.raises(ConfigError, match="name each axis"):
        Block("z", (2, 3))
    with pytest.raises(ConfigError, match="identifier"):
        Block("my style", (2,))
