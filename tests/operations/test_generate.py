"""Generation with a part kept, against codes put together by hand."""

import numpy as np
import pytest

from toy_blobs import Blobs
from unweave.base.errors import UnknownNameError, UnweaveError
from unweave.core.block import Block
from unweave.core.capabilities import Decodes, Encodes, Samples
from unweave.core.codes import Codes
from unweave.operations import Inputs, generate
from unweave.operations.generate import GenerateParams

BLOCKS = (Block("style", (3,)), Block("content", (2,), scope="group"))


class Echo(Encodes, Decodes, Samples):
    """Shows its codes as vectors."""

    blocks = BLOCKS

    def render(self, codes: Codes) -> np.ndarray:
        return codes.flat()[0].astype(np.float32)

    def draw(self, rows: int, seed: int) -> Codes:
        rng = np.random.default_rng(seed)
        return Codes(self.blocks, {b.name: rng.normal(size=(rows, *b.shape)) for b in self.blocks})


def inputs_of(rows: int, groups=None, blocks=BLOCKS) -> Inputs:
    rng = np.random.default_rng(0)
    values = {block.name: rng.normal(size=(rows, *block.shape)) for block in blocks}
    spreads = {block.name: np.exp(rng.normal(size=(rows, *block.shape))) for block in blocks}
    codes = Codes(blocks, values, spreads)
    shown = rng.normal(size=(rows, 5)).astype(np.float32)
    return Inputs(shown, codes, codes, np.arange(rows) + 7, None if groups is None else np.asarray(groups))


def product(inputs: Inputs, rows: list[int]) -> np.ndarray:
    precision = sum(inputs.codes.spread("content")[row] ** -2 for row in rows)
    return sum(inputs.codes["content"][row] * inputs.codes.spread("content")[row] ** -2 for row in rows) / precision


def test_content_of_the_inputs_and_style_of_the_prior():
    inputs = inputs_of(3)
    shown = generate(Echo(), inputs, GenerateParams(columns=4, seed=5))
    assert shown.images.shape == (1, 7, 5)
    assert shown.columns == ("input", "input", "input", "draw 1", "draw 2", "draw 3", "draw 4")
    np.testing.assert_array_equal(shown.images[0, :3], inputs.observations)
    drawn = Echo().draw(4, 5)
    np.testing.assert_allclose(shown.images[0, 3:, :3], drawn["style"], rtol=1e-5)
    np.testing.assert_allclose(shown.images[0, 3:, 3:], np.tile(product(inputs, [0, 1, 2]), (4, 1)), rtol=1e-5)


def test_one_row_for_each_group_with_the_same_draws():
    inputs = inputs_of(3, groups=[9, 1, 9])
    shown = generate(Echo(), inputs, GenerateParams(columns=2))
    assert shown.rows == ("#7, #9", "#8")
    np.testing.assert_array_equal(shown.images[0, :2], inputs.observations[[0, 2]])
    assert np.isnan(shown.images[1, 0]).all()
    np.testing.assert_array_equal(shown.images[1, 1], inputs.observations[1])
    np.testing.assert_array_equal(shown.images[0, 2:, :3], shown.images[1, 2:, :3])
    np.testing.assert_allclose(shown.images[0, 3, 3:], product(inputs, [0, 2]), rtol=1e-5)
    np.testing.assert_allclose(shown.images[1, 3, 3:], inputs.codes["content"][1], rtol=1e-5)


def test_keeping_another_part():
    inputs = inputs_of(1)
    shown = generate(Echo(), inputs, GenerateParams(columns=3, keep=("style[1]",)))
    drawn, _ = Echo().draw(3, 0).flat()
    drawn[:, 1] = inputs.codes["style"][0, 1]
    np.testing.assert_allclose(shown.images[0, 1:], drawn, rtol=1e-5)
    assert "style[1] of the inputs" in shown.title


def test_without_group_blocks_the_first_block_is_kept():
    system = Blobs()
    inputs = system.inputs(1)
    shown = generate(system, inputs, GenerateParams(columns=2))
    drawn = system.draw(2, 0).replace(shape=np.repeat(inputs.codes["shape"], 2, axis=0))
    np.testing.assert_allclose(shown.images[0, 1:], system.render(drawn), atol=1e-6)


def test_with_one_block_the_most_informative_dimension_is_kept():
    class Single(Echo):
        blocks = (Block("z", (3,)),)

    rng = np.random.default_rng(0)
    codes = Codes(Single.blocks, {"z": rng.normal(size=(50, 3)) * [0.1, 2.0, 0.5]}, {"z": np.full((50, 3), 0.2)})
    inputs = Inputs(np.zeros((1, 3), np.float32), codes.take([0]), codes, np.arange(1))
    shown = generate(Single(), inputs, GenerateParams(columns=2))
    assert "z[1]" in shown.title
    np.testing.assert_allclose(shown.images[0, 1:, 1], codes["z"][0, 1], rtol=1e-5)
    np.testing.assert_allclose(shown.images[0, 1:, 2], Single().draw(2, 0)["z"][:, 2], rtol=1e-5)


def test_bad_requests_say_what_to_do():
    with pytest.raises(UnweaveError, match="needs at least 1 inputs: got 0"):
        generate(Blobs(), Blobs().inputs(0))
    with pytest.raises(UnknownNameError, match="did you mean 'style'"):
        generate(Echo(), inputs_of(1), GenerateParams(keep=("styl",)))
