"""Edits against codes changed by hand."""

import numpy as np
import pytest
from toy_blobs import Blobs, Clips

from unweave.core.errors import ConfigError, UnknownNameError
from unweave.operations.edit import EditParams, edit


@pytest.fixture
def system():
    return Blobs()


def test_sets_what_is_named_and_nothing_else(system):
    inputs = system.inputs(3)
    shown = edit(system, inputs, EditParams(set="z[2]=1.5, shape=1, count=2"))
    z, shape = inputs.codes["z"].copy(), np.zeros((3, 3))
    z[:, 2], shape[:, 1] = 1.5, 1
    expected = system.render(inputs.codes.replace(z=z, shape=shape, count=np.full(3, 2)))
    np.testing.assert_allclose(shown.images[:, 2], expected, atol=1e-6)
    np.testing.assert_allclose(shown.images[:, 1], system.render(inputs.codes), atol=1e-6)
    np.testing.assert_array_equal(shown.images[:, 0], inputs.observations)
    assert shown.columns == ("input", "reconstruction", "edited")
    assert shown.title == "Edit: z[2]=1.5, shape=1, count=2"


def test_nothing_set_changes_nothing(system):
    shown = edit(system, system.inputs(2), EditParams())
    np.testing.assert_array_equal(shown.images[:, 1], shown.images[:, 2])


def test_a_whole_block_takes_one_number(system):
    inputs = system.inputs(1)
    shown = edit(system, inputs, EditParams(set="z=0.5"))
    expected = system.render(inputs.codes.replace(z=np.full((1, 6), 0.5)))
    np.testing.assert_allclose(shown.images[:, 2], expected, atol=1e-6)


def test_of_a_clip_all_steps_are_set():
    system = Clips()
    inputs = system.inputs(1)
    name = next(block.name for block in inputs.codes.blocks if "time" in block.axes)
    shown = edit(system, inputs, EditParams(set=f"{name}[:,0]=1"))
    value = inputs.codes[name].copy()
    value[:, :, 0] = 1
    np.testing.assert_allclose(shown.images[:, 2], system.render(inputs.codes.replace(**{name: value})), atol=1e-6)


@pytest.mark.parametrize("text", ["z[2]", "z[2]=", "z[2]=one", "z[2]=nan", "=1", "z[2]=1=2", "z[2]=inf"])
def test_what_cannot_be_read_is_told(text):
    with pytest.raises(ConfigError, match="write dimension=number"):
        EditParams(set=text)


@pytest.mark.parametrize(
    ("text", "told"), [("shape=3", "categories 0 to 2"), ("shape=0.5", "whole"), ("count=-1", "whole")]
)
def test_values_a_block_cannot_take_are_told(system, text, told):
    with pytest.raises(ConfigError, match=told):
        edit(system, system.inputs(1), EditParams(set=text))


def test_unknown_dimensions_are_told(system):
    with pytest.raises(UnknownNameError, match="unknown block or dimension 'shapee'"):
        edit(system, system.inputs(1), EditParams(set="shapee=1"))
