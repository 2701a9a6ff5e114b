"""Environments: everything is a `gymnasium.vector.VectorEnv` with next-step auto-reset."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import TYPE_CHECKING

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv

from visr import atari_games
from visr.config import GRID, MINATAR
from visr.envs import modules
from visr.envs.atari import AtariGames, unknown
from visr.envs.grid.env import GridVectorEnv
from visr.envs.grid.world import GridWorld
from visr.envs.gym import GymEnvs
from visr.envs.minatar import GAMES as MINATAR_GAMES
from visr.envs.minatar import MinAtarGames
from visr.envs.modules import trust
from visr.envs.spaces import SpaceCodec, identity_codec
from visr.errors import UserError

if TYPE_CHECKING:
    from visr.config import RunConfig

__all__ = ["SpaceCodec", "exact_model", "list_envs", "make_vec", "space_codec", "trust"]

_DESCRIPTIONS = {
    GRID: "the paper's grid world: any size, open or four rooms, exact optimal values",
    "CartPole-v1": "Gymnasium's pole on a cart: 4 numbers, 2 actions",
    "Acrobot-v1": "Gymnasium's two-link pendulum: 6 numbers, 3 actions",
    "MountainCar-v0": "Gymnasium's car in a valley: 2 numbers, 3 actions",
    "CliffWalking-v1": "Gymnasium's cliff: 48 states, 4 actions",
    "FrozenLake-v1": "Gymnasium's slippery lake: 16 states, 4 actions",
    "FrozenLake8x8-v1": "Gymnasium's larger slippery lake: 64 states, 4 actions",
    "Taxi-v4": "Gymnasium's taxi: 500 states, 6 actions",
}

if GRID not in gymnasium.registry:
    gymnasium.register(
        GRID,
        entry_point="visr.envs.grid.env:make",
        vector_entry_point="visr.envs.grid.env:make_vector",
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
        for game in atari_games.all_games()
    ]
    missing = "" if importlib.util.find_spec("minatar") else "; needs visr[minatar]"
    minatar = [(id, f"MinAtar: 10 x 10 planes of objects{missing}") for id in MINATAR_GAMES]
    return [*small, *minatar, *atari]


def make_vec(config: RunConfig, num_envs: int, seed: int | None = None) -> VectorEnv:
    """The vector environment of a run; `seed` resets it with that seed."""
    if num_envs < 1:
        raise UserError(f"num_envs is {num_envs}, but there must be at least 1 environment.")
    if world := exact_model(config):
        env = GridVectorEnv(world, num_envs, max_episode_steps=config.grid.max_episode_steps)
    elif config.env.startswith(MINATAR):
        env = MinAtarGames(config.minatar, config.env, num_envs)
    elif config.is_atari:
        env = AtariGames(config.atari, config.env, num_envs, config.training.num_threads)
    else:
        env = _from_gymnasium(config, num_envs)
    if seed is not None:
        env.reset(seed=seed)
        env.action_space.seed(seed)
    return env


def exact_model(config: RunConfig) -> GridWorld | None:
    """The transition table behind the environment, where it is known: only the grid's is."""
    return GridWorld.from_config(config.grid) if config.is_grid else None


def space_codec(config: RunConfig) -> SpaceCodec:
    """How to convert observations and actions of single environments of this kind."""
    env = make_vec(config, 1)
    try:
        if isinstance(env, GymEnvs):
            return env.codec
        if isinstance(env, AtariGames | MinAtarGames):
            return identity_codec(env, env.action_names)
        return identity_codec(env, ["up", "left", "down", "right"])  # the grid's
    finally:
        env.close()


def _from_gymnasium(config: RunConfig, num_envs: int) -> VectorEnv:
    modules.load(config.env)
    id = config.env.rpartition(":")[2]
    _import_known(id)
    try:
        env = gymnasium.make_vec(
            id,
            num_envs,
            vectorization_mode=config.gym.vectorize,
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
        return GymEnvs(env, config.gym.discretise)
    except UserError:
        env.close()
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
    return unknown(id, {*gymnasium.registry, *(game.id for game in atari_games.all_games())})
