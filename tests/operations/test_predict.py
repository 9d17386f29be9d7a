"""Prediction: the clip as given, then the system's own frames."""

import numpy as np
import pytest

from toy_blobs import Blobs, Clips
from unweave.base.errors import ConfigError, ShapeError, UnweaveError
from unweave.operations import predict
from unweave.operations.predict import PredictParams


@pytest.fixture
def system():
    return Clips(steps=4)


def test_the_clip_above_and_its_continuation_below(system):
    inputs = system.inputs(2)
    shown = predict(system, inputs, PredictParams(steps=3))
    assert shown.images.shape == (4, 7, 3, 16, 16)
    assert shown.rows == ("clip #0", "predicted #0", "clip #1", "predicted #1")
    assert shown.columns == ("0", "1", "2", "3", "+1", "+2", "+3")
    assert shown.moves == "forward"
    for n in range(2):
        clip, continued = shown.images[2 * n], shown.images[2 * n + 1]
        np.testing.assert_array_equal(clip[:4], inputs.observations[n])
        assert np.isnan(clip[4:]).all()
        np.testing.assert_array_equal(continued, inputs.observations[n][[0, 1, 2, 3, 2, 1, 0]])


def test_fewer_frames_given_leave_some_to_compare(system):
    inputs = system.inputs(1)
    shown = predict(system, inputs, PredictParams(steps=1, given=2))
    assert shown.rows == ("clip", "predicted")
    assert shown.columns == ("0", "1", "+1", "+2")
    np.testing.assert_array_equal(shown.images[0], inputs.observations[0])
    np.testing.assert_array_equal(shown.images[1, :3], inputs.observations[0][[0, 1, 0]])
    assert np.isnan(shown.images[1, 3]).all()


def test_what_cannot_be_predicted_is_refused(system):
    with pytest.raises(ConfigError, match="given=5 is more than the 4 frames"):
        predict(system, system.inputs(1), PredictParams(given=5))
    images = Blobs()
    with pytest.raises(UnweaveError, match="predict needs clips"):
        predict(images, images.inputs(1))
    system.predict = lambda batch, steps: batch.observations.numpy()
    with pytest.raises(ShapeError, match=r"expected \(1, 14, 3, 16, 16\)"):
        predict(system, system.inputs(1))
