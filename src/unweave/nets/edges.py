r"""Convolutions as a CPU likes them: the one place that knows about memory layout and about the image's edge.

What makes the textbook layers slow on a CPU, and what is done about it:

- The library computes in channels-last images and reorders all others first, every time. Here images lie channels-last
  throughout. An image of one channel lies in both ways at once and is taken for the other unless its strides say
  otherwise, see `channels_last`.
- A transposed convolution to one or three channels, the last layer of a decoder, stays far below the speed of a matrix
  product. It is one here: with patches of K = C k^2 numbers,

      y = P^T(x W) + b        P^T: add patches up where they overlap, (B H' W', K) -> (B, C, H, W)

- The gradient of a bias, a sum over all pixels, takes the library as long in that layout as a whole convolution; it is
  the sum of the rows of a matrix here.
- A ReLU between two layers belongs to the second one, see `Layers`: its gradient is cut off where it is made, in
  place, instead of being written a second time.

The layers are `nn.Conv2d` and `nn.ConvTranspose2d` with the same parameters, names and initial values: weights load
into the plain layers and back. On an accelerator the plain computation runs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from unweave.nets.products import Rectifying, product

FEW_CHANNELS = 4
"""Up to so many channels on the image's side a matrix product is faster."""


class Down(nn.Conv2d, Rectifying):
    """A strided convolution, kernel k x k, of channels-last images on a CPU.

    rectify: x is replaced by max(x, 0) first, in place
    """

    def forward(self, x: Tensor, rectify: bool = False) -> Tensor:
        if x.device.type != "cpu" or self.bias is None:
            return super().forward(x.relu_() if rectify else x)
        geometry = self.stride, self.padding, self.dilation, False, (0, 0), self.groups
        return _applied(_Interior, x, self.weight, self.bias, geometry, rectify)


class Up(nn.ConvTranspose2d, Rectifying):
    """A transposed convolution, on a CPU of channels-last images; a matrix product where it ends in few channels.

    rectify: x is replaced by max(x, 0) first, in place
    """

    def forward(self, x: Tensor, output_size: list[int] | None = None, rectify: bool = False) -> Tensor:
        if x.device.type != "cpu" or self.bias is None or output_size is not None:
            return super().forward(x.relu_() if rectify else x, output_size)
        if not _is_edge(self):
            geometry = self.stride, self.padding, self.dilation, True, self.output_padding, self.groups
            return _applied(_Interior, x, self.weight, self.bias, geometry, rectify)
        stride = self.stride[0]
        padding = (int(self.padding[0]), int(self.padding[1]))
        height, width = (
            (x.shape[axis] - 1) * stride - 2 * padding[axis] + self.kernel_size[axis] + self.output_padding[axis]
            for axis in (-2, -1)
        )
        edge = stride, padding, (height, width)
        return _applied(_OverlappingProduct, x, self.weight, self.bias, edge, rectify)


def channels_last(x: Tensor) -> Tensor:
    """The same images (B, C, H, W) with the channels of a pixel side by side in memory.

    Images of one channel need not move. But only where the channel's stride is that of neighbours, 1, does the library
    see that they lie in this way: otherwise it takes them for channels-first and reorders whatever comes of them.
    """
    if x.shape[1] > 1:
        return x.contiguous(memory_format=torch.channels_last)
    return x.contiguous().view(len(x), *x.shape[2:], 1).permute(0, 3, 1, 2)


def _is_edge(layer: Up) -> bool:
    """Few channels on the image's side, and square patches that are a whole number of strides wide."""
    square = len({*layer.kernel_size}) == len({*layer.stride}) == 1 and {*layer.dilation} == {1} and layer.groups == 1
    return layer.out_channels <= FEW_CHANNELS and square and layer.kernel_size[0] % layer.stride[0] == 0


def _applied(
    function: Any, x: Tensor, weight: Tensor, bias: Tensor, geometry: tuple[Any, ...], rectify: bool
) -> Tensor:
    """What a layer's function gives. One that rectifies gives back the x it changed, too, of which no use is made.

    It may change no view: of images with one channel, which need not be copied, it takes the view itself.
    """
    found = function.apply(x.contiguous(memory_format=torch.channels_last), weight, bias, geometry, rectify)
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
        y = torch.convolution(channels_last(x), weight, bias, *geometry)
        return (x, y) if rectify else y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = channels_last(gradients[-1])
        wanted = (*ctx.needs_input_grad[:2], False)
        of_x, of_weight, _ = torch.ops.aten.convolution_backward(
            gradient, channels_last(x), weight, None, *ctx.geometry, wanted
        )
        if ctx.rectify and of_x is not None:
            of_x = _cut_off(of_x, x)
        return of_x, of_weight, _pixels(gradient).sum(0), None, None


class _OverlappingProduct(torch.autograd.Function):
    """x (B, F, H', W') channels-last, weight (F, C, k, k), bias (C,) -> (B, C, H, W)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, geometry: tuple[Any, ...], rectify: bool) -> Any:
        stride, padding, large = geometry
        x = _rectified(ctx, x, rectify)
        ctx.save_for_backward(x, weight)
        ctx.geometry = geometry
        cut = product(weight.flatten(1).t(), _pixels(x).t())  # (K, B H' W')
        y = add_patches(cut, x.shape[-2:], len(x), weight.shape[-1], stride, padding, large)
        y += bias[:, None, None]
        return (x, y) if rectify else y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        stride, padding, _ = ctx.geometry
        gradient = channels_last(gradients[-1])
        # The adjoint of a transposed convolution is the convolution, and the weights' gradient is the same in both.
        geometry = (stride, stride), padding, (1, 1), False, (0, 0), 1
        of_x = of_weight = None
        if ctx.needs_input_grad[0]:
            of_x = torch.convolution(gradient, weight, None, *geometry)
            of_x = _cut_off(of_x, x) if ctx.rectify else of_x
        if ctx.needs_input_grad[1]:
            wanted = (False, True, False)
            _, of_weight, _ = torch.ops.aten.convolution_backward(
                channels_last(x), gradient, weight, None, *geometry, wanted
            )
        return of_x, of_weight, gradient.sum((0, 2, 3)), None, None


def _pixels(x: Tensor) -> Tensor:
    """(B H W, C): the pixels of images (B, C, H, W), without a copy if they lie channels-last."""
    return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])


def add_patches(
    cut: Tensor,
    small: tuple[int, ...],
    rows: int,
    kernel: int,
    stride: int,
    padding: tuple[int, int],
    large: tuple[int, ...],
) -> Tensor:
    """P^T, the adjoint of cutting patches: (C k^2, B H' W') patches added up to images (B, C, H, W)."""
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
