"""Observation -> vector, chosen by the observation space."""

from __future__ import annotations

import math

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from visr.errors import UserError


class OneHot(nn.Module):
    """A linear layer on one-hot states, computed as what it is: a look-up of rows."""

    def __init__(self, num_states: int, size: int, fan_in: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_states, size))
        initialise(self.weight, fan_in)

    def forward(self, observation: Tensor) -> Tensor:
        """observation [...] int64 -> [..., size]"""
        return functional.embedding(observation, self.weight)


class Normaliser(nn.Module):
    """Vectors to mean 0 and deviation 1, by the statistics of all that was learnt from so far."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.count: Tensor
        self.mean: Tensor
        self.spread: Tensor
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("spread", torch.zeros(size, dtype=torch.float64))

    def forward(self, observation: Tensor) -> Tensor:
        """[..., size] -> the same, cut at 10 deviations; while learning it takes note of what it sees"""
        if torch.is_grad_enabled():
            self.note(observation.detach().flatten(0, -2).double())
        centred = observation - self.mean.to(observation.dtype)
        return (centred / self.deviation().to(observation.dtype)).clamp(-_FARTHEST, _FARTHEST)

    def deviation(self) -> Tensor:
        """[size], of what was noted; 1 before anything was."""
        known = (self.spread / self.count.clamp(min=1)).sqrt().clamp(min=_SMALLEST_DEVIATION)
        return torch.where(self.count > 0, known, 1.0)

    def note(self, rows: Tensor) -> None:
        """Merge a batch [N, size] into the sums (Chan et al., 1979)."""
        count, mean = len(rows), rows.mean(dim=0)
        total, shift = self.count + count, mean - self.mean
        self.spread += (rows - mean).square().sum(
            dim=0
        ) + shift.square() * self.count * count / total
        self.mean += shift * count / total
        self.count.copy_(total)


_SMALLEST_DEVIATION = 1e-4
_FARTHEST = 10.0


class Vector(nn.Module):
    """A linear layer without bias on a vector, normalised first if so wished."""

    def __init__(self, num_inputs: int, size: int, fan_in: int, normalise: bool) -> None:
        super().__init__()
        self.normaliser = Normaliser(num_inputs) if normalise else None
        self.layer = linear(num_inputs, size, fan_in=fan_in, bias=False)

    def forward(self, observation: Tensor) -> Tensor:
        """[..., inputs] -> [..., size]"""
        if self.normaliser is not None:
            observation = self.normaliser(observation)
        return self.layer(observation)


def first_layer(
    space: spaces.Space, size: int, extra_inputs: int = 0, normalise: bool = True
) -> nn.Module:
    """The linear layer that reads an observation; `extra_inputs` more join it from elsewhere."""
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
    """A linear layer as Sonnet would begin it: truncated normal over the fan-in, zero bias."""
    layer = nn.Linear(num_inputs, num_outputs, bias=bias)
    initialise(layer.weight, fan_in or num_inputs)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def initialise(weight: Tensor, fan_in: int) -> None:
    """Truncated normal of standard deviation 1 / sqrt(fan_in), cut at two deviations."""
    deviation = 1 / math.sqrt(fan_in)
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)
