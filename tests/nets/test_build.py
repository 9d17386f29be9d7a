"""From settings to networks: the Burgess architecture, auto, custom modules, heads."""

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from unweave.base.errors import ConfigError, ShapeError
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import Concrete
from unweave.nets.build import (
    BURGESS,
    LOG_VARIANCE,
    ConcreteHead,
    GaussianHead,
    Nets,
    OverRows,
    build_decoder,
    build_encoder,
    check_decoder,
    check_encoder,
    limit_log_variance,
)
from unweave.nets.convolution import ConvolutionalDecoder, ConvolutionalEncoder
from unweave.nets.dense import DenseDecoder, DenseEncoder

IMAGES = DataSpec((1, 64, 64), "unit", 100)


def described(module: nn.Module) -> list[tuple[object, ...]]:
    """Each layer with its sizes, in order."""
    found: list[tuple[object, ...]] = []
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            found.append(("linear", layer.in_features, layer.out_features))
        elif isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)):
            kind = "up" if isinstance(layer, nn.ConvTranspose2d) else "down"
            found.append((kind, layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding))
        elif isinstance(layer, nn.ReLU):
            found.append(("relu",))
    return found


def conv(kind: str, inputs: int, outputs: int) -> tuple[object, ...]:
    return kind, inputs, outputs, (4, 4), (2, 2), (1, 1)


RELU = ("relu",)


def test_burgess_encoder_layer_by_layer() -> None:
    """Burgess et al. 2018, appendix A.1."""
    encoder = build_encoder(BURGESS, IMAGES)
    expected: list[tuple[object, ...]] = [conv("down", 1, 32), RELU]
    for _ in range(3):
        expected += [conv("down", 32, 32), RELU]
    expected += [("linear", 512, 256), RELU, ("linear", 256, 256), RELU]
    assert described(encoder) == expected
    assert encoder.features == 256
    # 1*16*32+32 + 3*(32*16*32+32) + 512*256+256 + 256*256+256
    assert sum(p.numel() for p in encoder.parameters()) == 246_912


def test_burgess_decoder_is_the_transpose() -> None:
    decoder = build_decoder(BURGESS, IMAGES, inputs=10)
    expected = [("linear", 10, 256), RELU, ("linear", 256, 256), RELU, ("linear", 256, 512), RELU]
    for _ in range(3):
        expected += [conv("up", 32, 32), RELU]
    expected += [conv("up", 32, 1)]
    assert described(decoder) == expected
    # 10*256+256 + 256*256+256 + 256*512+512 + 3*(32*16*32+32) + 32*16*1+1
    assert sum(p.numel() for p in decoder.parameters()) == 249_953


def test_burgess_head_has_two_units_for_each_latent() -> None:
    assert described(GaussianHead(256, 10)) == [("linear", 256, 20)]


@pytest.mark.parametrize(
    ("shape", "convolutional"),
    [
        ((1, 64, 64), True),
        ((3, 16, 16), True),
        ((3, 15, 64), False),
        ((1, 8, 8), False),
        ((7,), False),
        ((5, 9), False),
    ],
)
def test_auto(shape: tuple[int, ...], convolutional: bool) -> None:
    spec = DataSpec(shape, "unit", 10)
    assert isinstance(build_encoder(Nets(), spec), ConvolutionalEncoder if convolutional else DenseEncoder)
    assert isinstance(build_decoder(Nets(), spec, 3), ConvolutionalDecoder if convolutional else DenseDecoder)


# side -> stem and what is left of the side after each layer
BY_HAND = {
    16: (2, [8, 4]),
    28: (2, [14, 7]),
    31: (2, [15, 7]),
    32: (2, [16, 8, 4]),
    47: (2, [23, 11, 5]),
    48: (4, [12, 6]),
    64: (4, [16, 8, 4]),
    96: (4, [24, 12, 6]),
    128: (4, [32, 16, 8, 4]),
}


@pytest.mark.parametrize("side", BY_HAND)
@pytest.mark.parametrize("wider", [0, 23])
def test_sizes_follow_the_smaller_side(side: int, wider: int) -> None:
    stem, left = BY_HAND[side]
    spec = DataSpec((3, side + wider, side), "unit", 10)
    nets = Nets().fitted(spec)
    assert (nets.kind, nets.stem, nets.channels, nets.hidden) == ("convolutional", stem, (32,) * len(left), (256,))
    assert nets.fitted(spec) == nets
    widths, x = [], torch.zeros(1, *spec.shape)
    for layer in build_encoder(Nets(), spec).convolutions:
        x = layer(x)
        widths += [x.shape[-1]] if isinstance(layer, nn.Conv2d) else []
    assert widths == left
    assert build_decoder(nets, spec, 3)(torch.zeros(1, 3)).shape == (1, *spec.shape)


def test_what_is_said_by_hand_stays() -> None:
    assert BURGESS.fitted(IMAGES) == BURGESS
    assert Nets(stem=2).fitted(IMAGES).channels == (32,) * 4  # 32, 16, 8, 4
    assert Nets(stem=8).fitted(IMAGES).channels == (32,) * 2  # 8, 4
    nets = Nets(channels=(5, 6), hidden=(7,)).fitted(IMAGES)
    assert (nets.channels, nets.stem, nets.hidden) == ((5, 6), 4, (7,))
    assert Nets(channels=(8,) * 6).fitted(IMAGES).stem == 2  # 4 * 2^5 pixels are more than there are
    assert Nets(kind="dense").fitted(IMAGES) == Nets(kind="dense", hidden=(256, 256))
    assert Nets(kind="dense", hidden=()).fitted(IMAGES) == Nets(kind="dense", hidden=())
    small = DataSpec((1, 8, 8), "unit", 10)
    assert Nets(kind="convolutional").fitted(small).channels == (32,)
    assert Nets().fitted(DataSpec((7,), "real", 10)).kind == "dense"


@pytest.mark.parametrize("shape", [(1, 64, 64), (3, 28, 28), (1, 37, 50), (3, 8, 8), (6,), (4, 5)])
@pytest.mark.parametrize("parameters", [1, 2, 5])
def test_built_networks_pass_the_checks_for_custom_ones(shape: tuple[int, ...], parameters: int) -> None:
    spec, nets = DataSpec(shape, "real", 10), Nets(channels=(4, 4, 4), hidden=(9, 8))
    encoder, decoder = build_encoder(nets, spec), build_decoder(nets, spec, 3, parameters)
    assert check_encoder(encoder, spec) == encoder.features == 8
    check_decoder(decoder, spec, 3, parameters)
    assert decoder(torch.zeros(2, 5, 3)).shape == (2, 5, parameters * shape[0], *shape[1:])


def test_stem_and_activation_settings_are_used() -> None:
    encoder = build_encoder(Nets(stem=4, channels=(6, 5), hidden=(8, 7), activation="tanh"), IMAGES)
    first = next(m for m in encoder.modules() if isinstance(m, nn.Conv2d))
    assert (first.kernel_size, first.stride, first.out_channels) == ((8, 8), (4, 4), 6)
    assert sum(isinstance(m, nn.Tanh) for m in encoder.modules()) == 4


def test_levels_enter_between_zero_and_one() -> None:
    spec = DataSpec((4,), "levels", 10, levels=256)
    encoder, plain = build_encoder(Nets(), spec), build_encoder(Nets(), DataSpec((4,), "unit", 10))
    plain.load_state_dict(encoder.state_dict())
    x = torch.tensor([[0.0, 51.0, 102.0, 255.0]])
    torch.testing.assert_close(encoder(x), plain(torch.tensor([[0.0, 0.2, 0.4, 1.0]])))


def test_settings_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"not images.*set nets\.kind=dense"):
        build_encoder(Nets(kind="convolutional"), DataSpec((7,), "real", 10))
    with pytest.raises(ConfigError, match="tokens"):
        build_encoder(Nets(), DataSpec((7,), "tokens", 10, levels=50))
    with pytest.raises(ConfigError, match="8 x 8 are too small for 4"):
        build_decoder(Nets(kind="convolutional", channels=(9,) * 4), DataSpec((1, 8, 8), "unit", 10), 3)
    with pytest.raises(ConfigError, match="should be 'auto', 'convolutional' or 'dense'"):
        Nets(kind="convolution")
    for wrong in ({"channels": ()}, {"channels": (0,)}, {"hidden": (-1,)}, {"stem": 1}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            Nets(**wrong)


def test_settings_read_from_text_and_json() -> None:
    assert Nets().override({"channels": "auto", "stem": "auto", "hidden": "auto"}) == Nets()
    nets = Nets().override({"channels": "[16, 32]", "stem": "4", "hidden": "[]"})
    assert (nets.channels, nets.stem, nets.hidden) == ((16, 32), 4, ())
    assert Nets.from_dict(nets.to_dict()) == nets


class Custom(nn.Module):
    """A user's convolutional encoder: one batch axis only, batch normalisation and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(1, 3, 4, 2), nn.BatchNorm2d(3), nn.Flatten(), nn.Dropout(), nn.Linear(3 * 3 * 3, 6)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def test_custom_modules_are_accepted_and_left_as_they_were() -> None:
    spec, module = DataSpec((1, 8, 8), "unit", 10), Custom()
    module.inner[3].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    assert check_encoder(module, spec) == 6
    assert module.training
    assert not module.inner[3].training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())
    check_encoder(Custom().double(), spec)  # the dry run follows the module's own precision
    check_encoder(nn.Flatten(), spec)
    decoder = nn.Sequential(nn.Linear(3, 2 * 64), nn.Unflatten(1, (2, 8, 8)))
    check_decoder(decoder, spec, 3, parameters=2)


def test_custom_modules_run_on_leading_axes() -> None:
    module = Custom().eval()
    wrapped, x = OverRows(module, event_dims=3), torch.rand(3, 2, 1, 8, 8)
    torch.testing.assert_close(wrapped(x), torch.stack([module(part) for part in x]))
    torch.testing.assert_close(wrapped(x[0]), module(x[0]))


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


def test_wrong_custom_modules_are_refused() -> None:
    spec = DataSpec((1, 8, 8), "unit", 10)
    module = nn.Conv2d(1, 3, 4)
    with pytest.raises(ShapeError, match=r"Conv2d returned shape \(2, 3, 5, 5\).*expected \(2, features\); flatten"):
        check_encoder(module, spec)
    with pytest.raises(ShapeError, match=r"encoder Linear cannot take an input of shape \(2, 1, 8, 8\).*first layer"):
        check_encoder(nn.Linear(64, 3), spec)
    with pytest.raises(ShapeError, match="Pair returned a tuple: expected one tensor"):
        check_encoder(Pair(), spec)
    with pytest.raises(ShapeError, match=r"Linear returned shape \(2, 64\) for 2 codes.*expected \(2, 2, 8, 8\)"):
        check_decoder(nn.Linear(3, 64), spec, 3, parameters=2)
    with pytest.raises(ShapeError, match=r"decoder Linear cannot take an input of shape \(2, 4\)") as caught:
        check_decoder(nn.Linear(3, 64), spec, 4)
    assert "\n" not in str(caught.value)
    for part in (module, Pair()):
        assert part.training  # a refused module too is left in the mode it had


def test_gaussian_head_equals_the_formula() -> None:
    torch.manual_seed(0)
    head, h = GaussianHead(6, 3), torch.randn(4, 5, 6)
    q, z = head(h), torch.randn(4, 5, 3)
    assert (q.batch_shape, q.event_shape) == ((4, 5), (3,))
    mean, log_variance = head.linear(h)[..., :3], head.linear(h)[..., 3:]
    torch.testing.assert_close(q.mean, mean)
    torch.testing.assert_close(q.variance, log_variance.exp())
    by_hand = sum(Normal(mean[..., d], (log_variance[..., d] / 2).exp()).log_prob(z[..., d]) for d in range(3))
    torch.testing.assert_close(q.log_prob(z), by_hand)


def test_log_variances_pass_unchanged_in_range_and_stay_bounded_beyond() -> None:
    low, high = LOG_VARIANCE
    inside = torch.linspace(low, high, 50, requires_grad=True)
    torch.testing.assert_close(limit_log_variance(inside), inside, rtol=0, atol=0)
    (slope,) = torch.autograd.grad(limit_log_variance(inside).sum(), inside)
    torch.testing.assert_close(slope, torch.ones(50))
    far = torch.tensor([-1e6, -100.0, -17.0, 9.0, 100.0, 1e6], requires_grad=True)
    limited = limit_log_variance(far)
    assert (limited >= low - 4).all()
    assert (limited <= high + 4).all()
    assert (limited.diff() > 0).all()
    (slope,) = torch.autograd.grad(limited.sum(), far)
    assert (slope > 0).all()  # a value that ran away can come back
    # Excess 1 counts as 1 / (1 + 1/4), with slope (1 + 1/4)^-2.
    assert limited[3].item() == pytest.approx(8.8, abs=1e-5)
    assert slope[3].item() == pytest.approx(0.64, abs=1e-5)


def test_gaussian_head_stays_finite_for_huge_features() -> None:
    head = GaussianHead(2, 2)
    h = torch.tensor([[1e4, -1e4], [-1e4, 1e4]], requires_grad=True)
    q = head(h)
    kl = 0.5 * (q.mean**2 + q.variance - q.variance.log() - 1).sum(-1)
    kl.sum().backward()
    assert torch.isfinite(kl).all()
    assert h.grad is not None
    assert torch.isfinite(h.grad).all()


def test_concrete_head() -> None:
    head, h = ConcreteHead(6, 4), torch.randn(3, 6)
    q = head(h, 0.5)
    assert isinstance(q, Concrete)
    assert float(q.temperature) == 0.5
    torch.testing.assert_close(q.probs, head.linear(h).softmax(-1))
    q.rsample().square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in head.parameters())
