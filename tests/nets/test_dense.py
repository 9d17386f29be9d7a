"""Dense networks: shapes, leading axes, the order of layers."""

import pytest
import torch
from torch import nn

from unweave.nets.dense import DenseDecoder, DenseEncoder, activation_layer, layers, over_rows
from unweave.nets.products import Linear


def linear_sizes(module: nn.Module) -> list[tuple[int, int]]:
    return [(m.in_features, m.out_features) for m in module.modules() if isinstance(m, nn.Linear)]


def test_encoder_computes_what_its_layers_say() -> None:
    """The slow twin multiplies by hand."""
    encoder = DenseEncoder((2, 3), (5, 4), "relu")
    x = torch.randn(7, 2, 3)
    expected = []
    for row in x:
        h = row.flatten()
        for linear in (encoder.dense[0], encoder.dense[2]):
            h = torch.clamp(linear.weight @ h + linear.bias, min=0)
        expected.append(h)
    torch.testing.assert_close(encoder(x), torch.stack(expected))
    assert encoder.features == 4


def test_decoder_mirrors_the_encoder_and_ends_without_an_activation() -> None:
    decoder = DenseDecoder(3, (20, 10), (4, 2), "relu")
    assert linear_sizes(decoder) == [(3, 10), (10, 20), (20, 8)]
    assert isinstance(decoder.dense[-1], nn.Linear)
    flat = torch.nn.functional.relu(decoder.dense[2](torch.relu(decoder.dense[0](torch.ones(1, 3)))))
    torch.testing.assert_close(decoder(torch.ones(1, 3)), decoder.dense[4](flat).reshape(1, 4, 2))


def test_no_hidden_layers_give_the_observation_itself_and_a_linear_decoder() -> None:
    x = torch.randn(3, 2, 2)
    encoder = DenseEncoder((2, 2), ())
    assert encoder.features == 4
    torch.testing.assert_close(encoder(x), x.flatten(1))
    assert linear_sizes(DenseDecoder(5, (), (4,))) == [(5, 4)]


def test_scale_multiplies_the_input() -> None:
    torch.manual_seed(0)
    scaled = DenseEncoder((3,), (4,), scale=0.25)
    plain = DenseEncoder((3,), (4,))
    plain.load_state_dict(scaled.state_dict())
    x = torch.randn(2, 3) * 10
    torch.testing.assert_close(scaled(x), plain(x / 4))
    assert not torch.allclose(scaled(x), plain(x))


def test_leading_axes_equal_a_loop() -> None:
    encoder, decoder = DenseEncoder((3, 2), (4,)), DenseDecoder(5, (4,), (3, 2))
    x, z = torch.randn(3, 6, 3, 2), torch.randn(3, 6, 5)
    torch.testing.assert_close(encoder(x), torch.stack([encoder(part) for part in x]))
    torch.testing.assert_close(decoder(z), torch.stack([decoder(part) for part in z]))
    assert encoder(x[0, 0]).shape == (4,)
    assert decoder(z[0, 0]).shape == (3, 2)


def test_over_rows_shows_the_function_one_batch_axis_only() -> None:
    seen = []

    def run(x: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(x.shape))
        return x.sum(dim=-1)

    x = torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(over_rows(run, x, 2), x.sum(-1))
    torch.testing.assert_close(over_rows(run, x[0, 0], 2), x[0, 0].sum(-1))
    assert seen == [(6, 4, 5), (1, 4, 5)]


@pytest.mark.parametrize(
    ("name", "at_minus_two"), [("relu", 0.0), ("leaky_relu", -0.4), ("elu", -0.8646647), ("tanh", -0.9640276)]
)
def test_activations_by_name(name: str, at_minus_two: float) -> None:
    assert activation_layer(name)(torch.tensor(-2.0)).item() == pytest.approx(at_minus_two, abs=1e-6)


def test_layers_with_and_without_a_last_activation() -> None:
    assert [type(m) for m in layers((2, 3, 4), "gelu", last=True)] == [Linear, nn.GELU, Linear, nn.GELU]
    assert [type(m) for m in layers((2, 3, 4), "gelu", last=False)] == [Linear, nn.GELU, Linear]
