"""What an action does, in features: forward and inverse models after Burda et al. (2019)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from visr.networks.torsos import linear

_NUM_BLOCKS = 4


class ForwardModel(nn.Module):
    """phi(s), a -> phi(s'): a hidden layer, residual blocks, a linear layer; each is told the action."""

    def __init__(self, size: int, num_actions: int) -> None:
        super().__init__()
        self.num_actions = num_actions
        self.first = linear(size + num_actions, size)
        self.blocks = nn.ModuleList(_Block(size, num_actions) for _ in range(_NUM_BLOCKS))
        self.readout = linear(size + num_actions, size)

    def forward(self, phi: Tensor, action: Tensor) -> Tensor:
        """phi [..., size], action [...] -> [..., size]"""
        done = functional.one_hot(action, self.num_actions).to(phi.dtype)
        hidden = functional.leaky_relu(self.first(torch.cat([phi, done], dim=-1)))
        for block in self.blocks:
            hidden = block(hidden, done)
        return self.readout(torch.cat([hidden, done], dim=-1))


class _Block(nn.Module):
    """x + layer(layer(x, a), a)"""

    def __init__(self, size: int, num_actions: int) -> None:
        super().__init__()
        self.first = linear(size + num_actions, size)
        self.second = linear(size + num_actions, size)

    def forward(self, x: Tensor, done: Tensor) -> Tensor:
        """x [..., size], done [..., actions] -> [..., size]"""
        hidden = functional.leaky_relu(self.first(torch.cat([x, done], dim=-1)))
        return x + self.second(torch.cat([hidden, done], dim=-1))


class InverseModel(nn.Module):
    """phi(s), phi(s') -> a score for every action that may have led from one to the other."""

    def __init__(self, size: int, num_actions: int) -> None:
        super().__init__()
        self.hidden = linear(2 * size, size)
        self.readout = linear(size, num_actions)

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """[..., size], [..., size] -> [..., actions]"""
        return self.readout(self.hidden(torch.cat([before, after], dim=-1)).relu())
