"""Products, linear layers and layers in turn compute what PyTorch's own compute, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from unweave.nets import products
from unweave.nets.products import Layers, Linear, pays, product

onednn = pytest.mark.skipif(not products.has_onednn(), reason="PyTorch's own product runs on this processor")


@pytest.fixture
def every_size(monkeypatch) -> None:
    """The path of large products, for small ones too."""
    monkeypatch.setattr(products, "SMALLEST", 1)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def close(here: Tensor, there: Tensor) -> None:
    """Equal to 1e-5 of the largest number."""
    scale = there.abs().max()
    assert scale > 0
    torch.testing.assert_close(here / scale, there / scale, rtol=1e-5, atol=1e-5)


VIEWS = {
    "as it is": lambda a: a,
    "transposed": lambda a: a.t().contiguous().t(),
    "part of wider rows": lambda a: torch.cat([a, a], dim=1)[:, : a.shape[1]],
    "every second row": lambda a: a.repeat_interleave(2, dim=0)[::2],
    "every second column": lambda a: a.repeat_interleave(2, dim=1)[:, ::2],
    "one row for all": lambda a: a[:1].expand(a.shape),
}


@pytest.mark.parametrize("left", VIEWS)
@pytest.mark.parametrize("right", VIEWS)
@pytest.mark.parametrize("size", [(150, 120, 130), (3, 5, 7)])
def test_a_product_of_any_views(left, right, size):
    """Against the product in double precision, for the sizes of either library."""
    rows, inner, columns = size
    a, b, bias = VIEWS[left](random(rows, inner)), VIEWS[right](random(inner, columns, seed=1)), random(columns, seed=2)
    exact = a.double() @ b.double()
    close(product(a, b), exact.float())
    close(product(a, b, bias), (exact + bias).float())
    close(product(a, b, bias, rectify=True), (exact + bias).clamp(min=0).float())


@onednn
def test_what_pays():
    a, b = torch.zeros(128, 500), torch.zeros(500, 500)
    assert pays(a, b, 500)
    assert not pays(a[:2], b, 500)
    assert not pays(a.double(), b.double(), 500)
    assert not pays(a.to("meta"), b.to("meta"), 500)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not pays(a, b, 500)
        assert Linear(500, 500)(a).dtype == torch.bfloat16
    torch._C._set_mkldnn_enabled(False)  # what `torch.backends.mkldnn.flags` does, without a warning about TF32
    try:
        assert not pays(a, b, 500)
    finally:
        torch._C._set_mkldnn_enabled(True)


@pytest.mark.parametrize("leading", [(7,), (2, 3), (), (0,)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rectify", [True, False])
def test_a_linear_layer(leading, bias, rectify, every_size):
    torch.manual_seed(0)
    mine, plain = Linear(5, 4, bias=bias), nn.Linear(5, 4, bias=bias)
    plain.load_state_dict(mine.state_dict())
    results = []
    for layer in (mine, plain):
        x = random(*leading, 5).requires_grad_()
        y = layer(x, rectify=rectify) if layer is mine else layer(x).relu() if rectify else layer(x)
        assert y.shape == (*leading, 4)
        weight = random(*y.shape, seed=1)
        results.append((y, *torch.autograd.grad((weight * y).sum(), [x, *layer.parameters()])))
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rectify", [True, False])
def test_a_linear_layer_can_be_differentiated_twice(rectify, every_size):
    """A gradient penalty needs it."""
    torch.manual_seed(0)
    layer, x = Linear(5, 4), random(6, 5).requires_grad_()
    found = []
    for run in (lambda x: layer(x, rectify=rectify), lambda x: nn.functional.linear(x, layer.weight, layer.bias)):
        y = run(x)
        y = y.relu() if rectify else y
        (slope,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), [x, layer.weight, layer.bias]))
    for here, there in zip(*found, strict=True):
        close(here, there)


@onednn
def test_only_what_is_wanted_gets_a_gradient(every_size, monkeypatch):
    """A frozen layer costs no product for its weights, the first layer none for the data."""
    calls = []
    monkeypatch.setattr(products, "product", lambda *given: calls.append(given) or product(*given))
    layer = Linear(5, 4)
    layer(random(6, 5)).sum().backward()
    assert len(calls) == 2
    layer.requires_grad_(False)
    x = random(6, 5).requires_grad_()
    calls.clear()
    layer(x).sum().backward()
    assert len(calls) == 2
    assert x.grad is not None


def chain(kind: type[nn.Module], inplace: bool) -> nn.Sequential:
    torch.manual_seed(0)
    relu = lambda: nn.ReLU(inplace=inplace)  # noqa: E731
    parts = [kind(5, 6), relu(), kind(6, 7), nn.LayerNorm(7), relu(), kind(7, 6), nn.Tanh(), kind(6, 3), relu()]
    return (Layers if kind is Linear else nn.Sequential)(*parts)


def test_layers_in_turn(every_size):
    results = []
    for parts in (chain(Linear, inplace=True), chain(nn.Linear, inplace=False)):
        x = random(8, 5).requires_grad_()
        y = parts(x)
        results.append((y, *torch.autograd.grad((random(8, 3, seed=1) * y).sum(), [x, *parts.parameters()])))
    for here, there in zip(*results, strict=True):
        close(here, there)


def test_weights_load_into_plain_layers_and_back():
    mine, plain = chain(Linear, inplace=True), chain(nn.Linear, inplace=False)
    assert [*mine.state_dict()] == [*plain.state_dict()]
    for here, there in zip(mine.parameters(), plain.parameters(), strict=True):
        assert torch.equal(here, there)  # from the same seed, the same initial values


@pytest.mark.parametrize("position", [0, 1])
def test_who_listens_hears_what_the_layer_gives(position, every_size):
    """A layer's own numbers before its ReLU, and the ReLU's after it."""
    parts, heard = chain(Linear, inplace=True), []
    parts[position].register_forward_hook(lambda module, given, result: heard.append(result.clone()))
    parts(random(8, 5))
    own = nn.functional.linear(random(8, 5), parts[0].weight, parts[0].bias)
    close(heard[0], own.relu() if position else own)
