"""Linear layers of many rows by oneDNN, which on some processors is twice as fast as torch's own product."""

from __future__ import annotations

import functools
import platform
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_LEAST_ROWS, _LEAST_OUTPUTS, _MOST_TERMS = 256, 16, 128
"""Sizes from which oneDNN is faster, and up to which it adds up in the order of torch's own library (MKL):
inside these bounds both gave the same bits on an AMD EPYC with AVX-512, where MKL uses AVX2."""


def linear(x: Tensor, layer: nn.Linear, relu: bool = False) -> Tensor:
    """x W^T + b, and its ReLU: [..., in] -> [..., out]"""
    weight, bias = layer.weight, layer.bias
    if not _is_quick(x, weight):
        y = layer(x)
        return y.relu() if relu else y  # not in place: autograd would copy to undo it
    if torch.is_grad_enabled() and (weight.requires_grad or x.requires_grad):
        return _Linear.apply(x, weight, bias, relu)
    return _product(x, weight, bias, relu)


class _Linear(torch.autograd.Function):
    """The gradients that torch computes, with the product of the input's by oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
        y = _product(x, weight, bias, relu)
        ctx.save_for_backward(x, weight, y if relu else None)
        return y

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *gradients: Tensor
    ) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        of_x, of_weight, of_bias, _ = ctx.needs_input_grad
        (g,) = gradients
        if y is not None:
            g = torch.ops.aten.threshold_backward(g, y, 0)
        g, rows = g.reshape(-1, len(weight)), x.reshape(-1, x.shape[-1])
        given: Tensor | None = None
        if of_x:
            by = weight.t()
            given = (_product(g, by, None, False) if _fits(by) else g.mm(weight)).view(x.shape)
        return given, g.t().mm(rows) if of_weight else None, g.sum(0) if of_bias else None, None


def _product(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "relu" if relu else "none", [], "")


def _is_quick(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN has this product, and is faster at it."""
    return (
        not torch.compiler.is_compiling()  # exporters know torch's own operators only
        and x.dtype == weight.dtype == torch.float32
        and x.is_cpu
        and x.numel() >= _LEAST_ROWS * x.shape[-1]
        and _fits(weight)
        and _has_onednn()
    )


def _fits(weight: Tensor) -> bool:
    num_outputs, num_terms = weight.shape
    return num_outputs >= _LEAST_OUTPUTS and num_terms <= _MOST_TERMS


@functools.cache
def _has_onednn() -> bool:
    is_there = torch.backends.mkldnn.is_available() and hasattr(
        torch.ops.mkldnn, "_linear_pointwise"
    )
    return is_there and platform.machine() in ("x86_64", "AMD64")
