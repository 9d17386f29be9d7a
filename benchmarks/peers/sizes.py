"""Sizes of the networks that all contenders train, and the arithmetic they need. Plain Python, nothing to import.

The reference model is the network of Burgess et al. 2018, appendix A.1, with 10 latent dimensions on images of
64 x 64 x 1. `mnist` is a VAE of dense networks, 784-500-500-20 and back.
"""

from __future__ import annotations

import itertools
import math

CHANNELS, KERNEL = (32, 32, 32, 32), 4
DENSE = (500, 500)
SIDES = {"betavae": 64, "tcvae": 64, "factorvae": 64, "mnist": 28}


def flops(model: str, side: int | None = None) -> float:
    """Floating-point operations of one image in one training step.

    2 for each multiply-add of the layers (a convolution has H_out W_out C_out C_in K^2, a transposed one
    H_in W_in C_in C_out K^2, a linear layer F_in F_out), times 3: forward, gradient of the inputs, gradient of the
    weights. Activations, the loss and the optimiser are not counted.

    FactorVAE adds a forward pass of the second batch through the encoder, and its discriminator: forward and gradient
    of the inputs for the VAE's turn, three passes on two batches for its own, 8 in all.
    """
    side = side or SIDES[model]
    if model == "mnist":
        encoder = _linear((side**2, *DENSE, 2 * 20))
        decoder = _linear((20, *reversed(DENSE), side**2))
        return 6.0 * (encoder + decoder)
    sides = [side // 2**layer for layer in range(1, len(CHANNELS) + 1)]
    pairs = list(itertools.pairwise((1, *CHANNELS)))
    convolutions = sum(n**2 * inputs * outputs * KERNEL**2 for n, (inputs, outputs) in zip(sides, pairs, strict=True))
    smallest = CHANNELS[-1] * sides[-1] ** 2
    encoder = convolutions + _linear((smallest, 256, 256, 20))
    decoder = convolutions + _linear((10, 256, 256, smallest))
    total = 6.0 * (encoder + decoder)
    if model == "factorvae":
        total += 2.0 * encoder + 2.0 * 8 * _linear((10, *[1000] * 6, 2))
    return total


def _linear(sizes: tuple[int, ...]) -> int:
    return sum(math.prod(pair) for pair in itertools.pairwise(sizes))
