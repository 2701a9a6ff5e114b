"""Vector environments of MinAtar's five games, over the reference implementation."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from visr import strict_json
from visr.config import MINATAR, MinAtarConfig
from visr.envs.gym import unknown_env
from visr.envs.spaces import identity_codec
from visr.errors import UserError
from visr.optional_packages import needing

GAMES = {
    f"{MINATAR}Asterix-v1": "asterix",
    f"{MINATAR}Breakout-v1": "breakout",
    f"{MINATAR}Freeway-v1": "freeway",
    f"{MINATAR}Seaquest-v1": "seaquest",
    f"{MINATAR}SpaceInvaders-v1": "space_invaders",
}
_SIDE = 10
_NAMES = {"n": "no-op", "l": "left", "u": "up", "r": "right", "d": "down", "f": "fire"}


class MinAtarGames(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many copies of one game: planes of objects, uint8 zeros and ones [N, channels, 10, 10].

    Minimal action sets, sticky actions as in the games' paper, a time limit that sets `truncated`, and
    next-step auto-reset: the step after an episode's last one only resets.
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
        action_names = [_NAMES[names[action]] for action in self._actions]
        channels = self._games[0].n_channels
        self.single_observation_space = spaces.Box(0, 1, (channels, _SIDE, _SIDE), np.uint8)
        self.single_action_space = spaces.Discrete(len(self._actions))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.codec = identity_codec(self, action_names)
        self._age = np.zeros(num_envs, dtype=np.int64)
        self._ended = np.zeros(num_envs, dtype=np.bool_)
        self._is_reset = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new game everywhere; a seed determines all later draws."""
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
        """The complete state as arrays; `load_state` continues from it exactly."""
        own = {"age": self._age.copy(), "ended": self._ended.copy()}
        return own | games_state(self._games)

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue exactly from `state()`."""
        age, ended = (np.array(state[name]) for name in ("age", "ended"))
        if age.shape != (self.num_envs,) or ended.shape != age.shape:
            raise UserError(
                f"The saved games have shape {age.shape}, but there are {self.num_envs} of them: resume "
                "with the num_envs they were saved with."
            )
        is_age = age.dtype == np.int64 and age.min() >= 0 and age.max() <= self._limit
        if not is_age or ended.dtype != np.bool_:
            raise UserError("The saved games are damaged (no such age); start a new run.")
        load_games(self._games, state)
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
        raise UserError(unknown_env(id, GAMES))
    logging.disable(logging.WARNING)  # minatar warns that it cannot draw
    try:
        with needing("minatar", "minatar", f"The environment {id!r}"):
            from minatar import Environment
    finally:
        logging.disable(logging.NOTSET)
    return Environment


def plane_names(id: str) -> list[str]:
    """The game's own names of its planes, in their order."""
    channels: dict[str, int] = _reference(id)(GAMES[id]).env.channels
    names = sorted(channels, key=lambda name: channels[name])
    return [name.replace("_", " ") for name in names]


_SETTINGS = ("action_map", "channels", "ramping", "random")
"""Attributes that are settings or random generators; all others are the state of the game."""
_MAX_NUMBER = 10_000
"""Largest number in a saved game; cells and timers reach 2,500."""
_MT_WORDS = 624
"""Length of the Mersenne twister's state."""
_FAILURES = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(NameError, RecursionError),  # an unknown direction; deeply nested lists
)
"""What MinAtar raises when it plays a state that no game reaches."""


def games_state(games: Sequence[Any]) -> dict[str, NDArray]:
    """The complete state of the games, with their random generators, as arrays."""
    generators = [game.random.get_state() for game in games]
    values = json.dumps([_attributes(game) for game in games])
    return {
        "games": np.frombuffer(values.encode(), dtype=np.uint8),
        "random": np.stack([words for _, words, *_ in generators]).astype(np.int64),
        "drawn": np.array([place for _, _, place, *_ in generators], dtype=np.int64),
    }


def load_games(games: Sequence[Any], state: Mapping[str, NDArray]) -> None:
    """Restore `games_state`; the games change only if all of it is valid."""
    try:
        restored = [copy.deepcopy(game) for game in games]
        saved = strict_json.parse(state["games"].astype(np.uint8).tobytes())
        words, places = state["random"], state["drawn"]
        if words.dtype != np.int64 or places.dtype != np.int64:
            raise TypeError("its random state is invalid")
        if words.shape != (len(games), _MT_WORDS) or places.shape != (len(games),):
            raise ValueError("it has another number of games")
        if places.min() < 0 or places.max() > _MT_WORDS or words.min() < 0 or words.max() >= 2**32:
            raise ValueError("its random state is invalid")
        for game, values, drawn, place in zip(restored, saved, words, places, strict=True):
            _restore(game, values)
            game.env.random = game.random = np.random.RandomState()
            game.random.set_state(("MT19937", drawn.astype(np.uint32), int(place), 0, 0.0))
            _check_playable(game)
    except _FAILURES as error:
        raise UserError(
            f"The saved games are damaged ({error}); resume from an older checkpoint, or start a new run."
        ) from None
    for game, better in zip(games, restored, strict=True):
        vars(game).update(vars(better))


def _attributes(game: Any) -> dict[str, Any]:
    attributes = {k: _plain(v) for k, v in vars(game.env).items() if k not in _SETTINGS}
    return {**attributes, "last_action": int(game.last_action)}


def _plain(value: Any) -> Any:
    """As JSON: games hold numbers, arrays, and lists of lists of numbers."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _restore(game: Any, values: dict[str, Any]) -> None:
    own = _attributes(game)
    if values.keys() != own.keys():
        raise ValueError("it is a state of another game")
    for name, value in values.items():
        _check_number(name, value)
        if isinstance(own[name], list) != isinstance(value, list):
            raise ValueError(f"its {name} is no {name}")
        if name == "last_action":
            if value not in range(game.num_actions()):
                raise ValueError("its last_action is no action")
            game.last_action = value
        elif isinstance(current := getattr(game.env, name), np.ndarray):
            array = np.array(value, dtype=current.dtype)
            if array.shape != current.shape:
                raise ValueError(f"its {name} has another shape")
            setattr(game.env, name, array)
        else:
            setattr(game.env, name, value)


def _check_number(name: str, value: Any, depth: int = 0) -> None:
    if isinstance(value, list) and depth < 2 and len(value) <= _MAX_NUMBER:
        for item in value:
            _check_number(name, item, depth + 1)
    elif value is None and depth == 1:  # an empty cell
        return
    elif not isinstance(value, int | float) or not abs(value) <= _MAX_NUMBER:
        raise ValueError(f"its {name} is no {name}")


def _check_playable(game: Any) -> None:
    """Draw and play a copy, so that an invalid state fails now and not many steps later."""
    trial = copy.deepcopy(game)
    for action in range(trial.num_actions()):
        trial.state()
        trial.act(action)
