"""Independent generations against clips put together step by step."""

import numpy as np
import pytest

from toy_blobs import Blobs, Clips
from unweave.base.errors import ConfigError, UnknownNameError, UnweaveError
from unweave.operations import independent
from unweave.operations.independent import IndependentParams


@pytest.fixture
def system():
    return Clips(steps=4)


def moved(system, codes, moving: str, hold: int) -> np.ndarray:
    """(T, C, H, W) frames one by one: at step t the moving block is that of t, the others that of `hold`."""
    frames = []
    for t in range(system.steps):
        place = codes["place"][:, t if moving == "place" else hold]
        light = codes["light"][:, t if moving == "light" else hold]
        still = codes.replace(
            place=np.repeat(place[:, None], system.steps, axis=1), light=np.repeat(light[:, None], system.steps, axis=1)
        )
        frames.append(system.render(still)[0, 0])
    return np.stack(frames)


@pytest.mark.parametrize("hold", [1, 3])
def test_one_block_moves_and_the_others_are_held(system, hold):
    inputs = system.inputs(1)
    shown = independent(system, inputs, IndependentParams(hold=hold))
    assert shown.rows == ("original", "reconstruction", "only place", "only light")
    assert shown.columns == ("0", "1", "2", "3")
    assert shown.moves == "forward"
    np.testing.assert_array_equal(shown.images[0], inputs.observations[0])
    np.testing.assert_allclose(shown.images[1], system.render(inputs.codes)[0], atol=1e-6)
    for row, moving in ((2, "place"), (3, "light")):
        np.testing.assert_allclose(shown.images[row], moved(system, inputs.codes, moving, hold), atol=1e-6)
        np.testing.assert_allclose(shown.images[row, hold], shown.images[1, hold], atol=1e-6)
    assert np.ptp(shown.images[2], axis=0).max() > 0.1


def test_default_holds_the_second_frame(system):
    inputs = system.inputs(1)
    held = independent(system, inputs, IndependentParams(hold=1)).images
    np.testing.assert_array_equal(independent(system, inputs).images, held)


def test_a_single_dimension_and_several_inputs(system):
    inputs = system.inputs(2)
    shown = independent(system, inputs, IndependentParams(blocks=("place[:,1]",)))
    assert shown.rows[3:] == ("original of #1", "reconstruction of #1", "only place[:,1] of #1")
    place = inputs.codes["place"].copy()
    place[:, :, 0] = place[:, [1], 0]
    light = np.repeat(inputs.codes["light"][:, [1]], 4, axis=1)
    expected = system.render(inputs.codes.replace(place=place, light=light))
    np.testing.assert_allclose(shown.images[[2, 5]], expected, atol=1e-6)


def test_what_cannot_move_is_refused(system):
    inputs = system.inputs(1)
    with pytest.raises(UnweaveError, match="'shape' has no steps of time and cannot move: name one of place, light"):
        independent(system, inputs, IndependentParams(blocks=("shape",)))
    with pytest.raises(UnknownNameError, match="did you mean 'place'"):
        independent(system, inputs, IndependentParams(blocks=("plaec",)))
    with pytest.raises(ConfigError, match="hold=4 is beyond the last step 3"):
        independent(system, inputs, IndependentParams(hold=4))
    images = Blobs()
    assert not independent.applies_to(images)
    assert independent.applies_to(Clips)
    assert independent.applies_to(system)
    with pytest.raises(UnweaveError, match=r"independent needs clips \(T, C, H, W\)"):
        independent(images, images.inputs(1))
