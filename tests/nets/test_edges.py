"""The layers at the image's edge compute what the textbook layers compute, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from unweave.nets.edges import FEW_CHANNELS, Down, Up, add_patches, channels_last
from unweave.nets.products import Layers

# (kernel, stride, padding)
GEOMETRY = [(4, 2, (1, 1)), (8, 4, (2, 2)), (4, 2, (1, 2)), (6, 3, (2, 1)), (4, 2, (0, 0))]


def compare(mine: nn.Module, plain: nn.Module, x: torch.Tensor, image_gradient: bool, monkeypatch) -> None:
    """Same parameters in both; outputs, and gradients of a random weighting of them, agree to 1e-5."""
    plain.load_state_dict(mine.state_dict())
    # A matrix product, not the plain layer by a back door.
    monkeypatch.setattr(type(mine).__mro__[1], "forward", lambda *_: pytest.fail("the plain layer was called"))
    results = []
    for layer in (mine, None):
        value = x.clone().requires_grad_(image_gradient)
        if layer is None:
            monkeypatch.undo()
            layer = plain
        y = layer(value)
        generator = torch.Generator().manual_seed(1)
        weight = torch.randn(y.shape, generator=generator)
        parameters = list(layer.parameters())
        inputs = [*parameters, value] if image_gradient else parameters
        results.append((y, *torch.autograd.grad((weight * y).sum(), inputs)))
    for here, there in zip(*results, strict=True):
        scale = there.abs().max()
        torch.testing.assert_close(here / scale, there / scale, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("kernel", "stride", "padding"), GEOMETRY)
@pytest.mark.parametrize("size", [(16, 16), (17, 22)])
def test_a_convolution_of_few_channels(channels, kernel, stride, padding, size, monkeypatch):
    torch.manual_seed(0)
    settings = (channels, 5, kernel, stride, padding)
    x = torch.randn(3, channels, *size)
    compare(Down(*settings), nn.Conv2d(*settings), x, False, monkeypatch)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("kernel", "stride", "padding"), GEOMETRY)
@pytest.mark.parametrize("output_padding", [(0, 0), (1, 0)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_transposed_convolution_to_few_channels(
    channels, kernel, stride, padding, output_padding, layout, monkeypatch
):
    torch.manual_seed(0)
    settings = (5, channels, kernel, stride, padding, output_padding)
    x = torch.randn(3, 5, 6, 7).contiguous(memory_format=layout)
    compare(Up(*settings), nn.ConvTranspose2d(*settings), x, True, monkeypatch)


@pytest.mark.parametrize(("kernel", "stride", "padding"), GEOMETRY)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_layers_of_many_channels(kernel, stride, padding, layout, monkeypatch):
    torch.manual_seed(0)
    channels, x = FEW_CHANNELS + 3, torch.randn(3, FEW_CHANNELS + 3, 13, 12).contiguous(memory_format=layout)
    compare(
        Down(channels, 6, kernel, stride, padding),
        nn.Conv2d(channels, 6, kernel, stride, padding),
        x,
        True,
        monkeypatch,
    )
    settings = (channels, 6, kernel, stride, padding, (1, 0))
    compare(Up(*settings), nn.ConvTranspose2d(*settings), x, True, monkeypatch)


@pytest.mark.parametrize(("kernel", "stride", "padding"), GEOMETRY)
def test_adding_up_patches_is_adjoint_to_cutting_them(kernel, stride, padding):
    """<P x, c> = <x, P^T c> for any image x and patches c, with P by PyTorch's `unfold`."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, 15, 18, generator=generator, dtype=torch.float64)
    cut = nn.functional.unfold(x, kernel, padding=padding, stride=stride)  # (B, C k^2, H' W')
    c = torch.randn(cut.shape, generator=generator, dtype=torch.float64)
    small = tuple((n + 2 * p - kernel) // stride + 1 for n, p in zip((15, 18), padding, strict=True))
    back = add_patches(c.transpose(0, 1).reshape(cut.shape[1], -1), small, 2, kernel, stride, padding, (15, 18))
    assert (cut * c).sum().item() == pytest.approx((x * back).sum().item(), rel=1e-12)


@pytest.mark.parametrize("settings", [{"kernel_size": 5}, {"kernel_size": (4, 6)}, {"kernel_size": 4, "dilation": 2}])
def test_other_shapes_of_few_channels(settings):
    """What the matrix product is not made for is computed by the library."""
    x = torch.randn(2, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    for ours, textbook in ((Down, nn.Conv2d), (Up, nn.ConvTranspose2d)):
        mine, plain = ours(1, 1, stride=2, padding=1, **settings), textbook(1, 1, stride=2, padding=1, **settings)
        plain.load_state_dict(mine.state_dict())
        torch.testing.assert_close(mine(x), plain(x))


def test_adding_up_patches_equals_a_loop():
    generator = torch.Generator().manual_seed(0)
    cut = torch.randn(16, 2 * 9, generator=generator)
    padded = torch.zeros(2, 8, 8)
    for number in range(2):
        for row in range(3):
            for column in range(3):
                patch = cut[:, number * 9 + row * 3 + column].view(4, 4)
                padded[number, 2 * row : 2 * row + 4, 2 * column : 2 * column + 4] += patch
    found = add_patches(cut, (3, 3), 2, 4, 2, (1, 1), (6, 6))
    torch.testing.assert_close(found, padded[:, None, 1:7, 1:7])


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("part", ["whole", "every second row", "a corner", "one image"])
def test_images_keep_their_numbers_and_lie_channels_last(channels, part):
    x = torch.randn(4, channels, 6, 8, generator=torch.Generator().manual_seed(0))
    views = {"whole": x, "every second row": x[:, :, ::2], "a corner": x[:, :, :3, :5], "one image": x[:1]}
    found = channels_last(views[part])
    assert torch.equal(found, views[part])
    assert found.stride(1) == 1
    assert found.stride()[2:] == (channels * found.shape[3], channels)


def test_an_image_of_one_channel_is_not_copied():
    x = torch.randn(2, 1, 6, 8)
    assert channels_last(x).data_ptr() == x.data_ptr()


def chains(kind: str) -> tuple[Layers, nn.Sequential, torch.Tensor]:
    """Layers of ours, the same of the textbook with the same parameters, and images for them."""
    torch.manual_seed(3)
    if kind == "narrow":  # one channel between layers, where images lie in both layouts at once
        plans = [
            (Down, nn.Conv2d, (3, 1, 4, 2, 1)),
            (Down, nn.Conv2d, (1, 5, 4, 2, 1)),
            (Up, nn.ConvTranspose2d, (5, 1, 4, 2, 1)),
            (Up, nn.ConvTranspose2d, (1, 2, 4, 2, 1)),
        ]
        x = torch.randn(3, 3, 16, 16)
    elif kind == "encoder":
        plans = [
            (Down, nn.Conv2d, (1, 8, 4, 2, 1)),
            (Down, nn.Conv2d, (8, 6, 4, 2, 1)),
            (Down, nn.Conv2d, (6, 7, 4, 2, 1)),
        ]
        x = torch.randn(3, 1, 16, 16)
    else:
        up = (Up, nn.ConvTranspose2d)
        plans = [(*up, (6, 8, 4, 2, 1)), (*up, (8, 5, 4, 2, 1)), (*up, (5, 1, 4, 2, 1))]
        x = torch.randn(3, 6, 2, 2)
    mine, plain = [], []
    for ours, textbook, settings in plans:
        mine += [ours(*settings), nn.ReLU(inplace=True)]
        plain += [textbook(*settings), nn.ReLU()]
    if kind == "normed":  # between a layer and its ReLU
        mine.insert(1, nn.GroupNorm(1, 8))
        plain.insert(1, nn.GroupNorm(1, 8))
    if kind != "encoder":
        mine, plain = mine[:-1], plain[:-1]
    found = Layers(*mine), nn.Sequential(*plain)
    found[1].load_state_dict(found[0].state_dict())
    return *found, x


@pytest.mark.parametrize("kind", ["encoder", "decoder", "normed", "narrow"])
@pytest.mark.parametrize("image_gradient", [False, True])
def test_a_relu_that_belongs_to_the_next_layer(kind, image_gradient):
    mine, plain, x = chains(kind)
    found = []
    for chain in (mine, plain):
        value = x.clone().requires_grad_(image_gradient)
        y = chain(value)
        wanted = [*chain.parameters(), *([value] if image_gradient else [])]
        weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
        found.append((y, *torch.autograd.grad((weight * y).sum(), wanted)))
        assert torch.equal(value, x)  # the images themselves are not rectified
    for here, there in zip(*found, strict=True):
        assert there.abs().max() > 0
        torch.testing.assert_close(here / there.abs().max(), there / there.abs().max(), rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(mine(x), found[0][0])


def test_a_relu_between_layers_can_be_differentiated_twice():
    mine, plain, x = chains("encoder")
    found = []
    for chain in (mine, plain):
        value = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(chain(value).pow(3).sum(), value, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), [value, *chain.parameters()], allow_unused=True))
    for here, there in zip(*found, strict=True):
        if there is None:  # the last bias moves no slope of a linear part
            assert here is None or here.abs().max() == 0
            continue
        torch.testing.assert_close(here / there.abs().max(), there / there.abs().max(), rtol=1e-4, atol=1e-4)


def test_who_listens_at_a_relu_hears_it():
    mine, _, x = chains("encoder")
    heard = []
    mine[1].register_forward_hook(lambda module, given, result: heard.append(result.min().item()))
    mine(x)
    assert heard == [0.0]


@pytest.mark.parametrize(
    ("mine", "plain", "channels"),
    [
        (Down(1, 4, 4, 2, 1), nn.Conv2d(1, 4, 4, 2, 1), 1),
        (Down(6, 4, 4, 2, 1), nn.Conv2d(6, 4, 4, 2, 1), 6),
        (Up(6, 1, 4, 2, 1), nn.ConvTranspose2d(6, 1, 4, 2, 1), 6),
    ],
    ids=["first", "interior", "last"],
)
def test_an_image_can_be_differentiated_twice(mine, plain, channels):
    """A gradient penalty needs it: second derivatives are those of the plain layer."""
    plain.load_state_dict(mine.state_dict())
    x = torch.randn(2, channels, 8, 8, generator=torch.Generator().manual_seed(0))
    found = []
    for layer in (mine, plain):
        value = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(layer(value).pow(3).sum(), value, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), [value, *layer.parameters()]))
    for here, there in zip(*found, strict=True):
        assert there.abs().max() > 0
        torch.testing.assert_close(here / there.abs().max(), there / there.abs().max(), rtol=1e-5, atol=1e-5)


def test_many_channels_keep_their_layout():
    x = torch.randn(2, FEW_CHANNELS + 4, 8, 8).contiguous(memory_format=torch.channels_last)
    y = Up(8, 8, 4, 2, 1)(Down(8, 8, 4, 2, 1)(x))
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert Down(1, 8, 4, 2, 1)(torch.randn(2, 1, 8, 8)).is_contiguous(memory_format=torch.channels_last)
