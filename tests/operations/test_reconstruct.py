"""Originals over reconstructions."""

import numpy as np

from toy_blobs import Blobs
from unweave.operations import reconstruct
from unweave.operations.reconstruct import ReconstructParams


def test_originals_above_and_what_their_codes_give_below():
    system = Blobs()
    inputs = system.inputs(3)
    shown = reconstruct(system, inputs)
    assert shown.images.shape == (2, 3, 1, 24, 24)
    np.testing.assert_array_equal(shown.images[0], inputs.observations)
    np.testing.assert_allclose(shown.images[1], system.render(inputs.codes), atol=1e-6)
    assert shown.columns == ("#0", "#1", "#2")
    assert not shown.moves


def test_more_inputs_continue_below():
    system = Blobs()
    inputs = system.inputs(5)
    shown = reconstruct(system, inputs, ReconstructParams(columns=3))
    assert shown.images.shape[:2] == (4, 3)
    np.testing.assert_array_equal(shown.images[2, 1], inputs.observations[4])
    np.testing.assert_allclose(shown.images[3, 1], system.render(inputs.codes.take([4]))[0], atol=1e-6)
    assert np.isnan(shown.images[2:, 2]).all()
