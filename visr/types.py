"""The vocabulary of the house: what environments, actors and learners hand to one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch
    from gymnasium.spaces import Space
    from torch import Tensor


@dataclass(frozen=True)
class EnvSpec:
    """What networks need to know of an environment."""

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


class Unroll(NamedTuple):
    """T steps of B environments under one w each; the last observation is the bootstrap.

    Step t leads from observation[t] to observation[t + 1]. Environments reset at the next step: the
    true last observation of an episode arrives like any other, and the step after it only resets.
    """

    observation: Tensor
    """[T + 1, B, ...]"""
    action: Tensor
    """[T, B] int64"""
    reward: Tensor
    """[T, B] float32: the environment's own, for rewarded phases; pre-training never looks at it."""
    terminated: Tensor
    """[T, B] bool: nothing after t + 1 counts: the episode ended there, or a life that counts as one."""
    truncated: Tensor
    """[T, B] bool: the clock ran out at t + 1, life would have gone on."""
    is_reset: Tensor
    """[T, B] bool: step t only began a new episode; its action was ignored."""
    w: Tensor
    """[B, d]: the task pursued."""
    previous_action: Tensor
    """[B] int64: what led to observation[0]; -1 where that begins an episode."""
    memory: Tensor
    """[B, M]: what the actor remembered before observation[0]; M = 0 without a recurrent core."""

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
        """[T + 1, B]: what led to each observation; -1 where it begins an episode."""
        actions = self.action.new_empty(len(self.action) + 1, self.num_unrolls)
        actions[0] = self.previous_action
        actions[1:] = self.action.masked_fill(self.is_reset, -1)
        return actions

    def part(self, start: int, stop: int) -> Unroll:
        """Unrolls start..stop, as views."""
        timeless = len(BY_UNROLL)
        by_time, by_unroll = self[:-timeless], self[-timeless:]
        return Unroll(*(x[:, start:stop] for x in by_time), *(x[start:stop] for x in by_unroll))

    def to(self, device: torch.device) -> Unroll:
        """The same, elsewhere."""
        return Unroll(*(x.to(device, non_blocking=True) for x in self))


BY_UNROLL = ("w", "previous_action", "memory")
"""The fields of an unroll that have no axis for time; they come last."""
