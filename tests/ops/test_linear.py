"""Layers by oneDNN and look-ups compute what torch's own layers do, with the same gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from visr.ops import linear as linear_layers
from visr.ops.linear import linear
from visr.ops.look_up import look_up


def gradients(y: Tensor, *of: Tensor) -> list[Tensor]:
    weight = torch.linspace(-1, 1, y.numel()).view(y.shape)
    return [y.detach(), *torch.autograd.grad((y * weight).sum(), of)]


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(
    ("rows", "sizes"), [((41, 32), (100, 20)), ((300,), (16, 100)), ((3,), (100, 100))]
)
def test_a_layer_and_its_gradients_are_those_of_torch(
    rows: tuple[int, ...], sizes: tuple[int, int], relu: bool
):
    torch.manual_seed(0)
    layer, x = nn.Linear(*sizes), torch.randn(*rows, sizes[0], requires_grad=True)
    of = (x, layer.weight, layer.bias)
    wanted = layer(x).relu() if relu else layer(x)
    for mine, torchs in zip(
        gradients(linear(x, layer, relu), *of), gradients(wanted, *of), strict=True
    ):
        torch.testing.assert_close(mine, torchs, rtol=1e-4, atol=1e-4)
    with torch.inference_mode():
        torch.testing.assert_close(linear(x, layer, relu), wanted.detach(), rtol=1e-4, atol=1e-5)


def test_only_large_float_products_are_onednns():
    few, many, layer = torch.randn(8, 100), torch.randn(1000, 100), nn.Linear(100, 100)
    has = linear_layers._has_onednn()
    assert linear_layers._is_quick(many, layer.weight) == has
    assert not linear_layers._is_quick(few, layer.weight)
    assert not linear_layers._is_quick(many.double(), layer.weight.double())
    assert not linear_layers._is_quick(torch.randn(1000, 500), torch.randn(100, 500))


def test_a_layer_without_a_bias_and_a_frozen_input():
    layer, x = nn.Linear(64, 32, bias=False), torch.randn(500, 64)
    mine, torchs = (
        gradients(y, layer.weight) for y in (linear(x, layer, relu=True), layer(x).relu())
    )
    for one, other in zip(mine, torchs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_look_up_is_an_embedding():
    table, rows = torch.randn(10, 5, requires_grad=True), torch.randint(10, (41, 32))[:, 3:20]
    mine, torchs = (
        gradients(y, table) for y in (look_up(table, rows), functional.embedding(rows, table))
    )
    for one, other in zip(mine, torchs, strict=True):
        assert torch.equal(one, other)
