r"""Matrix products by the faster of the two libraries inside PyTorch: the one place that knows which that is.

`torch.mm` is MKL's. On processors of other makers MKL leaves 512-bit units unused, and its products run at half the
speed of those of oneDNN, which PyTorch has for convolutions; `torch.compile` calls it for linear layers, by the
operator used here. With 256-bit units both are alike, but for flat products such as those of an image's edge. Small
products take as long as their call: those stay with `torch.mm`, and so does everything on accelerators and other
processors, in other precisions and under autocast.

`Linear` is `nn.Linear` with the same parameters, names and initial values, and `Layers` runs layers in turn with each
ReLU computed by a layer beside it.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

SMALLEST = 2_000_000
"""Multiply-adds from which on a product is worth the longer call."""


@cache
def has_onednn() -> bool:
    """Whether PyTorch was built with oneDNN, for a processor where it is the faster one."""
    x86 = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    return x86 and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def pays(a: Tensor, b: Tensor, outputs: int) -> bool:
    """Whether oneDNN is the one to multiply a (..., K) with K x `outputs` numbers of the kind of b."""
    return (
        a.numel() * outputs >= SMALLEST
        and a.dtype == b.dtype == torch.float32
        and a.device.type == b.device.type == "cpu"
        and has_onednn()
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
    )


def product(a: Tensor, b: Tensor, bias: Tensor | None = None, rectify: bool = False) -> Tensor:
    """a b + bias, or max(a b + bias, 0): a (M, K), b (K, N), bias (N,) -> (M, N). Has no gradient.

    Transposed and other strided views are read as they lie.
    """
    if pays(a, b, b.shape[1]):
        found: Tensor = torch.ops.mkldnn._linear_pointwise.default(
            a, b.t(), bias, "relu" if rectify else "none", [], ""
        )
        return found
    found = a @ b if bias is None else torch.addmm(bias, a, b)
    return found.relu_() if rectify else found


class Linear(nn.Linear):
    """y = x W^T + b for x (..., inputs): `nn.Linear`, with large products on a CPU as fast as they can be.

    rectify: max(y, 0) is returned, computed with the product
    """

    def forward(self, x: Tensor, rectify: bool = False) -> Tensor:
        if not pays(x, self.weight, self.out_features):
            y = super().forward(x)
            return y.relu_() if rectify else y
        y = _Linear.apply(x.reshape(-1, self.in_features), self.weight, self.bias, rectify)
        return y if x.dim() == 2 else y.view(*x.shape[:-1], self.out_features)


class _Linear(torch.autograd.Function):
    """x (B, inputs), weight (outputs, inputs), bias (outputs,) or None -> (B, outputs)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, rectify: bool) -> Tensor:
        y = product(x, weight.t(), bias, rectify)
        ctx.save_for_backward(x, weight, *((y,) if rectify else ()))
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *rectified = ctx.saved_tensors
        # Where the gradient shall be differentiated again, by products that have one.
        multiply = torch.mm if torch.is_grad_enabled() else product
        if rectified:
            gradient = torch.ops.aten.threshold_backward(gradient, rectified[0], 0)
        wants_x, wants_weight, wants_bias, _ = ctx.needs_input_grad
        return (
            multiply(gradient, weight) if wants_x else None,
            multiply(gradient.t(), x) if wants_weight else None,
            gradient.sum(0) if wants_bias else None,
            None,
        )


class Rectifying(nn.Module):
    """A layer that takes `rectify`, too: x is replaced by max(x, 0) first, in place."""


class Layers(nn.Sequential):
    """Layers in turn, with the same result as `nn.Sequential`.

    An in-place ReLU after a `Linear` is computed by it, one before a `Rectifying` layer by that one.
    """

    def forward(self, x: Tensor) -> Tensor:
        waiting = done = False
        for layer, following in itertools.zip_longest(self, itertools.islice(self, 1, None)):
            if done:  # this is the ReLU that the layer before has computed
                done = False
                continue
            if isinstance(layer, Rectifying):
                x, waiting = layer(x, rectify=waiting), False
                continue
            x = x.relu_() if waiting else x
            waiting = _is_plain_relu(layer)
            if isinstance(layer, Linear) and not layer._forward_hooks:  # a hook expects what is not rectified
                done = _is_plain_relu(following)
                x = layer(x, rectify=done)
            elif not waiting:
                x = layer(x)
        return x.relu_() if waiting else x


def _is_plain_relu(layer: nn.Module | None) -> bool:
    return type(layer) is nn.ReLU and layer.inplace and not layer._forward_hooks
