"""Accumulated evidence against loops over members, on a system that shows its codes."""

import numpy as np
import pytest

from toy_blobs import Blobs
from unweave.base.errors import ConfigError, UnknownNameError, UnweaveError
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes
from unweave.core.codes import Codes
from unweave.operations import Inputs, accumulate
from unweave.operations.accumulate import AccumulateParams

BLOCKS = (Block("content", (2,), scope="group"), Block("style", (3,)))


class Echo(Encodes, Decodes):
    """Shows its codes as vectors."""

    def render(self, codes: Codes) -> np.ndarray:
        return codes.flat()[0].astype(np.float32)


def inputs_of(rows: int, groups=None) -> Inputs:
    rng = np.random.default_rng(0)
    values = {"content": rng.normal(size=(rows, 2)), "style": rng.normal(size=(rows, 3))}
    spreads = {"content": np.exp(rng.normal(size=(rows, 2))), "style": np.exp(rng.normal(size=(rows, 3)))}
    codes = Codes(BLOCKS, values, spreads)
    shown = rng.normal(size=(rows, 5)).astype(np.float32)
    return Inputs(shown, codes, codes, np.arange(rows) + 7, None if groups is None else np.asarray(groups))


def product(inputs: Inputs, rows: list[int], block: str = "content") -> np.ndarray:
    precision, weighted = 0.0, 0.0
    for row in rows:
        precision += inputs.codes.spread(block)[row] ** -2
        weighted += inputs.codes[block][row] * inputs.codes.spread(block)[row] ** -2
    return weighted / precision


def test_column_k_has_the_content_of_k_members_and_the_own_style():
    inputs = inputs_of(3)
    shown = accumulate(Echo(), inputs)
    assert shown.images.shape == (3, 4, 5)
    assert shown.columns == ("input", "k = 1", "k = 2", "k = 3")
    assert shown.rows == ("#7", "#8", "#9")
    for row in range(3):
        np.testing.assert_array_equal(shown.images[row, 0], inputs.observations[row])
        for k in (1, 2, 3):
            content = product(inputs, [(row + step) % 3 for step in range(k)])
            expected = np.concatenate([content, inputs.codes["style"][row]])
            np.testing.assert_allclose(shown.images[row, k], expected, rtol=1e-5)
    np.testing.assert_allclose(shown.images[:, 3, :2], np.tile(shown.images[0, 3, :2], (3, 1)), rtol=1e-5)


def test_groups_are_kept_apart_and_smaller_ones_end_early():
    inputs = inputs_of(5, groups=[4, 2, 4, 4, 2])
    shown = accumulate(Echo(), inputs)
    assert shown.rows == ("#7", "#9", "#10", "#8", "#11")
    assert shown.columns[-1] == "k = 3"
    np.testing.assert_allclose(shown.images[1, 2, :2], product(inputs, [2, 3]), rtol=1e-5)
    np.testing.assert_allclose(shown.images[2, 2, :2], product(inputs, [3, 0]), rtol=1e-5)
    np.testing.assert_allclose(shown.images[4, 2, :2], product(inputs, [4, 1]), rtol=1e-5)
    assert np.isnan(shown.images[3:, 3]).all()
    assert np.isfinite(shown.images[:3]).all()


def test_largest_k_and_other_blocks():
    inputs = inputs_of(4)
    shown = accumulate(Echo(), inputs, AccumulateParams(most=2, blocks=("style",)))
    assert shown.images.shape == (4, 3, 5)
    np.testing.assert_allclose(shown.images[3, 2, 2:], product(inputs, [3, 0], "style"), rtol=1e-5)
    np.testing.assert_allclose(shown.images[3, 2, :2], inputs.codes["content"][3], rtol=1e-5)


def test_without_group_blocks_all_accumulate():
    """A simplex has no spreads and is averaged; whole numbers stay the input's own."""
    system = Blobs()
    inputs = system.inputs(2)
    shown = accumulate(system, inputs)
    spreads = inputs.codes.spread("z") ** -2
    z = (inputs.codes["z"] * spreads).sum(0) / spreads.sum(0)
    shape = inputs.codes["shape"].mean(0)
    for row in range(2):
        together = inputs.codes.take([row]).replace(z=z[None], shape=shape[None])
        np.testing.assert_allclose(shown.images[row, 2], system.render(together)[0], atol=1e-6)
        np.testing.assert_allclose(shown.images[row, 1], system.render(inputs.codes.take([row]))[0], atol=1e-6)


def test_bad_requests_say_what_to_do():
    with pytest.raises(UnweaveError, match="needs at least 2 inputs: got 1"):
        accumulate(Echo(), inputs_of(1))
    with pytest.raises(UnknownNameError, match="did you mean 'content'"):
        accumulate(Echo(), inputs_of(2), AccumulateParams(blocks=("contents",)))
    with pytest.raises(ConfigError, match="most"):
        AccumulateParams(most=0)
