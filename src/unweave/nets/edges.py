r"""Convolutions as a CPU likes them: the one place that knows about memory layout and about the image's edge.

Two things make the textbook layers slow on a CPU:

- The library's convolutions are made for many channels. At the image's edge there are one or three, and they stay
  far below the speed of a matrix product. There the layer is a matrix product here: with patches of K = C k^2 numbers,

      convolution             y = P(x) W^T + b        P: cut the image into patches, (B, C, H, W) -> (B H' W', K)
      transposed convolution  y = P^T(x W) + b        P^T: add patches up where they overlap

  P^T is the adjoint of P, so each layer's backward pass has the other's form. In a convolution the bias is the
  weight of one more number of each patch, which is always 1: neither it nor its gradient needs a pass of its own.
- Between the edges images lie channels-last, which those layers compute in without reordering every image first. The
  first layer writes that layout and the others keep it. The gradient of a bias, a sum over all pixels, takes the
  library as long in that layout as the whole convolution; it is the sum of the rows of a matrix here.

The layers are `nn.Conv2d` and `nn.ConvTranspose2d` with the same parameters, names and initial values: weights load
into the plain layers and back. On an accelerator, and where they would not pay, the plain computation runs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

FEW_CHANNELS = 4
"""Up to so many channels on the image's side a matrix product is faster."""


class Down(nn.Conv2d):
    """A strided convolution, kernel k x k; a matrix product for images of few channels on a CPU.

    Where a gradient of the image itself is asked for, the plain layer runs, which can be differentiated any number of
    times.
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu" or self.bias is None:
            return super().forward(x)
        wants_gradient = x.requires_grad and torch.is_grad_enabled()
        y: Tensor
        if self.in_channels > FEW_CHANNELS or wants_gradient:
            geometry = self.stride, self.padding, self.dilation, False, (0, 0), self.groups
            y = _Interior.apply(channels_last(x), self.weight, self.bias, geometry)
        else:
            y = _PatchProduct.apply(x, self.weight, self.bias, self.stride[0], self.padding)
        return y


class Up(nn.ConvTranspose2d):
    """A transposed convolution; a matrix product for images of few channels on a CPU. Differentiable once there."""

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        if x.device.type != "cpu" or self.bias is None or output_size is not None:
            return super().forward(x, output_size)
        y: Tensor
        if self.out_channels > FEW_CHANNELS:
            geometry = self.stride, self.padding, self.dilation, True, self.output_padding, self.groups
            y = _Interior.apply(channels_last(x), self.weight, self.bias, geometry)
            return y
        stride = self.stride[0]
        padding = (int(self.padding[0]), int(self.padding[1]))
        height, width = (
            (x.shape[axis] - 1) * stride - 2 * padding[axis] + self.kernel_size[axis] + self.output_padding[axis]
            for axis in (-2, -1)
        )
        y = _OverlappingProduct.apply(x, self.weight, self.bias, stride, padding, (height, width))
        return y


def channels_last(x: Tensor) -> Tensor:
    """The same images (B, C, H, W) with the channels of a pixel side by side in memory; on a CPU only."""
    return x.contiguous(memory_format=torch.channels_last) if x.device.type == "cpu" else x


class _Interior(torch.autograd.Function):
    """The library's convolution of channels-last images, transposed or not; the gradient of the bias is our own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, geometry: tuple[Any, ...]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.geometry = geometry
        return torch.convolution(x, weight, bias, *geometry)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = channels_last(gradient)
        wanted = (*ctx.needs_input_grad[:2], False)
        of_x, of_weight, _ = torch.ops.aten.convolution_backward(gradient, x, weight, None, *ctx.geometry, wanted)
        return of_x, of_weight, _pixels(gradient).sum(0), None


class _PatchProduct(torch.autograd.Function):
    """x (B, C, H, W), weight (F, C, k, k), bias (F,) -> (B, F, H', W'), channels-last. No gradient of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: tuple[int, int]) -> Tensor:
        rows, filters = len(x), len(weight)
        cut, height, width = patches(x, weight.shape[-1], stride, padding, ones=1)
        ctx.save_for_backward(cut)
        ctx.shape = weight.shape
        y = _images(x, rows, filters, height, width)
        torch.mm(cut.t(), torch.cat([weight.flatten(1), bias[:, None]], dim=1).t(), out=_pixels(y))
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (cut,) = ctx.saved_tensors
        of_both = cut @ _pixels(gradient)  # (K + 1, F)
        return None, of_both[:-1].t().reshape(ctx.shape), of_both[-1], None, None


class _OverlappingProduct(torch.autograd.Function):
    """x (B, F, H', W'), weight (F, C, k, k), bias (C,) -> (B, C, H, W)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: tuple[int, int], large: tuple[int, int]
    ) -> Tensor:
        pixels = _pixels(x)
        ctx.save_for_backward(pixels, weight)
        ctx.geometry = stride, padding, x.shape
        product = weight.flatten(1).t() @ pixels.t()  # (K, B H' W')
        return add_patches(product, x.shape[-2:], len(x), weight.shape[-1], stride, padding, large).add_(
            bias[:, None, None]
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        pixels, weight = ctx.saved_tensors
        stride, padding, shape = ctx.geometry
        cut, height, width = patches(gradient, weight.shape[-1], stride, padding, shape[-2:])
        of_x = of_weight = None
        if ctx.needs_input_grad[0]:
            of_x = _images(gradient, shape[0], shape[1], height, width)
            torch.mm(cut.t(), weight.flatten(1).t(), out=_pixels(of_x))
        if ctx.needs_input_grad[1]:
            of_weight = (cut @ pixels).t().reshape(weight.shape)
        return of_x, of_weight, gradient.sum((0, 2, 3)), None, None, None


def _images(like: Tensor, rows: int, channels: int, height: int, width: int) -> Tensor:
    """Room for images (B, C, H, W), channels-last; no view of another tensor, so that it may be changed in place."""
    shape = (rows, channels, height, width)
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=torch.channels_last)


def _pixels(x: Tensor) -> Tensor:
    """(B H W, C): the pixels of images (B, C, H, W), without a copy if they lie channels-last."""
    return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])


def patches(
    x: Tensor,
    kernel: int,
    stride: int,
    padding: tuple[int, int],
    small: tuple[int, int] | None = None,
    ones: int = 0,
) -> tuple[Tensor, int, int]:
    """P(x)^T, (C k^2, B H' W'), and H', W': the k x k patches at each stride-th pixel of padded images (B, C, H, W).

    One row holds one position inside the patch: it is copied from every stride-th pixel of whole image rows, which is
    quicker than copying patch by patch.

    ones: so many rows of ones are put below
    """
    padded = pad(x, (padding[1], padding[1], padding[0], padding[0]))
    windows = padded.unfold(2, kernel, stride).unfold(3, kernel, stride)  # (B, C, H', W', k, k)
    height, width = windows.shape[2:4] if small is None else small
    windows = windows[:, :, :height, :width].permute(1, 4, 5, 0, 2, 3)
    numbers = x.shape[1] * kernel**2
    cut = x.new_empty(numbers + ones, len(x) * height * width)
    cut[:numbers].view(windows.shape).copy_(windows)
    cut[numbers:] = 1
    return cut, height, width


def add_patches(
    cut: Tensor,
    small: tuple[int, ...],
    rows: int,
    kernel: int,
    stride: int,
    padding: tuple[int, int],
    large: tuple[int, int],
) -> Tensor:
    """P^T, the adjoint of `patches`: (C k^2, B H' W') patches added up to images (B, C, H, W)."""
    height, width = small
    cut = cut.view(-1, kernel, kernel, rows, height, width)
    # Room for all patches; what lies in the padding is cut off at the end.
    whole = [max((n - 1) * stride + kernel, size + 2 * p) for n, size, p in zip(small, large, padding, strict=True)]
    total = cut.new_zeros(rows, len(cut), *whole)
    for down in range(kernel):
        for right in range(kernel):
            rows_here = slice(down, down + (height - 1) * stride + 1, stride)
            columns_here = slice(right, right + (width - 1) * stride + 1, stride)
            total[:, :, rows_here, columns_here] += cut[:, down, right].transpose(0, 1)
    return total[:, :, padding[0] : padding[0] + large[0], padding[1] : padding[1] + large[1]].contiguous()
