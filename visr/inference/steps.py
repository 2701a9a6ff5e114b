"""Rewarded steps: features, rewards and episodes, which task inference takes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visr.errors import UserError
from visr.ops.regression import RewardSums

Floats = NDArray[np.float64]

_MOST_BLOCKS = 200
"""At most 256: blocks are numbered in bytes."""
_PART = 8_192
_LARGEST_REWARD = 1e12
"""Squares of larger rewards would overflow the sums."""


@dataclass(frozen=True, eq=False)
class TriedTasks:
    """The tasks that whole episodes pursued, and the returns of these episodes."""

    w: Floats
    """[M, d]"""
    returns: Floats
    """[M], raw."""


@dataclass(frozen=True, eq=False)
class LeftStates:
    """The states that steps leave, for agents whose features are of states."""

    features: NDArray[np.floating]
    """[N, d], chi(s)."""
    gamma: float
    """The discount of the sums in psi."""


@dataclass(frozen=True, eq=False)
class RewardedSteps:
    """N steps with rewards."""

    features: NDArray[np.floating]
    """[N, d], phi(s'); d = 0 for agents without features."""
    reward: Floats
    """[N]"""
    episode: NDArray[np.intp]
    """[N], which episode each step belongs to."""
    tried: TriedTasks | None = None
    """None where episodes did not pursue one task each."""
    left: LeftStates | None = None
    """None where features are of whole steps, or of s' by definition."""
    by_mean: bool = False
    """Whether the task is the mean of r times the features, as for forward-backward, and not a regression."""
    prefers_regression: bool = False
    """Whether search is only for rewards that no regression explains: it tries few tasks of many features."""

    @property
    def num_steps(self) -> int:
        """N"""
        return len(self.reward)

    @property
    def num_episodes(self) -> int:
        """Episodes with at least one step."""
        return len(self._episodes)

    @property
    def _episodes(self) -> NDArray[np.intp]:
        """The numbers of all episodes, ascending."""
        parts = [np.unique(self.episode[start : start + _PART]) for start in self._parts]
        return np.unique(np.concatenate(parts))

    @property
    def _parts(self) -> range:
        """Where parts of the steps start: sorting all at once would take much more memory."""
        return range(0, max(self.num_steps, 1), _PART)

    @property
    def num_rewarded(self) -> int:
        """Steps with r != 0."""
        return int(np.count_nonzero(self.reward))

    @property
    def is_constant(self) -> bool:
        """Whether every step has the same reward."""
        return np.ptp(self.reward) == 0

    @property
    def _has_constant_feature(self) -> bool:
        """Whether a feature is one number, not 0, in all steps: a constant reward then pays for survival."""
        first = self.features[:1]
        return bool(((self.features == first).all(axis=0) & (first[0] != 0)).any())

    def clipped(self) -> RewardedSteps:
        """The same steps with rewards clipped to [-1, 1]; returns stay raw."""
        return dataclasses.replace(self, reward=np.clip(self.reward, -1, 1))

    def sums(self) -> RewardSums:
        """The sums of all steps."""
        return self._sums_of(slice(None))

    def blocks(self) -> list[RewardSums]:
        """The sums of every episode; of several together where there are more than 200."""
        episodes, block = self._episodes, np.empty(self.num_steps, np.uint8)
        for start in self._parts:
            part = slice(start, start + _PART)
            block[part] = np.searchsorted(episodes, self.episode[part]) % _MOST_BLOCKS
        count = min(len(episodes), _MOST_BLOCKS)
        return [self._sums_of(np.flatnonzero(block == number)) for number in range(count)]

    def _sums_of(self, rows: slice | NDArray[np.intp]) -> RewardSums:
        sums = RewardSums(self.features.shape[1])
        sums.add(self.features[rows], self.reward[rows])
        return sums

    def check(self) -> None:
        """Refuse rewards from which no method can infer a task."""
        reward = self.reward
        if not len(reward):
            raise UserError(
                "There are no steps to infer a task from; give it at least one episode."
            )
        if bad := int(np.count_nonzero(~np.isfinite(reward))):
            raise UserError(
                f"{bad} of {len(reward)} rewards are NaN or infinite; mend the reward first."
            )
        if np.abs(reward).max() > _LARGEST_REWARD:
            raise UserError(
                f"A reward is larger than {_LARGEST_REWARD:.0e}; scale the rewards down."
            )
        if not reward.any():
            raise UserError(
                f"No reward was seen in {len(reward):,} steps, so there is nothing to infer a task from; "
                "give it more episodes, or train longer."
            )
        if self.is_constant and self.tried is None and not self._has_constant_feature:
            raise UserError(
                f"The reward is {reward[0]:g} at every step, so every task is as good as any; change the "
                "reward."
            )
