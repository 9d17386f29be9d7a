"""Swap against loops over pairs of inputs."""

import numpy as np
import pytest

from toy_blobs import Blobs
from unweave.base.errors import UnknownNameError
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes
from unweave.core.codes import Codes
from unweave.operations import Inputs, swap
from unweave.operations.swap import SwapParams


def test_cells_have_the_block_of_the_row_and_the_rest_of_the_column():
    system = Blobs()
    inputs = system.inputs(3)
    shown = swap(system, inputs, SwapParams(blocks=("shape", "z[1]")))
    assert shown.images.shape[:2] == (4, 4)
    assert np.isnan(shown.images[0, 0]).all()
    for i in range(3):
        np.testing.assert_array_equal(shown.images[0, 1 + i], inputs.observations[i])
        np.testing.assert_array_equal(shown.images[1 + i, 0], inputs.observations[i])
        for j in range(3):
            z = inputs.codes["z"][[j]].copy()
            z[0, 1] = inputs.codes["z"][i, 1]
            mixed = inputs.codes.take([j]).replace(z=z, shape=inputs.codes["shape"][[i]])
            np.testing.assert_allclose(shown.images[1 + i, 1 + j], system.render(mixed)[0], atol=1e-6)


def test_swapping_the_other_blocks_transposes_the_grid():
    system = Blobs()
    inputs = system.inputs(3)
    one = swap(system, inputs, SwapParams(blocks=("shape",))).images[1:, 1:]
    others = swap(system, inputs, SwapParams(blocks=("z", "count"))).images[1:, 1:]
    np.testing.assert_allclose(one, others.swapaxes(0, 1), atol=1e-6)


def test_without_names_the_first_block_is_swapped():
    system = Blobs()
    inputs = system.inputs(2)
    named = swap(system, inputs, SwapParams(blocks=("shape",)))
    np.testing.assert_array_equal(swap(system, inputs).images, named.images)


def test_with_one_block_the_most_informative_dimension_is_swapped():
    class Echo(Encodes, Decodes):
        """Shows its codes as vectors."""

        def render(self, codes: Codes) -> np.ndarray:
            return codes["z"].astype(np.float32)

    means = np.random.default_rng(0).normal(size=(50, 3)) * [0.1, 2.0, 0.5]
    codes = Codes((Block("z", (3,)),), {"z": means}, {"z": np.full((50, 3), 0.2)})
    inputs = Inputs(means[:2].astype(np.float32), codes.take([0, 1]), codes, np.arange(2))
    shown = swap(Echo(), inputs)
    assert "z[1]" in shown.title
    np.testing.assert_allclose(shown.images[1, 2], [means[1, 0], means[0, 1], means[1, 2]], rtol=1e-6)


def test_an_unknown_block_lists_the_nearest():
    system = Blobs()
    with pytest.raises(UnknownNameError, match="did you mean 'count'"):
        swap(system, system.inputs(2), SwapParams(blocks=("counts",)))
