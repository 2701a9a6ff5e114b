"""n-step Q-learning of summed cumulants: the rule VISR shares with its baselines.

What is summed is an argument. Values are read out as psi . w; a scalar agent has one feature and a w that
sums to 1: just 1, or a one-hot skill.
"""

from __future__ import annotations

import torch
from torch import Tensor

from visr.ops import returns
from visr.types import Unroll


def targets(
    psi: Tensor,
    cumulant: Tensor,
    unroll: Unroll,
    gamma: float,
    n: int,
    off_policy: Tensor | None = None,
) -> Tensor:
    """y_t = sum_k gamma^k c_{t+k} + gamma^n psi(s_{t+n}, a*, w), a* greedy for w itself.

    psi [T + 1, B, actions, features] of the bootstrapping network,
    cumulant [T, B, features] -> [T, B, features]

    Where `off_policy` [B] says that an unroll pursued another task than w, returns end before its first
    action that w would not have chosen (Watkins).
    """
    greedy = (psi * unroll.w.unsqueeze(-2)).sum(dim=-1).argmax(dim=-1)
    discount = gamma * (~unroll.terminated).to(cumulant.dtype)
    cut = unroll.truncated
    if off_policy is not None and n > 1:
        strays = (greedy[1:-1] != unroll.action[1:]) & off_policy
        cut = torch.cat([cut[:-1] | strays, cut[-1:]])
    return returns.n_step(cumulant, discount, chosen(psi, greedy), n, cut=cut)


def loss(psi: Tensor, target: Tensor, unroll: Unroll, value_weight: float = 0.0) -> Tensor:
    """sum_i (psi_i(s_t, a_t, w) - y_i)^2, averaged over the steps that are steps.

    psi [T + 1, B, actions, features], target [T, B, features] -> []

    `value_weight` times the squared error along w is added: the one of d directions that w's policy reads.
    """
    difference = chosen(psi[:-1], unroll.action) - target
    error = difference.square().sum(dim=-1)
    if value_weight:
        error = error + value_weight * (difference * unroll.w).sum(dim=-1).square()
    return mean_over_steps(error, unroll)


def mean_over_steps(values: Tensor, unroll: Unroll) -> Tensor:
    """The mean of [T, B], leaving out steps that only reset an environment."""
    weight = (~unroll.is_reset).to(values.dtype)
    return (values * weight).sum() / weight.sum().clamp(min=1)


def chosen(psi: Tensor, action: Tensor) -> Tensor:
    """psi(s, a) of one action: [..., actions, features], [...] -> [..., features]"""
    index = action[..., None, None].expand(*action.shape, 1, psi.shape[-1])
    return torch.gather(psi, -2, index).squeeze(-2)
