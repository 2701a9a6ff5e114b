"""Data types shared by environments, actors and learners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch
    from gymnasium.spaces import Space
    from torch import Tensor


@dataclass(frozen=True)
class EnvSpec:
    """The spaces of one environment."""

    observation_space: Space
    num_actions: int


class Transitions(NamedTuple):
    """N steps from s to s'; what is not known of them is None."""

    next_observation: Tensor
    """[N, ...], s'"""
    observation: Tensor | None = None
    """[N, ...], s"""
    action: Tensor | None = None
    """[N] int64"""
    terminated: Tensor | None = None
    """[N] bool: the episode ended in s'"""


class Pursuit(NamedTuple):
    """What the environments of a replay learner pursue while they collect an unroll."""

    w: Tensor
    """[B, d]: the tasks"""
    epsilon: Tensor
    """[B]: probability of random actions; 1 acts at random"""


class Unroll(NamedTuple):
    """T steps of B environments, each under one w; targets bootstrap from the last observation.

    Step t leads from observation[t] to observation[t + 1]. Environments reset in the next step: the
    last observation of an episode is stored like any other, and the step after it only resets.
    """

    observation: Tensor
    """[T + 1, B, ...]"""
    action: Tensor
    """[T, B] int64"""
    reward: Tensor
    """[T, B] float32: the environment's reward; pre-training does not use it."""
    terminated: Tensor
    """[T, B] bool: the episode ended at t + 1, or a life was lost: discount 0."""
    truncated: Tensor
    """[T, B] bool: time limit at t + 1: bootstrap."""
    is_reset: Tensor
    """[T, B] bool: step t only reset the environment; its action was ignored."""
    w: Tensor
    """[B, d]: the task."""
    previous_action: Tensor
    """[B] int64: the action before observation[0]; -1 where that begins an episode."""
    memory: Tensor
    """[B, M]: the LSTM's memory before observation[0]; M = 0 without an LSTM."""

    @property
    def num_unrolls(self) -> int:
        """B"""
        return self.action.shape[1]

    @property
    def num_steps(self) -> int:
        """T * B"""
        return self.action.numel()

    @property
    def previous_actions(self) -> Tensor:
        """[T + 1, B]: the action before each observation; -1 where it begins an episode."""
        actions = self.action.new_empty(len(self.action) + 1, self.num_unrolls)
        actions[0] = self.previous_action
        actions[1:] = self.action.masked_fill(self.is_reset, -1)
        return actions

    def mean_over_steps(self, values: Tensor) -> Tensor:
        """The mean of [T, B], without steps that only reset an environment."""
        weight = (~self.is_reset).to(values.dtype)
        return (values * weight).sum() / weight.sum().clamp(min=1)

    def part(self, start: int, stop: int) -> Unroll:
        """Unrolls start..stop, as views."""
        timeless = len(BY_UNROLL)
        by_time, by_unroll = self[:-timeless], self[-timeless:]
        return Unroll(*(x[:, start:stop] for x in by_time), *(x[start:stop] for x in by_unroll))

    def to(self, device: torch.device) -> Unroll:
        """A copy on another device."""
        return Unroll(*(x.to(device, non_blocking=True) for x in self))


BY_UNROLL = ("w", "previous_action", "memory")
"""The last fields of an unroll: those without a time axis."""
