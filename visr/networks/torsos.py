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


def first_layer(space: spaces.Space, size: int, extra_inputs: int = 0) -> nn.Module:
    """The linear layer that reads an observation; `extra_inputs` more join it from elsewhere."""
    if isinstance(space, spaces.Discrete):
        return OneHot(int(space.n), size, fan_in=int(space.n) + extra_inputs)
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        layer = nn.Linear(space.shape[0], size, bias=False)
        initialise(layer.weight, space.shape[0] + extra_inputs)
        return layer
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
