"""The FactorVAE discriminator."""

import torch
from torch import nn

from unweave.nets.critics import Discriminator


def test_it_is_the_paper_s_network() -> None:
    network = Discriminator(10)
    linear = [(m.in_features, m.out_features) for m in network.modules() if isinstance(m, nn.Linear)]
    assert linear == [(10, 1000)] + 5 * [(1000, 1000)] + [(1000, 2)]
    slopes = [m.negative_slope for m in network.modules() if isinstance(m, nn.LeakyReLU)]
    assert slopes == 6 * [0.2]
    assert not any(isinstance(m, nn.LeakyReLU) for m in list(network.layers)[-1:])
    # 10*1000+1000 + 5*(1000*1000+1000) + 1000*2+2
    assert sum(p.numel() for p in network.parameters()) == 5_018_002


def test_other_sizes_and_leading_axes() -> None:
    network = Discriminator(3, layers=2, width=8, outputs=1, negative_slope=0.1)
    z = torch.randn(4, 5, 3)
    assert network(z).shape == (4, 5, 1)
    torch.testing.assert_close(network(z), torch.stack([network(part) for part in z]))


def test_gradients_reach_codes_and_every_parameter() -> None:
    network, z = Discriminator(3, layers=2, width=8), torch.randn(4, 3, requires_grad=True)
    network(z).square().sum().backward()
    assert z.grad is not None
    assert z.grad.abs().sum() > 0
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())
