"""Traversal against the same pictures rendered one by one."""

import numpy as np
import pytest

from toy_blobs import Blobs
from unweave.base.errors import ConfigError, UnknownNameError
from unweave.operations import traverse
from unweave.operations.traverse import TraverseParams


@pytest.fixture
def system():
    return Blobs()


def test_each_picture_is_the_code_with_one_number_changed(system):
    inputs = system.inputs(1)
    shown = traverse(system, inputs, TraverseParams(dims=("z[2]", "z[0]"), steps=5, low=-1, high=3))
    assert shown.rows == ("z[2]", "z[0]")
    assert shown.columns == ("-1", "0", "1", "2", "3")
    assert shown.moves
    values, spreads = inputs.reference["z"], inputs.reference.spread("z")
    for row, d in enumerate((2, 0)):
        deviation = np.sqrt(np.var(values[:, d]) + np.mean(spreads[:, d] ** 2))
        for column, t in enumerate((-1, 0, 1, 2, 3)):
            z = inputs.codes["z"].copy()
            z[0, d] = values[:, d].mean() + t * deviation
            expected = system.render(inputs.codes.replace(z=z))[0]
            np.testing.assert_allclose(shown.images[row, column], expected, atol=1e-6)


def test_latent_units_are_the_codes_own_numbers(system):
    inputs = system.inputs(1)
    shown = traverse(system, inputs, TraverseParams(dims=("z[1]",), steps=3, low=-1.5, high=1.5, unit="latent"))
    z = inputs.codes["z"].copy()
    z[0, 1] = 1.5
    np.testing.assert_allclose(shown.images[0, 2], system.render(inputs.codes.replace(z=z))[0], atol=1e-6)


def test_the_most_informative_come_first_and_unused_last(system):
    shown = traverse(system, system.inputs(1))
    assert shown.rows[:3] == ("z[0]", "z[1]", "z[2]")
    assert set(shown.rows[-2:]) == {"z[4]", "z[5]"}
    assert traverse(system, system.inputs(1), TraverseParams(most=2)).rows == ("z[0]", "z[1]")


def test_an_unused_dimension_changes_nothing(system):
    images = traverse(system, system.inputs(1), TraverseParams(dims=("z[4]",))).images
    assert np.ptp(images, axis=1).max() == 0


def test_a_category_shows_each_of_its_values(system):
    inputs = system.inputs(1)
    shown = traverse(system, inputs, TraverseParams(dims=("shape",)))
    assert shown.images.shape[:2] == (1, 3)
    assert shown.columns == ("0", "1", "2")
    for category in range(3):
        expected = system.render(inputs.codes.replace(shape=np.eye(3)[[category]]))[0]
        np.testing.assert_allclose(shown.images[0, category], expected, atol=1e-6)


def test_rows_of_different_length_leave_cells_empty(system):
    shown = traverse(system, system.inputs(1), TraverseParams(dims=("z[0]", "shape", "count"), steps=5))
    empty = np.isnan(shown.images).reshape(3, 5, -1).all(axis=2)
    assert empty.sum(axis=1).tolist() == [0, 2, 2]
    wider = traverse(system, system.inputs(1), TraverseParams(dims=("z[0]", "shape"), steps=2))
    assert wider.images.shape[:2] == (2, 3)
    assert wider.columns == ("-2", "2", "")


def test_several_inputs_stand_below_each_other(system):
    inputs = system.inputs(3)
    shown = traverse(system, inputs, TraverseParams(dims=("z[0]", "z[1]"), steps=4))
    assert shown.rows == tuple(f"z[{d}] of #{row}" for d in range(2) for row in range(3))
    alone = traverse(system, system.inputs(1), TraverseParams(dims=("z[1]",), steps=4))
    np.testing.assert_array_equal(shown.images[3], alone.images[0])


def test_bad_parameters_say_what_to_do(system):
    with pytest.raises(UnknownNameError, match=r"did you mean 'z\[1\]'"):
        traverse(system, system.inputs(1), TraverseParams(dims=("z[10]",)))
    with pytest.raises(ConfigError, match="low must be below high"):
        TraverseParams(low=2, high=2)
