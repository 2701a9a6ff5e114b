"""Copies of any Gymnasium environment with a moderate number of actions."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from visr import atari_games
from visr.config import GymConfig
from visr.envs import modules, validation
from visr.envs.spaces import codec_for
from visr.errors import UserError


def spread_seeds(seed: int, num_envs: int) -> list[int]:
    """A seed for each copy. Gymnasium counts up from one seed, so neighbouring seeds would share episodes."""
    return np_random(seed)[0].integers(2**31, size=num_envs).tolist()


class GymEnvs(VectorEnv[NDArray, NDArray, NDArray]):
    """Copies of one environment, with observations and actions converted by a `SpaceCodec`."""

    def __init__(self, inner: VectorEnv, discretise: int = 0) -> None:
        self.inner, self.num_envs, self.allow_non_finite = inner, inner.num_envs, False
        self.metadata = {**inner.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.codec = codec_for(inner, discretise)
        self.single_observation_space = self.codec.space
        self.single_action_space = spaces.Discrete(len(self.codec.actions))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray, dict[str, Any]]:
        """Start a new episode everywhere."""
        super().reset(seed=seed)
        seeds: Any = None if seed is None else spread_seeds(seed, self.num_envs)
        with validation.env_errors(self._name):
            observation, info = self.inner.reset(seed=seeds, options=options)
            observation = self.codec.encode(observation)
        self._check(observation)
        return observation, info

    def step(self, actions: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray, dict[str, Any]]:
        """Act everywhere; environments whose episode ended at the last step reset instead."""
        with validation.env_errors(self._name):
            observation, reward, terminated, truncated, info = self.inner.step(
                self.codec.actions[actions]
            )
            observation = self.codec.encode(observation)
            reward = np.asarray(reward, dtype=np.float32)
        self._check(observation)
        return observation, reward, terminated, truncated, info

    def _check(self, observation: NDArray) -> None:
        validation.check_in_space(self._name, self.single_observation_space, observation)
        if observation.dtype.kind == "f" and not self.allow_non_finite:
            validation.check_finite(self._name, self.codec.field_names, observation)

    @property
    def _name(self) -> str:
        return self.inner.spec.id if self.inner.spec else type(self.inner).__name__

    def close_extras(self, **kwargs: Any) -> None:
        """Close the inner environments and their processes."""
        self.inner.close()


def make(env: str, num_envs: int, config: GymConfig) -> GymEnvs:
    """Copies of a registered environment, `Id-v0` or `module:Id-v0`."""
    modules.load(env)
    id = env.rpartition(":")[2]
    _import_known(id)
    try:
        made = gymnasium.make_vec(
            id,
            num_envs,
            vectorization_mode=config.vectorize,
            vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP},
        )
    except gymnasium.error.UnregisteredEnv as error:
        raise UserError(_unknown(id)) from error
    except Exception as error:  # the user's code failed
        if id not in gymnasium.registry:
            raise UserError(_unknown(id)) from error
        reason = " ".join(str(error).split()).rstrip(".")
        raise UserError(f"The environment {id!r} could not be built: {reason}.") from error
    try:
        return GymEnvs(made, config.discretise)
    except UserError:
        made.close()
        raise


_PACKAGES = {"MiniGrid-": "minigrid", "BabyAI-": "minigrid", "LunarLander": "Box2D"}
"""Packages that register ids with these prefixes; a fixed list, because an id may come from a stranger."""


def _import_known(id: str) -> None:
    for prefix, package in _PACKAGES.items():
        if id.startswith(prefix) and importlib.util.find_spec(package):
            with warnings.catch_warnings():  # Box2D fails to import where warnings are errors
                warnings.simplefilter("ignore")
                importlib.import_module(package)


def _unknown(id: str) -> str:
    return validation.unknown_env(
        id, {*gymnasium.registry, *(game.id for game in atari_games.all_games())}
    )
