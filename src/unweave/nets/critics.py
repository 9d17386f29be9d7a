"""Critics: networks that tell two sets of codes apart."""

from __future__ import annotations

from torch import Tensor, nn

from unweave.nets.products import Linear


class Discriminator(nn.Module):
    """(..., inputs) codes to (..., outputs) logits: the network of Kim & Mnih 2018 (FactorVAE, appendix A).

    inputs:         dimensions of a code
    layers, width:  hidden layers and the units of each
    outputs:        logits; two classes by default
    negative_slope: of the leaky ReLU
    """

    def __init__(self, inputs: int, layers: int = 6, width: int = 1000, outputs: int = 2, negative_slope: float = 0.2):
        super().__init__()
        steps: list[nn.Module] = []
        for _ in range(layers):
            steps += [Linear(inputs, width), nn.LeakyReLU(negative_slope)]
            inputs = width
        self.layers = nn.Sequential(*steps, Linear(inputs, outputs))

    def forward(self, z: Tensor) -> Tensor:
        return self.layers(z)
