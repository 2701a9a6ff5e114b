"""Layers that read states and vectors, and the initial weights of all layers."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from gymnasium import spaces
from torch import Tensor, nn

from visr.errors import UserError
from visr.ops.linear import linear as linear_layer
from visr.ops.look_up import look_up


class OneHot(nn.Module):
    """A linear layer on one-hot states, computed as a look-up of rows."""

    def __init__(self, num_states: int, size: int, fan_in: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_states, size))
        initialise(self.weight, fan_in)

    def forward(self, observation: Tensor) -> Tensor:
        """observation [...] int64 -> [..., size]"""
        return look_up(self.weight, observation)


class Normaliser(nn.Module):
    """Scale vectors to mean 0 and deviation 1, by running statistics of the batches learnt from."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.count: Tensor
        self.mean: Tensor
        self.spread: Tensor
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("spread", torch.zeros(size, dtype=torch.float64))

    def forward(self, observation: Tensor) -> Tensor:
        """[..., size] -> the same, cut at 10 deviations; updates the statistics while gradients are on."""
        if torch.is_grad_enabled():
            self.update(observation.detach().flatten(0, -2).double())
        centred = observation - self.mean.to(observation.dtype)
        return (centred / self.deviation().to(observation.dtype)).clamp(-_FARTHEST, _FARTHEST)

    def deviation(self) -> Tensor:
        """[size]; 1 before the first update."""
        known = (self.spread / self.count.clamp(min=1)).sqrt().clamp(min=_SMALLEST_DEVIATION)
        return torch.where(self.count > 0, known, 1.0)

    def update(self, rows: Tensor) -> None:
        """Merge a batch [N, size] into the statistics (Chan et al., 1979)."""
        count, mean = len(rows), rows.mean(dim=0)
        total, shift = self.count + count, mean - self.mean
        within = (rows - mean).square().sum(dim=0)
        self.spread += within + shift.square() * self.count * count / total
        self.mean += shift * count / total
        self.count.copy_(total)


_SMALLEST_DEVIATION = 1e-4
_FARTHEST = 10.0


class Vector(nn.Module):
    """A linear layer without bias on a vector, which may be normalised first."""

    def __init__(self, num_inputs: int, size: int, fan_in: int, normalise: bool) -> None:
        super().__init__()
        self.normaliser = Normaliser(num_inputs) if normalise else None
        self.layer = linear(num_inputs, size, fan_in=fan_in, bias=False)

    def forward(self, observation: Tensor) -> Tensor:
        """[..., inputs] -> [..., size]"""
        if self.normaliser is not None:
            observation = self.normaliser(observation)
        return self.layer(observation)


class HiddenLayers(nn.Sequential):
    """Linear layers between the given sizes, each followed by a ReLU."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__(*(linear(a, b) for a, b in pairwise(sizes)))

    def forward(self, input: Tensor) -> Tensor:
        """[..., first size] -> [..., last size]"""
        hidden = input
        for layer in self:
            assert isinstance(layer, nn.Linear)
            hidden = linear_layer(hidden, layer, relu=True)
        return hidden


class MlpTorso(nn.Module):
    """An MLP that reads a state or a vector."""

    def __init__(
        self, space: spaces.Space, hidden_sizes: tuple[int, ...], normalise: bool = True
    ) -> None:
        super().__init__()
        self.size = hidden_sizes[-1]
        self.first = first_layer(space, hidden_sizes[0], normalise=normalise)
        self.body = HiddenLayers(hidden_sizes)

    def forward(self, observation: Tensor) -> Tensor:
        """observation [...] -> [..., size]"""
        return self.body(self.first(observation).relu())


def first_layer(
    space: spaces.Space, size: int, extra_inputs: int = 0, normalise: bool = True
) -> nn.Module:
    """The linear layer that reads an observation; `extra_inputs` count in its fan-in only."""
    if isinstance(space, spaces.Discrete):
        return OneHot(int(space.n), size, fan_in=int(space.n) + extra_inputs)
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        num_inputs = space.shape[0]
        return Vector(num_inputs, size, num_inputs + extra_inputs, normalise)
    raise UserError(
        f"No network reads observations of {space}; use an environment with Discrete or flat Box ones."
    )


def linear(
    num_inputs: int, num_outputs: int, fan_in: int | None = None, bias: bool = True
) -> nn.Linear:
    """A linear layer with Sonnet's initial weights: truncated normal over the fan-in, zero bias."""
    layer = nn.Linear(num_inputs, num_outputs, bias=bias)
    initialise(layer.weight, fan_in or num_inputs)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def initialise(weight: Tensor, fan_in: int) -> None:
    """Truncated normal of standard deviation 1 / sqrt(fan_in), cut at two deviations."""
    deviation = 1 / math.sqrt(fan_in)
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)
