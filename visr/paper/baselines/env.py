"""One of visr's environments, as agents that learn from rewards use it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from visr import envs
from visr.config import RunConfig


class BaselineEnv(gymnasium.Env):
    """Rewards are clipped to [-1, 1]; raw returns of whole episodes are appended to `returns`.

    In Atari a lost life terminates, and the episode continues. Steps that only reset are not counted.
    """

    def __init__(self, config: RunConfig, returns: list[float]) -> None:
        self._env = envs.make_vec(config, 1)
        self._life_loss_terminates = config.life_loss_terminates
        self.observation_space = self._env.single_observation_space
        self.action_space = self._env.single_action_space
        self.has_ended = False
        """Whether the last step ended the episode, not only a life."""
        self._returns, self._return = returns, 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray, dict]:
        """Start an episode, the first with a seed; if only a life was lost, continue the episode."""
        if seed is not None:
            self._observation, self._return = self._env.reset(seed=seed)[0], 0.0
        elif self.has_ended:
            self._observation = self._env.step(np.array([0]))[0]  # this step only resets
        self.has_ended = False
        return self._observation[0].copy(), {}

    def step(self, action: Any) -> tuple[NDArray, float, bool, bool, dict[str, Any]]:
        """The last observation of an episode that ended is returned before `reset`."""
        self._observation, reward, terminated, truncated, info = self._env.step(np.array([action]))
        self._return += float(reward[0])
        self.has_ended = bool(terminated[0] or truncated[0])
        if self.has_ended:
            self._returns.append(self._return)
            self._return = 0.0
        is_terminal = bool(terminated[0] or (self._life_loss_terminates and info["life_lost"][0]))
        clipped = float(np.clip(reward[0], -1, 1))
        return self._observation[0].copy(), clipped, is_terminal, bool(truncated[0]), {}

    def online_row(self) -> dict[str, dict[str, float]]:
        """Raw returns of the episodes that ended since the last call, as a trainer's extra rows."""
        if not self._returns:
            return {}
        count, total = len(self._returns), sum(self._returns)
        self._returns.clear()
        return {"online": {"num_episodes": float(count), "mean_return": total / count}}

    def close(self) -> None:
        self._env.close()
