"""Copies of any Gymnasium environment with a moderate number of actions."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import re
import traceback
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
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
from visr.envs import modules
from visr.envs.spaces import codec_for
from visr.errors import UserError, reason_of

_COLOURS = re.compile(r"\x1b\[\d+m")
_CHECKER = r"gymnasium\.utils\.passive_env_checker"
_PACKAGES = {"MiniGrid-": "minigrid", "BabyAI-": "minigrid", "LunarLander": "Box2D"}
"""Packages that register ids with these prefixes; a fixed list, because ids are untrusted."""


def spread_seeds(seed: int, num_envs: int) -> list[int]:
    """A seed for each copy. Gymnasium counts up from one seed, so neighbouring seeds would share episodes."""
    return np_random(seed)[0].integers(2**31, size=num_envs).tolist()


class GymEnvs(VectorEnv[NDArray, NDArray, NDArray]):
    """Copies of one environment, with observations and actions converted by a `SpaceCodec`.

    What its code raises and returns is checked; every error names the environment.
    """

    def __init__(self, inner: VectorEnv, discretise: int = 0) -> None:
        self.inner, self.num_envs, self.allow_non_finite = inner, inner.num_envs, False
        self.warnings: list[str] = []
        """What Gymnasium's checker says of the first reset and the first step, for `visr doctor`."""
        self._unchecked = {"reset", "step"}
        self._name = inner.spec.id if inner.spec else type(inner).__name__
        self.metadata = {**inner.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.codec = codec_for(inner, discretise)
        self.single_observation_space = self.codec.space
        self.single_action_space = spaces.Discrete(len(self.codec.actions))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray, dict[str, Any]]:
        super().reset(seed=seed)
        seeds: Any = None if seed is None else spread_seeds(seed, self.num_envs)
        with self._errors(), self._first("reset"):
            observation, info = self.inner.reset(seed=seeds, options=options)
            observation = self.codec.encode(observation)
        return self._checked(observation), info

    @property
    def max_episode_steps(self) -> int:
        """The time limit that the environment was registered with; 0 for none."""
        return getattr(self.inner.spec, "max_episode_steps", None) or 0

    def step(self, actions: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray, dict[str, Any]]:
        """Act everywhere; environments whose episode ended at the last step reset instead."""
        with self._errors(), self._first("step"):
            observation, reward, terminated, truncated, info = self.inner.step(
                self.codec.actions[actions]
            )
            observation = self.codec.encode(observation)
            reward = np.asarray(reward, dtype=np.float32)
        return self._checked(observation), reward, terminated, truncated, info

    @contextlib.contextmanager
    def _first(self, name: str) -> Iterator[None]:
        """Collect the warnings of Gymnasium's checker of first calls; show all others."""
        if name not in self._unchecked:
            yield
            return
        self._unchecked.discard(name)
        with warnings.catch_warnings(record=True) as caught:
            warnings.filterwarnings("always", module=_CHECKER)
            yield
        for warning in caught:
            if "passive_env_checker" in warning.filename:
                text = _COLOURS.sub("", str(warning.message)).removeprefix("WARN: ")
                self.warnings += [text] if text not in self.warnings else []
            else:
                warnings.warn_explicit(
                    warning.message, warning.category, warning.filename, warning.lineno
                )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn any exception of the environment's code into one sentence with its file and line."""
        try:
            yield
        except UserError:
            raise
        except (Exception, SystemExit) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            reason = reason_of(f"{type(error).__name__}: {error}")
            raise UserError(
                f"The environment {self._name} failed with {reason[:300]} ({Path(where.filename).name}, line "
                f"{where.lineno}); mend it, then go on: what was saved is kept."
            ) from error

    def _checked(self, observation: NDArray) -> NDArray:
        """Refuse observations [B, ...] of another shape, states outside of the space, NaN and infinity."""
        space = self.single_observation_space
        if observation.shape[1:] != space.shape:
            raise UserError(
                f"The environment {self._name} changed its observations from shape {space.shape} to "
                f"{observation.shape[1:]}; visr needs one shape throughout, so pad or crop them in a wrapper."
            )
        if isinstance(space, spaces.Discrete):
            lowest, highest = int(observation.min()), int(observation.max())
            if lowest < 0 or highest >= space.n:
                raise UserError(
                    f"The environment {self._name} is in state {lowest if lowest < 0 else highest}, but "
                    f"promised states 0 to {space.n - 1}; mend its observation_space."
                )
        elif observation.dtype.kind == "f" and not self.allow_non_finite:
            bad = np.argwhere(~np.isfinite(observation))
            if len(bad):
                value, name = observation[tuple(bad[0])], self.codec.field_names[bad[0][1]]
                raise UserError(
                    f"The environment {self._name} returned {value} as {name!r}; mend it (`visr doctor` "
                    "counts such numbers), then go on: what was saved is kept."
                )
        return observation

    def close_extras(self, **kwargs: Any) -> None:
        """Close the inner environments and their processes."""
        self.inner.close()


def make(env: str, num_envs: int, config: GymConfig) -> GymEnvs:
    """Copies of an environment: `Id-v0`, or one of the user's own (`modules`)."""
    spec = modules.load(env)
    id = spec if isinstance(spec, str) else spec.id
    for prefix, package in _PACKAGES.items():
        if id.startswith(prefix) and importlib.util.find_spec(package):
            with warnings.catch_warnings():  # Box2D fails to import where warnings are errors
                warnings.simplefilter("ignore")
                importlib.import_module(package)
    try:
        made = gymnasium.make_vec(
            spec,
            num_envs,
            vectorization_mode=config.vectorize,
            vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP},
        )
    except (Exception, SystemExit) as error:  # it is unknown, or the user's code failed
        if isinstance(spec, str) and id not in gymnasium.registry:
            games = (game.id for game in atari_games.all_games())
            raise UserError(unknown_env(id, {*gymnasium.registry, *games})) from error
        reason = repr(error) if isinstance(error, SystemExit) else error
        raise UserError(
            f"The environment {id!r} could not be built: {reason_of(reason)}."
        ) from error
    try:
        return GymEnvs(made, config.discretise)
    except UserError:
        made.close()
        raise


def _bare(id: str) -> str:
    """An id without its package and version: `grid` for `visr/grid-v0`."""
    return id.rpartition("/")[2].partition("-v")[0]


def unknown_env(id: str, known: Iterable[str]) -> str:
    """One sentence that names the nearest of the known ids."""
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(id.lower(), names, n=3)
    if not near:  # a part of an id: grid
        near = sorted(name for name in names if _bare(name) == _bare(id.lower()))[:3]
    hint = "check its spelling and that its package is installed;"
    if id.endswith(".py"):
        hint = f"name the class in the file, {id}:Class;"
    if near:
        hint = f"did you mean {' or '.join(repr(names[name]) for name in near)}?"
    return (
        f"Unknown environment {id!r}: {hint} `visr list envs` names those that work, and your own are "
        "my_module:Id-v0 or my_file.py:Class."
    )
