"""Vector environments of Atari games, preprocessed as in Mnih et al. (2015); all ale-py settings explicit."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike

from visr import atari_games
from visr.config import ATARI, AtariConfig
from visr.envs.gym import unknown_env
from visr.envs.spaces import identity_codec
from visr.errors import UserError
from visr.optional_packages import needing

_LARGEST = 2**31 - 1
"""The largest integer that ALE accepts, also as a seed."""


class AtariGames(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many copies of one game: the last four frames uint8 [N, 4, 84, 84], unclipped rewards float32 [N].

    Next-step auto-reset, as in `GridVectorEnv`. info["lives"] counts lives; info["life_lost"] marks
    steps in which one was lost and the episode continues.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        config: AtariConfig,
        id: str,
        num_envs: int,
        num_threads: int = 0,
        *,
        screen: bool = False,
    ) -> None:
        """0 threads: as many as there are cores.

        `screen` returns colour frames instead, uint8 [N, 1, 210, 160, 3]; the game itself is the same.
        """
        with needing("ale_py", "atari", f"The environment {id!r}"):
            from ale_py.vector_env import AtariVectorEnv
        self._ale = AtariVectorEnv(
            _rom(id),
            num_envs,
            batch_size=num_envs,
            num_threads=num_threads,
            thread_affinity_offset=-1,
            max_num_frames_per_episode=min(config.max_episode_frames, _LARGEST),
            repeat_action_probability=config.sticky_actions,
            full_action_space=config.full_action_space,
            continuous=False,
            autoreset_mode=AutoresetMode.NEXT_STEP,
            img_height=210 if screen else 84,
            img_width=160 if screen else 84,
            grayscale=not screen,
            stack_num=1 if screen else 4,
            frameskip=config.frame_skip,
            maxpool=True,
            noop_max=config.noop_max + 1,  # ALE draws from 0 to one less than it is told
            episodic_life=False,
            life_loss_info=False,
            reward_clipping=False,
            use_fire_reset=False,
        )
        self.num_envs = num_envs
        self.single_observation_space = self._ale.single_observation_space
        self.single_action_space = self._ale.single_action_space
        self.observation_space = self._ale.observation_space
        self.action_space = self._ale.action_space
        self._num_actions = int(self._ale.single_action_space.n)  # pyright: ignore
        actions = self._ale.ale.get_action_set()
        names = [_words(str(action.name)) for action in actions]
        self.codec = identity_codec(self, names)
        self._lives: np.ndarray | None = None
        self._ended = np.zeros(num_envs, dtype=np.bool_)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new episode everywhere; with a seed ALE reloads the ROM, which is slow."""
        super().reset(seed=seed)
        # ALE counts up from one seed, so neighbouring seeds would share games.
        seeds = None if seed is None else self.np_random.integers(_LARGEST, size=self.num_envs)
        observation, info = self._ale.reset(seed=seeds)
        self._lives = info["lives"].copy()
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        return observation, {**info, "life_lost": np.zeros(self.num_envs, dtype=np.bool_)}

    def step(
        self, actions: ArrayLike
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self._lives is None:
            raise gymnasium.error.ResetNeeded("call reset() before anything else")
        actions = np.asarray(actions).astype(np.int64, casting="same_kind", copy=False)
        count = self._num_actions
        # ALE hangs on an invalid action.
        if actions.shape != self._ended.shape or not ((actions >= 0) & (actions < count)).all():
            raise ValueError(
                f"actions must be {self.num_envs} integers from 0 to {count - 1}: {actions}"
            )
        observation, reward, terminated, truncated, info = self._ale.step(actions)
        ended = terminated | truncated
        life_lost = (info["lives"] < self._lives) & ~ended & ~self._ended
        self._lives, self._ended = info["lives"].copy(), ended
        reward = reward.astype(np.float32)
        return observation, reward, terminated, truncated, {**info, "life_lost": life_lost}


def _words(name: str) -> str:
    """ALE's UPRIGHTFIRE as words: up right fire."""
    if name == "NOOP":
        return "no-op"
    return " ".join(re.findall("UP|DOWN|LEFT|RIGHT|FIRE", name)).lower()


def _rom(id: str) -> str:
    """The name of a game's ROM: one of the 57, or another that ale-py includes."""
    from ale_py import roms

    named = {f"{ATARI}{rom.title().replace('_', '')}-v5": rom for rom in roms.get_all_rom_ids()}
    named |= {game.id: game.name for game in atari_games.all_games()}
    if id not in named:
        raise UserError(unknown_env(id, named))
    return named[id]
