"""Environments: everything is a `gymnasium.vector.VectorEnv` with next-step auto-reset."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv

from visr import games
from visr.config import ATARI, GRID
from visr.envs.atari import AtariGames, unknown
from visr.envs.grid import GridVectorEnv
from visr.envs.world import GridWorld
from visr.errors import UserError

if TYPE_CHECKING:
    from visr.config import RunConfig

__all__ = ["list_envs", "make_vec"]

_DESCRIPTIONS = {
    GRID: "the paper's grid world: any size, open or four rooms, exact optimal values",
    "CliffWalking-v1": "Gymnasium's cliff: 48 states, 4 actions",
    "FrozenLake-v1": "Gymnasium's slippery lake: 16 states, 4 actions",
    "FrozenLake8x8-v1": "Gymnasium's larger slippery lake: 64 states, 4 actions",
    "Taxi-v4": "Gymnasium's taxi: 500 states, 6 actions",
}

if GRID not in gymnasium.registry:
    gymnasium.register(
        GRID,
        entry_point="visr.envs.grid:make",
        vector_entry_point="visr.envs.grid:make_vector",
    )


def list_envs() -> list[tuple[str, str]]:
    """(id, description) of the environments that are known to work."""
    small = [(id, text) for id, text in _DESCRIPTIONS.items() if id in gymnasium.registry]
    missing = "" if importlib.util.find_spec("ale_py") else "; needs visr[atari]"
    atari = [
        (
            game.id,
            f"Atari, {game.num_actions} actions: a random player scores {game.random:,g}, "
            f"a human {game.human:,g}{missing}",
        )
        for game in games.all_games()
    ]
    return small + atari


def make_vec(config: RunConfig, num_envs: int, seed: int | None = None) -> VectorEnv:
    """The environments of a run; a seed here decides all that follows, as one at `reset()` does."""
    if num_envs < 1:
        raise UserError(f"num_envs is {num_envs}, but there must be at least 1 environment.")
    if config.env == GRID:
        world = GridWorld.from_config(config.grid)
        env = GridVectorEnv(world, num_envs, max_episode_steps=config.grid.max_episode_steps)
    elif config.env.startswith(ATARI):
        env = AtariGames(config.atari, config.env, num_envs, config.training.num_threads)
    else:
        env = _from_gymnasium(config.env, num_envs)
    if seed is not None:
        env.reset(seed=seed)
        env.action_space.seed(seed)
    return env


def _from_gymnasium(id: str, num_envs: int) -> VectorEnv:
    try:
        env = gymnasium.make_vec(
            id,
            num_envs,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP},
        )
    except gymnasium.error.UnregisteredEnv as error:
        raise UserError(_unknown(id)) from error
    except Exception as error:  # it is other people's code that failed, at our door
        if id not in gymnasium.registry:
            raise UserError(_unknown(id)) from error
        reason = " ".join(str(error).split()).rstrip(".")
        raise UserError(f"The environment {id!r} could not be built: {reason}.") from error
    for what, space in (
        ("actions", env.single_action_space),
        ("observations", env.single_observation_space),
    ):
        if not isinstance(space, gymnasium.spaces.Discrete) or space.start != 0:
            env.close()
            raise UserError(
                f"The environment {id!r} has {what} of the kind {_one_line(space)}, but only "
                "Discrete ones that count from 0 are supported: `visr list envs` names some."
            )
    return env


def _one_line(space: gymnasium.Space) -> str:
    text = " ".join(str(space).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _unknown(id: str) -> str:
    return unknown(id, {*gymnasium.registry, *(game.id for game in games.all_games())})
