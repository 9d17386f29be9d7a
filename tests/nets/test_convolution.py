"""Convolutional networks: every image size comes back exactly, every pixel is seen, small images are refused."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from unweave.base.errors import ConfigError
from unweave.nets.convolution import ConvolutionalDecoder, ConvolutionalEncoder, Stage, smallest_side, stages


@settings(max_examples=150, deadline=None)
@given(side=st.integers(2, 200), stride=st.integers(2, 8))
def test_a_stage_and_its_transpose_have_exact_sizes(side: int, stride: int) -> None:
    side = max(side, stride)
    stage = Stage((side, stride), stride)
    small = stage.down(1, 1)(torch.zeros(1, 1, side, stride))
    assert tuple(small.shape[2:]) == stage.small == (side // stride, 1)
    assert tuple(stage.up(1, 1)(small).shape[2:]) == (side, stride)
    assert set(stage.output_padding) <= {0, 1}


@settings(max_examples=100, deadline=None)
@given(side=st.integers(2, 60), stride=st.integers(2, 8))
def test_the_windows_of_a_stage_reach_every_pixel_and_leave_no_gap_on_the_way_up(side: int, stride: int) -> None:
    side = max(side, stride)
    stage = Stage((side, side), stride)
    down, up = stage.down(1, 1), stage.up(1, 1)
    for layer in (down, up):
        nn.init.ones_(layer.weight)
        nn.init.zeros_(layer.bias)
    x = torch.zeros(1, 1, side, side, requires_grad=True)
    down(x).sum().backward()
    assert x.grad is not None
    assert (x.grad > 0).all()
    assert (up(torch.ones(1, 1, *stage.small)) > 0).all()


def test_even_sides_at_stride_two_have_the_usual_padding_of_one() -> None:
    assert Stage((64, 28), 2).padding == (1, 1)
    assert Stage((64, 28), 2).output_padding == (0, 0)
    assert Stage((64, 64), 4).padding == (2, 2)


SIZES = [(1, 64, 64), (1, 28, 28), (1, 37, 50), (3, 96, 84), (2, 16, 17), (4, 33, 16), (3, 71, 64)]


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize(("channels", "stem"), [((6, 5, 4, 3), 2), ((6, 5, 4), 4), ((6, 5), 3), ((6,), 8)])
def test_any_image_size(shape: tuple[int, int, int], channels: tuple[int, ...], stem: int) -> None:
    encoder = ConvolutionalEncoder(shape, channels, (7,), stem)
    decoder = ConvolutionalDecoder(4, channels, (7,), shape, stem)
    assert encoder(torch.rand(2, *shape)).shape == (2, 7)
    assert decoder(torch.rand(2, 4)).shape == (2, *shape)


@settings(max_examples=30, deadline=None)
@given(
    height=st.integers(4, 40),
    width=st.integers(4, 40),
    count=st.integers(1, 4),
    stem=st.integers(2, 5),
    c=st.integers(1, 4),
)
def test_any_image_size_drawn(height: int, width: int, count: int, stem: int, c: int) -> None:
    channels = tuple(range(2, 2 + count))
    if min(height, width) < smallest_side(count, stem):
        with pytest.raises(ConfigError, match=f"at least {smallest_side(count, stem)} pixels"):
            ConvolutionalEncoder((c, height, width), channels, (), stem)
        return
    encoder = ConvolutionalEncoder((c, height, width), channels, (), stem)
    decoder = ConvolutionalDecoder(2, channels, (), (c, height, width), stem)
    assert encoder(torch.rand(1, c, height, width)).shape == (1, encoder.features)
    assert decoder(torch.rand(1, 2)).shape == (1, c, height, width)


def test_the_smallest_side_is_the_smallest_that_works() -> None:
    for count, stem in [(4, 2), (3, 4), (2, 5), (1, 2)]:
        side = smallest_side(count, stem)
        assert stages((side, side), count, stem)[-1].small == (1, 1)
        with pytest.raises(ConfigError):
            stages((side, side - 1), count, stem)


def test_too_small_images_are_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError) as caught:
        ConvolutionalEncoder((1, 40, 12), (8, 8, 8, 8), (4,))
    message = str(caught.value)
    for part in (
        "40 x 12",
        "4 convolutional layers",
        "at least 16 pixels",
        "fewer entries in nets.channels",
        "kind=dense",
    ):
        assert part in message
    assert "\n" not in message


def test_leading_axes_equal_a_loop() -> None:
    torch.manual_seed(0)
    encoder = ConvolutionalEncoder((2, 9, 11), (3, 4), (5,))
    decoder = ConvolutionalDecoder(3, (3, 4), (5,), (2, 9, 11))
    x, z = torch.rand(4, 3, 2, 9, 11), torch.randn(4, 3, 3)
    torch.testing.assert_close(encoder(x), torch.stack([encoder(part) for part in x]))
    torch.testing.assert_close(decoder(z), torch.stack([decoder(part) for part in z]))
    assert encoder(x[0, 0]).shape == (5,)
    assert decoder(z[0, 0]).shape == (2, 9, 11)


def test_encoder_computes_what_its_layers_say() -> None:
    """The slow twin slides the window by hand over an odd-sized image."""
    torch.manual_seed(0)
    encoder = ConvolutionalEncoder((1, 7, 6), (2,), ())
    x = torch.rand(1, 1, 7, 6)
    convolution = encoder.convolutions[0]
    padded = torch.zeros(9, 8)  # one zero on each side
    padded[1:8, 1:7] = x[0, 0]
    expected = torch.zeros(2, 3, 3)
    for c in range(2):
        for i in range(3):
            for j in range(3):
                window = padded[2 * i : 2 * i + 4, 2 * j : 2 * j + 4]
                expected[c, i, j] = torch.relu((window * convolution.weight[c, 0]).sum() + convolution.bias[c])
    torch.testing.assert_close(encoder(x)[0], expected.flatten())


def test_gradients_reach_every_parameter() -> None:
    torch.manual_seed(0)
    encoder = ConvolutionalEncoder((1, 19, 23), (4, 4), (6, 5), activation="elu")
    decoder = ConvolutionalDecoder(5, (4, 4), (6, 5), (1, 19, 23), activation="elu")
    decoder(encoder(torch.rand(8, 1, 19, 23))).square().sum().backward()
    for module in (encoder, decoder):
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name
