"""Worlds so small that what an agent must learn in them is known beforehand."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

CORRIDOR, NOISE = "Probe/Corridor-v0", "Probe/Noise-v0"


class Corridor(gymnasium.Env[np.int64, np.int64]):
    """Cells 0 to 4, begun in the middle: the right end pays 1 and the left end nothing; both are ends."""

    observation_space = spaces.Discrete(5)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._cell = 2
        return np.int64(self._cell), {}

    def step(self, action: Any) -> Any:
        self._cell += 1 if action else -1
        ended = self._cell in (0, 4)
        return np.int64(self._cell), float(self._cell == 4), ended, False, {}


class Noise(gymnasium.Env[np.int64, np.int64]):
    """Action 0 leads to cell 0, action 1 to any of the cells 1 to 8, by chance; it ends after 6 steps."""

    observation_space = spaces.Discrete(9)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._age = 0
        return np.int64(0), {}

    def step(self, action: Any) -> Any:
        self._age += 1
        cell = self.np_random.integers(1, 9) if action else 0
        return np.int64(cell), 0.0, self._age == 6, False, {}


for id, world in ((CORRIDOR, Corridor), (NOISE, Noise)):
    if id not in gymnasium.registry:
        gymnasium.register(id, entry_point=f"{__name__}:{world.__name__}", max_episode_steps=20)
