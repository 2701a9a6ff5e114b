"""The vocabulary of the house: what environments, actors and learners hand to one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gymnasium.spaces import Space
    from torch import Tensor


@dataclass(frozen=True)
class EnvSpec:
    """What networks need to know of an environment."""

    observation_space: Space
    num_actions: int


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
    """[T, B] bool: arriving at t + 1 ended the episode, nothing follows."""
    truncated: Tensor
    """[T, B] bool: the clock ran out at t + 1, life would have gone on."""
    is_reset: Tensor
    """[T, B] bool: step t only began a new episode; its action was ignored."""
    w: Tensor
    """[B, d]: the task pursued."""

    @property
    def num_unrolls(self) -> int:
        """B"""
        return self.action.shape[1]

    @property
    def num_steps(self) -> int:
        """T * B"""
        return self.action.numel()
