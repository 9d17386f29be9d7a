"""Interpolation against loops over the steps."""

import numpy as np
import pytest

from toy_blobs import Blobs
from unweave.base.errors import ConfigError, UnknownNameError, UnweaveError
from unweave.core.codes import Codes
from unweave.operations import interpolate
from unweave.operations.interpolate import InterpolateParams


@pytest.fixture
def system():
    return Blobs()


def mixed(codes: Codes, weights) -> Codes:
    """Codes with weights (n,) of the inputs; the whole number is that of the heaviest input, the later of equals."""
    heaviest = max(range(len(weights)), key=lambda n: (weights[n], n))
    return Codes(
        codes.blocks,
        {
            "shape": sum(w * codes["shape"][n] for n, w in enumerate(weights))[None],
            "z": sum(w * codes["z"][n] for n, w in enumerate(weights))[None],
            "count": codes["count"][[heaviest]],
        },
    )


def test_a_line_between_two_inputs(system):
    inputs = system.inputs(2)
    shown = interpolate(system, inputs, InterpolateParams(steps=5))
    assert shown.images.shape[:2] == (1, 5)
    assert shown.rows == ("#0 to #1",)
    assert shown.moves
    for step, t in enumerate((0, 0.25, 0.5, 0.75, 1)):
        expected = system.render(mixed(inputs.codes, (1 - t, t)))[0]
        np.testing.assert_allclose(shown.images[0, step], expected, atol=1e-6)


def test_neighbours_of_three_inputs(system):
    inputs = system.inputs(3)
    shown = interpolate(system, inputs, InterpolateParams(steps=4))
    assert shown.rows == ("#0 to #1", "#1 to #2")
    np.testing.assert_array_equal(shown.images[0, -1], shown.images[1, 0])
    np.testing.assert_allclose(shown.images[1, -1], system.render(inputs.codes.take([2]))[0], atol=1e-6)


def test_four_inputs_fill_a_square_bilinearly(system):
    inputs = system.inputs(4)
    codes = inputs.codes.replace(count=np.ones(4))  # which of four whole numbers is nearest is another test's matter
    inputs = type(inputs)(inputs.observations, codes, inputs.reference, inputs.rows)
    shown = interpolate(system, inputs, InterpolateParams(steps=3))
    assert shown.images.shape[:2] == (3, 3)
    for row, s in enumerate((0, 0.5, 1)):
        for column, t in enumerate((0, 0.5, 1)):
            weights = ((1 - s) * (1 - t), (1 - s) * t, s * (1 - t), s * t)
            expected = system.render(mixed(codes, weights))[0]
            np.testing.assert_allclose(shown.images[row, column], expected, atol=1e-6)


def test_only_the_named_blocks_move(system):
    inputs = system.inputs(2)
    shown = interpolate(system, inputs, InterpolateParams(steps=3, blocks=("z[0]", "shape")))
    z = inputs.codes["z"][[0]].copy()
    z[0, 0] = inputs.codes["z"][1, 0]
    end = inputs.codes.take([0]).replace(z=z, shape=inputs.codes["shape"][[1]])
    np.testing.assert_allclose(shown.images[0, -1], system.render(end)[0], atol=1e-6)
    assert "z[0], shape only" in shown.title


def test_two_parts_move_by_themselves(system):
    inputs = system.inputs(4)  # more than two inputs: the first two count
    shown = interpolate(system, inputs, InterpolateParams(steps=3, blocks=("shape",), across=("z",)))
    assert shown.images.shape[:2] == (3, 3)
    assert "#0 to #1: shape to the right, z downwards" in shown.title
    kind, z = inputs.codes["shape"], inputs.codes["z"]
    for row, s in enumerate((0, 0.5, 1)):
        for column, t in enumerate((0, 0.5, 1)):
            mixed_kind = (1 - t) * kind[0] + t * kind[1]
            mixed_z = (1 - s) * z[0] + s * z[1]
            expected = system.render(inputs.codes.take([0]).replace(shape=mixed_kind[None], z=mixed_z[None]))[0]
            np.testing.assert_allclose(shown.images[row, column], expected, atol=1e-6)
    rest = interpolate(system, system.inputs(2), InterpolateParams(steps=3, across=("z",)))
    np.testing.assert_allclose(rest.images[0, -1], system.render(inputs.codes.take([1]).replace(z=z[:1]))[0], atol=1e-6)


def test_a_part_cannot_move_both_ways(system):
    for blocks, across in ((("z[0]",), ("z",)), ((), ("shape", "z", "count"))):
        with pytest.raises(ConfigError, match="cannot move both downwards and to the right"):
            interpolate(system, system.inputs(2), InterpolateParams(blocks=blocks, across=across))


def test_bad_requests_say_what_to_do(system):
    with pytest.raises(UnweaveError, match="needs at least 2 inputs: got 1"):
        interpolate(system, system.inputs(1))
    with pytest.raises(UnknownNameError, match="did you mean 'shape'"):
        interpolate(system, system.inputs(2), InterpolateParams(blocks=("shap",)))
    with pytest.raises(ConfigError, match="steps"):
        InterpolateParams(steps=1)
