"""MinAtar's five games, many copies side by side over the reference implementation."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike

from visr.config import MINATAR, MinAtarConfig
from visr.envs import minatar_state
from visr.errors import UserError

GAMES = {
    f"{MINATAR}Asterix-v1": "asterix",
    f"{MINATAR}Breakout-v1": "breakout",
    f"{MINATAR}Freeway-v1": "freeway",
    f"{MINATAR}Seaquest-v1": "seaquest",
    f"{MINATAR}SpaceInvaders-v1": "space_invaders",
}
_SIDE = 10
_WORDS: dict[str, str] = {
    "n": "no-op",
    "l": "left",
    "u": "up",
    "r": "right",
    "d": "down",
    "f": "fire",
}


class MinAtarGames(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many copies of one game: planes of objects, uint8 zeros and ones [N, channels, 10, 10].

    Minimal action sets, sticky actions as in the games' paper, a time-out that is `truncated`, and next-step
    auto-reset: the last observation of a game arrives like any other.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, config: MinAtarConfig, id: str, num_envs: int) -> None:
        environment = _reference(id)
        self._games: list[Any] = [
            environment(
                GAMES[id],
                sticky_action_prob=config.repeat_probability,
                difficulty_ramping=config.difficulty_ramping,
            )
            for _ in range(num_envs)
        ]
        self.num_envs, self._limit = num_envs, config.max_game_steps
        self._actions = np.asarray(self._games[0].minimal_action_set())
        names = self._games[0].env.action_map
        self.action_names = [_WORDS[names[action]] for action in self._actions]
        channels = self._games[0].n_channels
        self.single_observation_space = spaces.Box(0, 1, (channels, _SIDE, _SIDE), np.uint8)
        self.single_action_space = spaces.Discrete(len(self._actions))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._age = np.zeros(num_envs, dtype=np.int64)
        self._ended = np.zeros(num_envs, dtype=np.bool_)
        self._is_reset = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new game everywhere; a seed decides all that follows."""
        super().reset(seed=seed)
        if seed is not None or not self._is_reset:
            seeds = self.np_random.integers(2**31, size=self.num_envs).tolist()
            for game, drawn in zip(self._games, seeds, strict=True):
                game.seed(drawn)
        for index in range(self.num_envs):
            self._begin(index)
        self._is_reset = True
        self._ended[:] = False
        return self._observe(), {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Play on everywhere; games that ended at the last step begin anew instead."""
        if not self._is_reset:
            raise gymnasium.error.ResetNeeded("call reset() before anything else")
        chosen = self._actions[np.asarray(actions)].tolist()
        reward = np.zeros(self.num_envs, dtype=np.float32)
        terminated = np.zeros(self.num_envs, dtype=np.bool_)
        begins = self._ended.tolist()
        for index, (game, action) in enumerate(zip(self._games, chosen, strict=True)):
            if begins[index]:
                self._begin(index)
            else:
                reward[index], terminated[index] = game.act(action)
        self._age += ~self._ended
        truncated = (self._age >= self._limit) & ~terminated
        self._ended = terminated | truncated
        return self._observe(), reward, terminated, truncated, {}

    def state(self) -> dict[str, np.ndarray]:
        """Everything that decides the future, as arrays."""
        own = {"age": self._age.copy(), "ended": self._ended.copy()}
        return own | minatar_state.taken(self._games)

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on exactly where `state()` was taken."""
        age, ended = (np.array(state[name]) for name in ("age", "ended"))
        if age.shape != (self.num_envs,) or ended.shape != age.shape:
            raise UserError(
                f"The saved games have shape {age.shape}, but there are {self.num_envs} of them: resume "
                "with the num_envs they were saved with."
            )
        is_age = age.dtype == np.int64 and age.min() >= 0 and age.max() <= self._limit
        if not is_age or ended.dtype != np.bool_:
            raise UserError("The saved games are damaged (no such age); begin anew.")
        minatar_state.put_back(self._games, state)
        self._age, self._ended = age, ended

    def _begin(self, index: int) -> None:
        game = self._games[index]
        game.reset()
        game.last_action = 0
        self._age[index] = 0

    def _observe(self) -> np.ndarray:
        planes = np.stack([game.env.state() for game in self._games])
        return np.ascontiguousarray(planes.transpose(0, 3, 1, 2)).view(np.uint8)


def _reference(id: str) -> Any:
    if id not in GAMES:
        near = difflib.get_close_matches(id, GAMES, n=1, cutoff=0.0)
        raise UserError(f"Unknown environment {id!r}: did you mean {near[0]!r}?")
    try:
        logging.disable(logging.WARNING)  # it says at length that it could not draw
        from minatar import Environment
    except ImportError as error:
        raise UserError(
            f'The environment {id!r} needs minatar: pip install "visr[minatar]".'
        ) from error
    finally:
        logging.disable(logging.NOTSET)
    return Environment
