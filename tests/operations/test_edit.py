"""Edits against codes changed by hand."""

import numpy as np
import pytest

from toy_blobs import Blobs, Clips
from unweave.base.errors import ConfigError, UnknownNameError, UnweaveError
from unweave.core.capabilities import Decodes, Encodes
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


def test_a_seed_begins_with_a_draw_of_the_prior(system):
    inputs = system.inputs(2)
    shown = edit(system, inputs, EditParams(seed=5))
    drawn = system.draw(1, 5)
    assert 0.02 < drawn["shape"].max() < 0.98  # no category has it all: the shares are kept as drawn
    np.testing.assert_allclose(shown.images[:, 2], np.repeat(system.render(drawn), 2, axis=0), atol=1e-6)
    np.testing.assert_allclose(shown.images[:, 1], system.render(inputs.codes), atol=1e-6)
    assert shown.title == "Edit of draw 5: nothing is set"


def test_what_is_set_comes_after_the_draw(system):
    shown = edit(system, system.inputs(1), EditParams(seed=0, set="z[2]=1.5"))
    drawn = system.draw(1, 0)
    z = drawn["z"].copy()
    z[:, 2] = 1.5
    np.testing.assert_allclose(shown.images[:, 2], system.render(drawn.replace(z=z)), atol=1e-6)
    assert shown.title == "Edit of draw 0: z[2]=1.5"


def test_a_seed_needs_a_system_that_samples(system):
    class NoPrior(Encodes, Decodes):
        render = Blobs.render
        side, channels, vector, rendered = 24, 1, False, 0

    edit(NoPrior(), system.inputs(1), EditParams(set="z[2]=1"))
    with pytest.raises(UnweaveError, match="needs a system that samples"):
        edit(NoPrior(), system.inputs(1), EditParams(seed=0))


@pytest.mark.parametrize(("text", "seed"), [("3", 3), ("0", 0), ("none", None)])
def test_a_seed_is_read_from_text(text, seed):
    assert EditParams().override({"seed": text}).seed == seed
    with pytest.raises(ConfigError, match="seed"):
        EditParams().override({"seed": "-1"})


@pytest.mark.parametrize("text", ["z[2]", "z[2]=", "z[2]=one", "z[2]=nan", "=1", "z[2]=1=2", "z[2]=inf", "z[2]=1e300"])
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
