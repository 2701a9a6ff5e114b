"""Environments: everything is a `gymnasium.vector.VectorEnv` with next-step auto-reset."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import gymnasium
from gymnasium.vector import VectorEnv

from visr.config.fields import GRID, MINATAR, MINIGRID
from visr.errors import UserError
from visr.types import EnvSpec

if TYPE_CHECKING:
    from visr.config.fields import RunConfig
    from visr.envs.grid.world import GridWorld
    from visr.envs.spaces import SpaceCodec


if GRID not in gymnasium.registry:
    gymnasium.register(
        GRID,
        entry_point="visr.envs.grid.env:make",
        vector_entry_point="visr.envs.grid.env:make_vector",
    )

_MINIGRIDS = (
    *("FourRooms", "DoorKey-5x5", "DoorKey-6x6", "Empty-8x8", "SimpleCrossingS9N1"),
    *("LavaGapS5", "MultiRoom-N2-S4"),
)
for _task in _MINIGRIDS:
    if (_id := f"{MINIGRID}{_task}-v0") not in gymnasium.registry:
        gymnasium.register(
            _id,
            entry_point="visr.envs.minigrid:NumberedStates",
            kwargs={"task": f"MiniGrid-{_task}-v0"},
        )


def make_vec(config: RunConfig, num_envs: int, seed: int | None = None) -> VectorEnv:
    """The vector environment of a run; `seed` resets it with that seed."""
    if num_envs < 1:
        raise UserError(f"num_envs is {num_envs}, but there must be at least 1 environment.")
    env = _make(config, num_envs)
    if seed is not None:
        env.reset(seed=seed)
        env.action_space.seed(seed)
    return env


def _make(config: RunConfig, num_envs: int) -> VectorEnv:
    """Import only the module that this environment needs."""
    if not config.has_environment:
        raise UserError(
            f"The run of {config.env} learnt from a dataset and has no environment to step in; name one when "
            "you load it (--env)."
        )
    if world := exact_model(config):
        from visr.envs.grid.env import GridVectorEnv

        limit = config.grid.max_episode_steps
        again = config.grid.same_starts
        return GridVectorEnv(world, num_envs, max_episode_steps=limit, same_starts=again)
    if config.env.startswith(MINATAR):
        from visr.envs.minatar import MinAtarGames

        return MinAtarGames(config.minatar, config.env, num_envs)
    if config.is_atari:
        from visr.envs.atari import AtariGames

        return AtariGames(config.atari, config.env, num_envs, config.training.num_threads)
    from visr.envs import gym

    return gym.make(config.env, num_envs, config.gym)


def exact_model(config: RunConfig) -> GridWorld | None:
    """The transition table behind the environment, where it is known: only the grid's is."""
    if not config.is_grid:
        return None
    from visr.envs.grid.world import GridWorld

    return GridWorld.from_config(config.grid)


def spec(config: RunConfig) -> EnvSpec:
    """The spaces of one environment."""
    if not config.has_environment:
        codec = space_codec(config)
        return EnvSpec(codec.space, len(codec.actions))
    with contextlib.closing(make_vec(config, 1)) as env:
        return EnvSpec(env.single_observation_space, int(env.single_action_space.n))  # pyright: ignore


def plane_names(config: RunConfig) -> list[str]:
    """What each plane of an observation shows, where the environment says so: MinAtar's games do."""
    if not config.env.startswith(MINATAR):
        return []
    from visr.envs.minatar import plane_names

    return plane_names(config.env)


def space_codec(config: RunConfig) -> SpaceCodec:
    """How to convert observations and actions of single environments of this kind."""
    if not config.has_environment:
        from visr.envs import dataset_spaces

        return dataset_spaces.codec(config.env)
    with contextlib.closing(make_vec(config, 1)) as env:
        return env.codec  # pyright: ignore[reportAttributeAccessIssue]
