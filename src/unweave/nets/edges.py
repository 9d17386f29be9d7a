r"""Convolutions as a CPU likes them: the one place that knows about memory layout and about the image's edge.

Two things make the textbook layers slow on a CPU:

- The library's convolutions are made for many channels. At the image's edge there are one or three, and they stay
  far below the speed of a matrix product. There the layer is a matrix product here: with patches of K = C k^2 numbers,

      convolution             y = P(x) W^T + b        P: cut the image into patches, (B, C, H, W) -> (B H' W', K)
      transposed convolution  y = P^T(x W) + b        P^T: add patches up where they overlap

  P^T is the adjoint of P, so each layer's backward pass has the other's form. In a convolution the bias is the
  weight of one more number of each patch, which is always 1: adding it needs no pass of its own.
- Between the edges images lie channels-last, which those layers compute in without reordering every image first. The
  first layer writes that layout and the others keep it. The gradient of a bias, a sum over all pixels, takes the
  library as long in that layout as the whole convolution; it is the sum of the rows of a matrix here.
- A ReLU between two layers belongs to the second one, see `Layers`: its gradient is cut off where it is made, in
  place, instead of being written a second time.

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


class Layers(nn.Sequential):
    """Layers in turn. An in-place ReLU before a `Down` or `Up` is computed by that layer, with the same result."""

    def forward(self, x: Tensor) -> Tensor:
        rectify = False
        for layer in self:
            if isinstance(layer, Down | Up):
                x, rectify = layer(x, rectify=rectify), False
                continue
            x = x.relu_() if rectify else x
            rectify = type(layer) is nn.ReLU and layer.inplace and not layer._forward_hooks
            x = x if rectify else layer(x)
        return x.relu_() if rectify else x


class Down(nn.Conv2d):
    """A strided convolution, kernel k x k; a matrix product for images of few channels on a CPU.

    Where a gradient of the image itself is asked for, the plain layer runs, which can be differentiated any number of
    times.

    rectify: x is replaced by max(x, 0) first, in place
    """

    def forward(self, x: Tensor, rectify: bool = False) -> Tensor:
        if x.device.type != "cpu" or self.bias is None:
            return super().forward(x.relu_() if rectify else x)
        wants_gradient = x.requires_grad and torch.is_grad_enabled()
        if _is_edge(self, self.in_channels) and not wants_gradient:
            x = x.relu_() if rectify else x
            y: Tensor = _PatchProduct.apply(x, self.weight, self.bias, self.stride[0], self.padding)
            return y
        geometry = self.stride, self.padding, self.dilation, False, (0, 0), self.groups
        return _applied(_Interior, channels_last(x), self.weight, self.bias, geometry, rectify)


class Up(nn.ConvTranspose2d):
    """A transposed convolution; a matrix product for images of few channels on a CPU. Differentiable once there.

    rectify: x is replaced by max(x, 0) first, in place
    """

    def forward(self, x: Tensor, output_size: list[int] | None = None, rectify: bool = False) -> Tensor:
        if x.device.type != "cpu" or self.bias is None or output_size is not None:
            return super().forward(x.relu_() if rectify else x, output_size)
        if not _is_edge(self, self.out_channels):
            geometry = self.stride, self.padding, self.dilation, True, self.output_padding, self.groups
            return _applied(_Interior, channels_last(x), self.weight, self.bias, geometry, rectify)
        stride = self.stride[0]
        padding = (int(self.padding[0]), int(self.padding[1]))
        height, width = (
            (x.shape[axis] - 1) * stride - 2 * padding[axis] + self.kernel_size[axis] + self.output_padding[axis]
            for axis in (-2, -1)
        )
        edge = stride, padding, (height, width)
        return _applied(_OverlappingProduct, channels_last(x), self.weight, self.bias, edge, rectify)


def channels_last(x: Tensor) -> Tensor:
    """The same images (B, C, H, W) with the channels of a pixel side by side in memory; on a CPU only."""
    return x.contiguous(memory_format=torch.channels_last) if x.device.type == "cpu" else x


def _is_edge(layer: Down | Up, channels: int) -> bool:
    """Few channels on the image's side, and square patches that are a whole number of strides wide."""
    square = len({*layer.kernel_size}) == len({*layer.stride}) == 1 and {*layer.dilation} == {1} and layer.groups == 1
    return channels <= FEW_CHANNELS and square and layer.kernel_size[0] % layer.stride[0] == 0


def _applied(
    function: Any, x: Tensor, weight: Tensor, bias: Tensor, geometry: tuple[Any, ...], rectify: bool
) -> Tensor:
    """What a layer's function gives. One that rectifies gives back the x it changed, too, of which no use is made."""
    found = function.apply(x, weight, bias, geometry, rectify)
    y: Tensor = found[1] if rectify else found
    return y


def _rectified(ctx: Any, x: Tensor, rectify: bool) -> Tensor:
    """max(x, 0) in place, and a note for autograd that x has changed; or x as it is."""
    ctx.set_materialize_grads(False)
    ctx.rectify = rectify
    if rectify:
        ctx.mark_dirty(x.relu_())
    return x


def _cut_off(of_x: Tensor, x: Tensor) -> Tensor:
    """The gradient of a rectified x where x > 0, else 0; in place unless it shall be differentiated again."""
    if torch.is_grad_enabled():
        return torch.ops.aten.threshold_backward(of_x, x, 0)
    return torch.ops.aten.threshold_backward.grad_input(of_x, x, 0, grad_input=of_x)


class _Interior(torch.autograd.Function):
    """The library's convolution of channels-last images, transposed or not; the gradient of the bias is our own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, geometry: tuple[Any, ...], rectify: bool) -> Any:
        x = _rectified(ctx, x, rectify)
        ctx.save_for_backward(x, weight)
        ctx.geometry = geometry
        y = torch.convolution(x, weight, bias, *geometry)
        return (x, y) if rectify else y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = channels_last(gradients[-1])
        wanted = (*ctx.needs_input_grad[:2], False)
        of_x, of_weight, _ = torch.ops.aten.convolution_backward(gradient, x, weight, None, *ctx.geometry, wanted)
        if ctx.rectify and of_x is not None:
            of_x = _cut_off(of_x, x)
        return of_x, of_weight, _pixels(gradient).sum(0), None, None


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
        of_weight = _correlated(cut[:-1], gradient).t().reshape(ctx.shape)
        return None, of_weight, _pixels(gradient).sum(0), None, None


class _OverlappingProduct(torch.autograd.Function):
    """x (B, F, H', W') channels-last, weight (F, C, k, k), bias (C,) -> (B, C, H, W)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, geometry: tuple[Any, ...], rectify: bool) -> Any:
        stride, padding, large = geometry
        x = _rectified(ctx, x, rectify)
        ctx.save_for_backward(x, weight)
        ctx.geometry = geometry
        product = weight.flatten(1).t() @ _pixels(x).t()  # (K, B H' W')
        y = add_patches(product, x.shape[-2:], len(x), weight.shape[-1], stride, padding, large)
        y += bias[:, None, None]
        return (x, y) if rectify else y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        stride, padding, _ = ctx.geometry
        gradient = gradients[-1]
        cut, _, _ = patches(gradient, weight.shape[-1], stride, padding, x.shape[-2:])
        of_x = of_weight = None
        if ctx.needs_input_grad[0]:
            of_x = _images(gradient, *x.shape)
            torch.mm(cut.t(), weight.flatten(1).t(), out=_pixels(of_x))
            of_x = _cut_off(of_x, x) if ctx.rectify else of_x
        if ctx.needs_input_grad[1]:
            of_weight = _correlated(cut, x).t().reshape(weight.shape)
        return of_x, of_weight, gradient.sum((0, 2, 3)), None, None


def _images(like: Tensor, rows: int, channels: int, height: int, width: int) -> Tensor:
    """Room for images (B, C, H, W), channels-last; no view of another tensor, so that it may be changed in place."""
    shape = (rows, channels, height, width)
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=torch.channels_last)


def _pixels(x: Tensor) -> Tensor:
    """(B H W, C): the pixels of images (B, C, H, W), without a copy if they lie channels-last."""
    return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])


def _correlated(cut: Tensor, x: Tensor) -> Tensor:
    """(K, F) sums over all pixels of patches (K, B H W) times images (B, F, H, W).

    Image by image, then the sum: the sum is long and the result small, which one product does not divide among cores.
    """
    rows = len(x)
    return torch.bmm(cut.view(len(cut), rows, -1).transpose(0, 1), _pixels(x).view(rows, -1, x.shape[1])).sum(0)


def patches(
    x: Tensor,
    kernel: int,
    stride: int,
    padding: tuple[int, int],
    small: tuple[int, ...] | None = None,
    ones: int = 0,
) -> tuple[Tensor, int, int]:
    """P(x)^T, (C k^2, B H' W'), and H', W': the k x k patches at each stride-th pixel of padded images (B, C, H, W).

    Pixels are first sorted by their place within a stride, s^2 images of every s-th pixel. Each position inside a
    patch is then a window of one of these, whose rows are copied as they lie.

    small: H' and W', where they are not as large as they can be
    ones:  so many rows of ones are put below
    """
    (rows, channels), blocks = x.shape[:2], kernel // stride
    height, width = small or ((n + 2 * p - kernel) // stride + 1 for n, p in zip(x.shape[2:], padding, strict=True))
    whole = height + blocks - 1, width + blocks - 1
    phases = pad(x, _margins(padding, whole, x.shape[2:], stride))
    phases = phases.view(rows, channels, whole[0], stride, whole[1], stride).permute(1, 3, 5, 0, 2, 4).contiguous()
    numbers = channels * kernel**2
    cut = x.new_empty(numbers + ones, rows * height * width)
    sorted_cut = cut[:numbers].view(channels, blocks, stride, blocks, stride, rows, height, width)
    for down in range(blocks):
        for right in range(blocks):
            sorted_cut[:, down, :, right] = phases[..., down : down + height, right : right + width]
    cut[numbers:] = 1
    return cut, height, width


def add_patches(
    cut: Tensor,
    small: tuple[int, ...],
    rows: int,
    kernel: int,
    stride: int,
    padding: tuple[int, int],
    large: tuple[int, ...],
) -> Tensor:
    """P^T, the adjoint of `patches`: (C k^2, B H' W') patches added up to images (B, C, H, W)."""
    (height, width), blocks = small, kernel // stride
    whole = height + blocks - 1, width + blocks - 1
    cut = cut.view(-1, blocks, stride, blocks, stride, rows, height, width)
    phases = cut.new_zeros(len(cut), stride, stride, rows, *whole)
    for down in range(blocks):
        for right in range(blocks):
            phases[..., down : down + height, right : right + width] += cut[:, down, :, right]
    images = phases.permute(3, 0, 4, 1, 5, 2).reshape(rows, len(cut), stride * whole[0], stride * whole[1])
    return pad(images, [-margin for margin in _margins(padding, whole, large, stride)])


def _margins(padding: tuple[int, int], whole: tuple[int, int], large: tuple[int, ...], stride: int) -> list[int]:
    """Pixels to put left, right, above and below of (H, W) images to make whole strides of them; less than 0 cuts."""
    below, right = (stride * n - size - p for n, size, p in zip(whole, large, padding, strict=True))
    return [padding[1], right, padding[0], below]
