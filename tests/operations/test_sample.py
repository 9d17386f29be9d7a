"""Samples: the system's own draws, with parts of them held along rows."""

import numpy as np
import pytest

from toy_blobs import Blobs
from unweave.base.errors import UnknownNameError
from unweave.operations import sample
from unweave.operations.sample import SampleParams


@pytest.fixture
def system():
    return Blobs()


def test_pictures_are_the_draws_row_by_row(system):
    shown = sample(system, system.inputs(0), SampleParams(lines=2, columns=3, seed=5))
    expected = system.render(system.draw(6, 5)).reshape(2, 3, 1, 24, 24)
    np.testing.assert_allclose(shown.images, expected, atol=1e-6)


def test_the_seed_decides(system):
    one, again, other = (sample(system, system.inputs(0), SampleParams(seed=seed)).images for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_fixed_dimensions_are_the_same_along_a_row(system):
    params = SampleParams(lines=2, columns=3, seed=0, fix=("z[0]", "z[1]", "z[2]", "z[3]", "shape", "count"))
    images = sample(system, system.inputs(0), params).images
    assert np.ptp(images, axis=1).max() == 0  # all that has an effect is fixed
    assert np.ptp(images, axis=0).max() > 0.1


def test_a_fixed_category_takes_its_values_in_turn(system):
    shown = sample(system, system.inputs(0), SampleParams(lines=4, columns=2, fix=("shape",)))
    drawn = system.draw(8, 0)
    turns = np.eye(3)[np.repeat([0, 1, 2, 0], 2)]
    expected = system.render(drawn.replace(shape=turns)).reshape(4, 2, 1, 24, 24)
    np.testing.assert_allclose(shown.images, expected, atol=1e-6)
    assert shown.rows == ("shape 0", "shape 1", "shape 2", "shape 0")


def test_an_unknown_block_lists_the_nearest(system):
    with pytest.raises(UnknownNameError, match="did you mean 'shape'"):
        sample(system, system.inputs(0), SampleParams(fix=("shapes",)))
