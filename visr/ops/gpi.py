"""Generalised policy improvement, and the epsilon-greedy choice of an action."""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def values(psi: Tensor, w: Tensor) -> Tensor:
    """max_i psi(s, a, w_i) . w: every policy judged on the task w, the best opinion kept.

    psi [policies, ..., actions, features], w [..., features] -> [..., actions]
    """
    return (psi @ w.unsqueeze(-1)).squeeze(-1).amax(dim=0)


def epsilon_greedy(values: Tensor, epsilon: float, generator: Generator | None = None) -> Tensor:
    """The best action, or with probability epsilon a uniformly random one.

    values [..., actions] -> int64 [...]
    """
    greedy = values.argmax(dim=-1)
    shape, device, num_actions = greedy.shape, values.device, values.shape[-1]
    explore = torch.rand(shape, generator=generator, device=device) < epsilon
    anything = torch.randint(num_actions, shape, generator=generator, device=device)
    return torch.where(explore, anything, greedy)
