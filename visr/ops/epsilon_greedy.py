"""The epsilon-greedy choice of an action."""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def epsilon_greedy(values: Tensor, epsilon: float, generator: Generator | None = None) -> Tensor:
    """The action of the largest value, or with probability epsilon a uniformly random one.

    values [..., actions] -> [...] int64
    """
    greedy = values.argmax(dim=-1)
    shape, device, num_actions = greedy.shape, values.device, values.shape[-1]
    explore = torch.rand(shape, generator=generator, device=device) < epsilon
    random = torch.randint(num_actions, shape, generator=generator, device=device)
    return torch.where(explore, random, greedy)
