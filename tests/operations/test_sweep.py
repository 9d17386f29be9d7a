"""The sweep against the same pictures rendered one by one."""

import numpy as np
import pytest
from scipy.stats import norm

from toy_blobs import Blobs
from unweave.base.errors import ConfigError
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes
from unweave.core.codes import Codes
from unweave.operations import OPERATIONS, Inputs
from unweave.operations.sweep import SweepParams, sweep


@pytest.fixture
def system():
    return Blobs()


def test_each_picture_is_the_code_with_two_numbers_changed(system):
    inputs = system.inputs(1)
    shown = sweep(system, inputs, SweepParams(dims=("z[2]", "z[0]"), low=-1, high=3, steps=3))
    assert shown.images.shape[:2] == (3, 3)
    assert shown.columns == ("-1", "1", "3")
    assert shown.rows == ("z[2] = -1", "z[2] = 1", "z[2] = 3")
    for row, down in enumerate((-1, 1, 3)):
        for column, across in enumerate((-1, 1, 3)):
            z = inputs.codes["z"].copy()
            z[0, 2], z[0, 0] = down, across
            expected = system.render(inputs.codes.replace(z=z))[0]
            np.testing.assert_allclose(shown.images[row, column], expected, atol=1e-6)


def test_takes_the_two_most_informative_real_dimensions(system):
    shown = sweep(system, system.inputs(1), SweepParams(steps=2))
    named = sweep(system, system.inputs(1), SweepParams(dims=("z[0]", "z[1]"), steps=2))
    np.testing.assert_array_equal(shown.images, named.images)
    assert shown.title == named.title


def test_quantiles_are_equally_likely_under_the_prior(system):
    shown = sweep(system, system.inputs(1), SweepParams(dims=("z[0]", "z[1]"), unit="quantile", steps=5))
    places = [float(name) for name in shown.columns]
    masses = np.diff(norm.cdf(places))
    np.testing.assert_allclose(masses, masses.mean(), atol=3e-3)
    assert places[0] == -2
    assert places[-1] == 2
    assert not np.allclose(np.diff(places), np.diff(places)[0], atol=0.1)


def test_several_inputs_have_a_square_each(system):
    shown = sweep(system, system.inputs(3), SweepParams(dims=("z[0]", "z[1]"), steps=2))
    assert shown.images.shape[:2] == (6, 2)
    assert shown.rows[2] == "z[0] = -2 of #1"
    alone = sweep(system, system.inputs(1), SweepParams(dims=("z[0]", "z[1]"), steps=2))
    np.testing.assert_array_equal(shown.images[:2], alone.images)


def test_one_step_is_the_middle(system):
    shown = sweep(system, system.inputs(1), SweepParams(dims=("z[0]", "z[1]"), low=0, high=2, steps=1))
    assert shown.columns == ("1",)


@pytest.mark.parametrize("dims", [("z[0]",), ("z",), ("z[0]", "shape"), ("count", "z[1]")])
def test_other_than_two_real_dimensions_are_refused(system, dims):
    with pytest.raises(ConfigError, match="a sweep moves two real dimensions"):
        sweep(system, system.inputs(1), SweepParams(dims=dims))


def test_an_empty_range_is_refused():
    with pytest.raises(ConfigError, match="low must be below high"):
        SweepParams(low=1, high=1)


def test_is_in_the_registry():
    assert "sweep" in OPERATIONS


def test_a_dimension_over_time_moves_at_all_its_steps():
    class Clips(Encodes, Decodes):
        def render(self, codes):
            return np.asarray(codes["z"])  # (N, T, D): what is shown is the code

    block = Block("z", (3, 2), ("time", "dim"))
    codes = Codes((block,), {"z": np.arange(6.0).reshape(1, 3, 2)})
    inputs = Inputs(np.zeros((1, 3, 2)), codes, codes, np.zeros(1, dtype=int))
    shown = sweep(Clips(), inputs, SweepParams(dims=("z[:,1]", "z[:,0]"), low=10, high=20, steps=2))
    np.testing.assert_array_equal(shown.images[1, 0], [[10, 20]] * 3)
