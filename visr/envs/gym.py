"""Any Gymnasium environment with few actions, its observations brought into one of three shapes.

A number stays a number, an image of bytes becomes [C, H, W], and everything else a vector.
"""

from __future__ import annotations

import itertools
import keyword
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from visr.envs import validation
from visr.errors import UserError

_MOST_ACTIONS = 1_000
_MOST_CHANNELS = 16
Convert = Callable[[Any], NDArray]
"""A batch of observations as the environment gives them -> as networks take them."""


def drawn_seeds(seed: int, num_envs: int) -> list[int]:
    """A seed for each copy. By itself Gymnasium counts up, and neighbouring seeds would share episodes."""
    return np_random(seed)[0].integers(2**31, size=num_envs).tolist()


class GymEnvs(VectorEnv[NDArray, NDArray, NDArray]):
    """Copies of one environment whose observations and actions visr understands."""

    def __init__(self, inner: VectorEnv, discretise: int = 0) -> None:
        self.inner, self.num_envs, self.is_tolerant = inner, inner.num_envs, False
        self.metadata = {**inner.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space, self.convert = observations(inner.single_observation_space)
        self.field_names = field_names(inner)
        self.meanings = actions(inner.single_action_space, discretise)
        self.action_names = action_names(inner, self.meanings)
        self.single_action_space = spaces.Discrete(len(self.meanings))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray, dict[str, Any]]:
        """Start a new episode everywhere."""
        super().reset(seed=seed)
        seeds: Any = None if seed is None else drawn_seeds(seed, self.num_envs)
        with validation.blaming(self._name):
            observation, info = self.inner.reset(seed=seeds, options=options)
            observation = self.convert(observation)
        self._check(observation)
        return observation, info

    def step(self, actions: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray, dict[str, Any]]:
        """Act everywhere; episodes that ended at the last step begin anew instead."""
        with validation.blaming(self._name):
            observation, reward, terminated, truncated, info = self.inner.step(
                self.meanings[actions]
            )
            observation, reward = self.convert(observation), np.asarray(reward, dtype=np.float32)
        self._check(observation)
        return observation, reward, terminated, truncated, info

    def _check(self, observation: NDArray) -> None:
        validation.refuse_broken_promises(self._name, self.single_observation_space, observation)
        if observation.dtype.kind == "f" and not self.is_tolerant:
            validation.refuse_no_numbers(self._name, self.field_names, observation)

    @property
    def _name(self) -> str:
        return self.inner.spec.id if self.inner.spec else type(self.inner).__name__

    def close_extras(self, **kwargs: Any) -> None:
        """Let go of processes."""
        self.inner.close()


def observations(space: spaces.Space) -> tuple[spaces.Space, Convert]:
    """The space that networks see, and the way there."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return spaces.Discrete(int(space.n)), lambda x: np.asarray(x, dtype=np.int64) - start
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3):
        return _image(space)
    size, convert = _vector(space, "observations")
    if not size:
        raise UserError(
            f"The environment's observations are {one_line(space)}: nothing to learn from."
        )
    return spaces.Box(-np.inf, np.inf, (size,), np.float32), convert


def _image(space: spaces.Box) -> tuple[spaces.Space, Convert]:
    shape = space.shape
    if len(shape) == 2:
        axes, shape = (0, 1, 2), (1, *shape)
        expand = True
    else:
        channels_last = shape[-1] <= _MOST_CHANNELS < shape[0] or shape[-1] < shape[0]
        axes = (0, 3, 1, 2) if channels_last else (0, 1, 2, 3)
        shape = (shape[2], *shape[:2]) if channels_last else shape
        expand = False
    low, high = int(space.low.min()), int(space.high.max())

    def convert(images: NDArray) -> NDArray:
        planes = images[:, None] if expand else images.transpose(axes)
        return np.ascontiguousarray(planes)

    return spaces.Box(low, high, shape, np.uint8), convert


def _vector(space: spaces.Space, name: str) -> tuple[int, Convert]:
    """Any other space as a row of numbers; what numbers cannot say (texts) is left out."""
    if isinstance(space, spaces.Box):
        size = int(np.prod(space.shape))
        return size, lambda x: np.asarray(x, dtype=np.float32).reshape(len(x), -1)
    if isinstance(space, spaces.MultiBinary):
        return int(np.prod(space.shape)), lambda x: np.asarray(x, np.float32).reshape(len(x), -1)
    if isinstance(space, spaces.Discrete):
        numbers, start = np.eye(int(space.n), dtype=np.float32), int(space.start)
        return int(space.n), lambda x: numbers[np.asarray(x) - start]
    if isinstance(space, spaces.MultiDiscrete):
        return _multi_discrete(space)
    if isinstance(space, spaces.Dict):
        parts = {key: _vector(part, f"{name}[{key}]") for key, part in space.items()}
        return _joined(parts)
    if isinstance(space, spaces.Tuple):
        return _joined({i: _vector(part, f"{name}[{i}]") for i, part in enumerate(space)})
    if is_text(space):
        return 0, lambda x: np.zeros((len(x), 0), dtype=np.float32)
    raise UserError(
        f"The environment's {name} are {one_line(space)}, which visr cannot read; wrap it so that they "
        "are Discrete, MultiBinary, Box, or a Dict or Tuple of those."
    )


def _multi_discrete(space: spaces.MultiDiscrete) -> tuple[int, Convert]:
    counts = space.nvec.ravel().tolist()
    starts = np.asarray(space.start).ravel()
    tables = [np.eye(count, dtype=np.float32) for count in counts]

    def convert(x: NDArray) -> NDArray:
        rows = np.asarray(x).reshape(len(x), -1) - starts
        return np.concatenate([t[rows[:, i]] for i, t in enumerate(tables)], axis=1)

    return sum(counts), convert


def _joined(parts: Mapping[Any, tuple[int, Convert]]) -> tuple[int, Convert]:
    used = {key: convert for key, (size, convert) in parts.items() if size}
    total = sum(size for size, _ in parts.values())

    def convert(x: Any) -> NDArray:
        return np.concatenate([part(x[key]) for key, part in used.items()], axis=1)

    return total, convert


KNOWN = {
    "CartPole": ("position", "velocity", "angle", "angular_velocity"),
    "MountainCar": ("position", "velocity"),
    "Acrobot": ("cos1", "sin1", "cos2", "sin2", "velocity1", "velocity2"),
    "LunarLander": ("x", "y", "vx", "vy", "angle", "spin", "left_leg", "right_leg"),
}
"""What the numbers of well-known environments are."""


_ACTIONS = {
    "CartPole": ("left", "right"),
    "MountainCar": ("left", "none", "right"),
    "LunarLander": ("none", "left engine", "main engine", "right engine"),
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pick up", "drop off"),
}


def action_names(env: VectorEnv, meanings: NDArray) -> list[str]:
    """Names for the actions of well-known environments; elsewhere what they are."""
    known = _ACTIONS.get(env.spec.name if env.spec else "", ())
    return list(known) if len(known) == len(meanings) else [str(meaning) for meaning in meanings]


def field_names(env: VectorEnv) -> list[str]:
    """Names for the numbers of an observation: known ones, a Dict's keys, or x0, x1, ...; none for images."""
    space, spec = env.single_observation_space, env.spec
    if isinstance(space, spaces.Discrete):
        return ["state"]
    if isinstance(space, spaces.Box) and len(space.shape) > 1 and space.dtype == np.uint8:
        return []
    known = KNOWN.get(spec.name if spec else "", ())
    size, _ = _vector(space, "observations")
    return list(known) if len(known) == size else _told_apart(_names(space, ""))


def _names(space: spaces.Space, stem: str) -> list[str]:
    if isinstance(space, spaces.Dict):
        return [name for key, part in space.items() for name in _names(part, f"{stem}{key}_")]
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space)
        return [name for i, part in parts for name in _names(part, f"{stem or 'x'}{i}_")]
    size, _ = _vector(space, "observations")
    if size == 1 and stem:
        return [_word(stem.rstrip("_"))]
    return [_word(f"{stem or 'x'}{i}") for i in range(size)]


def _told_apart(names: list[str]) -> list[str]:
    """Keys that differ only in signs no name can hold get numbers; `action` is the action's."""
    taken = {"action"}
    for index, name in enumerate(names):
        unique = next(n for n in _candidates(name) if n not in taken)
        taken.add(unique)
        names[index] = unique
    return names


def _candidates(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{number}" for number in itertools.count(2))


def _word(text: str) -> str:
    """Something an expression can name."""
    word = re.sub(r"\W", "_", text)
    word = word if word[:1].isidentifier() else f"x{word}"
    return f"{word}_" if keyword.iskeyword(word) else word


def actions(space: spaces.Space, discretise: int) -> NDArray:
    """What each of our actions 0, 1, 2, ... means to the environment, [actions, ...]."""
    if discretise and not isinstance(space, spaces.Box):
        raise UserError(f"discretise = {discretise} is for continuous actions; leave it out here.")
    if isinstance(space, spaces.Discrete):
        return np.arange(int(space.start), int(space.start) + int(space.n))
    if isinstance(space, spaces.MultiDiscrete) and _product(space.nvec) <= _MOST_ACTIONS:
        starts = np.asarray(space.start).ravel()
        combined = itertools.product(*(range(n) for n in space.nvec.ravel()))
        return (np.array(list(combined)) + starts).reshape(-1, *space.shape).astype(space.dtype)
    if isinstance(space, spaces.Box):
        return _bins(space, discretise)
    raise UserError(
        f"The environment's actions are {one_line(space)}; visr chooses among a few discrete ones, so wrap "
        "it with gymnasium.Wrapper to offer those."
    )


def _product(counts: NDArray) -> int:
    """Of any size: numpy's would begin anew beyond 64 bits."""
    return math.prod(counts.ravel().tolist())


def _bins(space: spaces.Box, discretise: int) -> NDArray:
    dims = int(np.prod(space.shape))
    if not discretise:
        raise UserError(
            f"The environment's actions are {one_line(space)}, which is continuous; --discretise 3 would "
            f"offer 3 values in each of its {dims} dimensions."
        )
    if discretise < 2 or not np.isfinite([space.low, space.high]).all():
        raise UserError(
            f"discretise = {discretise} needs at least 2 values and actions with bounds."
        )
    if dims * math.log(discretise) > math.log(_MOST_ACTIONS) + 1e-9:
        raise UserError(
            f"discretise = {discretise} makes {discretise}^{dims} actions; at most {_MOST_ACTIONS:,} are "
            "sensible, so use fewer values."
        )
    ends = zip(space.low.ravel().tolist(), space.high.ravel().tolist(), strict=True)
    values = [np.linspace(low, high, discretise) for low, high in ends]
    return np.array(list(itertools.product(*values)), dtype=space.dtype).reshape(-1, *space.shape)


def is_text(space: gymnasium.Space) -> bool:
    """Whether its elements are words, in Gymnasium's own space or in one like MiniGrid's missions."""
    return isinstance(space, spaces.Text) or (space.dtype is not None and space.dtype.kind == "U")


def one_line(space: gymnasium.Space) -> str:
    """A space in few words."""
    text = " ".join(str(space).split())
    return text if len(text) <= 60 else text[:57] + "..."
