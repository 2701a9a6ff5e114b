"""A Gymnasium vector environment whose steps are a model's predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from visr.paper.baselines.simple.model import WorldModel

Starts = Callable[[int, torch.Generator], Tensor]
"""Draws the last frames of so many real states: [N, K, C, H, W] uint8."""


class SimulatedEnv(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Episodes of `rollout_length` steps that start in real states; the model may end them earlier.

    Next-step auto-reset, as in every environment of visr; `reset(options={"reset_mask": [N] bool})` starts
    new episodes only there. The observation is the newest frame, or all frames if they are `stacked`.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        model: WorldModel,
        starts: Starts,
        observation_space: Box,
        num_actions: int,
        num_envs: int,
        rollout_length: int,
        stacked: bool = False,
    ) -> None:
        self._model, self._starts, self._stacked = model, starts, stacked
        self.num_envs, self._rollout_length = num_envs, rollout_length
        self.single_observation_space = observation_space
        self.single_action_space = Discrete(num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rng = torch.Generator()
        self._history: Tensor | None = None
        self._age = np.zeros(num_envs, dtype=np.int64)
        self._ended = np.zeros(num_envs, dtype=np.bool_)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start new episodes, everywhere or where the mask says; a seed determines all later draws."""
        super().reset(seed=seed)
        if seed is not None or self._history is None:
            self._rng.manual_seed(int(self.np_random.integers(2**31)))
        mask = np.ones(self.num_envs, dtype=np.bool_)
        if self._history is not None and options and "reset_mask" in options:
            mask = np.asarray(options["reset_mask"], dtype=np.bool_)
        self._begin(mask)
        return self._observe(), {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One prediction everywhere; environments that ended at the last step start anew instead."""
        if self._history is None:
            raise gymnasium.error.ResetNeeded("call reset() before anything else")
        chosen = torch.as_tensor(np.asarray(actions)).long()
        begins = self._ended.copy()
        predicted = self._model.predict(self._history, chosen, self._rng)
        self._history = torch.cat([self._history[:, 1:], predicted.frame.unsqueeze(1)], dim=1)
        self._age += 1
        terminated = predicted.terminated.numpy().copy()
        truncated = (self._age >= self._rollout_length) & ~terminated
        reward = predicted.reward.numpy().astype(np.float32)
        if begins.any():
            self._begin(begins)
            reward[begins] = 0.0
            terminated[begins] = truncated[begins] = False
        self._ended = terminated | truncated
        return self._observe(), reward, terminated, truncated, {}

    def _begin(self, mask: NDArray[np.bool_]) -> None:
        """Put new real states where the mask is True."""
        drawn = self._starts(int(mask.sum()), self._rng)
        if self._history is None:
            self._history = drawn
        else:
            self._history[torch.from_numpy(mask)] = drawn
        self._age[mask] = 0
        self._ended[mask] = False

    def _observe(self) -> np.ndarray:
        assert self._history is not None
        seen = self._history.flatten(1, 2) if self._stacked else self._history[:, -1]
        return seen.numpy().copy()
