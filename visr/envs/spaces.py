"""Convert between an environment's own spaces and those that networks use.

Observations become an integer (Discrete), an image of bytes [C, H, W], or a vector; actions become an index.
"""

from __future__ import annotations

import itertools
import keyword
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from visr.errors import UserError, short_repr

_MAX_ACTIONS = 1_000
_MAX_CHANNELS = 16
Encode = Callable[[Any], NDArray]
"""A batch of observations as the environment returns them -> as networks read them."""


@dataclass(frozen=True, eq=False)
class SpaceCodec:
    """The way from an environment's observations to networks, and from action indices back."""

    own_space: spaces.Space
    """Of one observation as the environment returns it."""
    space: spaces.Space
    """Of one observation as networks read it."""
    encode: Encode
    actions: NDArray
    """[actions, ...], the environment's own action for each index."""
    field_names: list[str]
    """Names for the numbers of an observation, used in expressions; empty for images."""
    action_names: list[str]


def codec_for(env: VectorEnv, discretise: int = 0) -> SpaceCodec:
    """The codec of a Gymnasium environment; `discretise` values per dimension of continuous actions."""
    own_space = env.single_observation_space
    space, encode = observations(own_space)
    own_actions = actions(env.single_action_space, discretise)
    names = action_names(env, own_actions)
    return SpaceCodec(own_space, space, encode, own_actions, field_names(env), names)


def identity_codec(env: VectorEnv, names: list[str]) -> SpaceCodec:
    """The codec of an environment whose spaces networks use as they are."""
    space, count = env.single_observation_space, len(names)
    fields = ["state"] if isinstance(space, spaces.Discrete) else []
    return SpaceCodec(space, space, np.asarray, np.arange(count), fields, names)


def observations(space: spaces.Space) -> tuple[spaces.Space, Encode]:
    """The space that networks read, and the function that encodes a batch for it."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return spaces.Discrete(int(space.n)), lambda x: np.asarray(x, dtype=np.int64) - start
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3):
        return _image(space)
    size, encode = _vector(space, "observations")
    if not size:
        raise UserError(
            f"The environment's observations are {short_repr(space)}: nothing to learn from."
        )
    return spaces.Box(-np.inf, np.inf, (size,), np.float32), encode


def _image(space: spaces.Box) -> tuple[spaces.Space, Encode]:
    shape = space.shape
    if len(shape) == 2:
        shape, planes = (1, *shape), lambda images: images[:, None]
    elif shape[-1] <= _MAX_CHANNELS < shape[0] or shape[-1] < shape[0]:  # channels last
        shape, planes = (shape[2], *shape[:2]), lambda images: images.transpose(0, 3, 1, 2)
    else:
        planes = np.asarray
    low, high = int(space.low.min()), int(space.high.max())
    return spaces.Box(low, high, shape, np.uint8), lambda x: np.ascontiguousarray(planes(x))


def _vector(space: spaces.Space, name: str) -> tuple[int, Encode]:
    """Any other space as a vector; text is left out. Returns the length and the encoder."""
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return math.prod(space.shape), lambda x: np.asarray(x, np.float32).reshape(len(x), -1)
    if isinstance(space, spaces.Discrete):
        numbers, start = np.eye(int(space.n), dtype=np.float32), int(space.start)
        return int(space.n), lambda x: numbers[np.asarray(x) - start]
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.asarray(space.start).ravel().tolist()
        pairs = zip(space.nvec.ravel().tolist(), starts, strict=True)
        choices = (spaces.Discrete(count, start=start) for count, start in pairs)
        size, encode = _joined({i: _vector(choice, name) for i, choice in enumerate(choices)})
        return size, lambda x: encode(np.asarray(x).reshape(len(x), -1).T)
    if isinstance(space, spaces.Dict):
        return _joined({key: _vector(part, f"{name}[{key}]") for key, part in space.items()})
    if isinstance(space, spaces.Tuple):
        return _joined({i: _vector(part, f"{name}[{i}]") for i, part in enumerate(space)})
    if is_text(space):
        return 0, lambda x: np.zeros((len(x), 0), dtype=np.float32)
    raise UserError(
        f"The environment's {name} are {short_repr(space)}, which visr cannot read; wrap it so that they "
        "are Discrete, MultiBinary, Box, or a Dict or Tuple of those."
    )


def vector_size(space: spaces.Space) -> int:
    """How many numbers a part of an observation becomes."""
    return _vector(space, "observations")[0]


def _joined(parts: Mapping[Any, tuple[int, Encode]]) -> tuple[int, Encode]:
    used = {key: encode for key, (size, encode) in parts.items() if size}
    total = sum(size for size, _ in parts.values())

    def encode(x: Any) -> NDArray:
        return np.concatenate([part(x[key]) for key, part in used.items()], axis=1)

    return total, encode


_FIELDS = {
    "CartPole": ("position", "velocity", "angle", "angular_velocity"),
    "MountainCar": ("position", "velocity"),
    "Acrobot": ("cos1", "sin1", "cos2", "sin2", "velocity1", "velocity2"),
    "LunarLander": ("x", "y", "vx", "vy", "angle", "spin", "left_leg", "right_leg"),
}
"""Names for the numbers of well-known observations."""


_ACTIONS = {
    "CartPole": ("left", "right"),
    "MountainCar": ("left", "none", "right"),
    "LunarLander": ("none", "left engine", "main engine", "right engine"),
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pick up", "drop off"),
}


def action_names(env: VectorEnv, own_actions: NDArray) -> list[str]:
    """Names for the actions of well-known environments; elsewhere the actions themselves, as text."""
    known = _ACTIONS.get(env.spec.name if env.spec else "", ())
    return list(known if len(known) == len(own_actions) else map(str, own_actions))


def field_names(env: VectorEnv) -> list[str]:
    """Known names, a Dict's keys, or x0, x1, ...; an empty list for images."""
    space, spec = env.single_observation_space, env.spec
    if isinstance(space, spaces.Discrete):
        return ["state"]
    if isinstance(space, spaces.Box) and len(space.shape) > 1 and space.dtype == np.uint8:
        return []
    known = _FIELDS.get(spec.name if spec else "", ())
    size, _ = _vector(space, "observations")
    return list(known) if len(known) == size else _unique(_names(space, ""))


def _names(space: spaces.Space, stem: str) -> list[str]:
    if isinstance(space, spaces.Dict):
        return [name for key, part in space.items() for name in _names(part, f"{stem}{key}_")]
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space)
        return [name for i, part in parts for name in _names(part, f"{stem or 'x'}{i}_")]
    size, _ = _vector(space, "observations")
    if size == 1 and stem:
        return [identifier(stem.rstrip("_"))]
    return [identifier(f"{stem or 'x'}{i}") for i in range(size)]


def _unique(names: list[str]) -> list[str]:
    """Number the names that are equal after cleaning; `action` is reserved for the action."""
    taken = {"action"}
    for index, name in enumerate(names):
        numbered = (f"{name}_{number}" for number in itertools.count(2))
        names[index] = next(n for n in itertools.chain([name], numbered) if n not in taken)
        taken.add(names[index])
    return names


def identifier(text: str) -> str:
    """`text` as a Python identifier, for use in expressions."""
    word = re.sub(r"\W", "_", text)
    word = word if word[:1].isidentifier() else f"x{word}"
    return f"{word}_" if keyword.iskeyword(word) else word


def actions(space: spaces.Space, discretise: int) -> NDArray:
    """The environment's own action for each index 0, 1, 2, ...: [actions, ...]."""
    if discretise and not isinstance(space, spaces.Box):
        raise UserError(f"discretise = {discretise} is for continuous actions; leave it out here.")
    if isinstance(space, spaces.Discrete):
        return np.arange(int(space.start), int(space.start) + int(space.n))
    is_multiple = isinstance(space, spaces.MultiDiscrete)
    if is_multiple and math.prod(space.nvec.ravel().tolist()) <= _MAX_ACTIONS:  # may exceed int64
        starts = np.asarray(space.start).ravel()
        combined = itertools.product(*(range(n) for n in space.nvec.ravel()))
        return (np.array(list(combined)) + starts).reshape(-1, *space.shape).astype(space.dtype)
    if isinstance(space, spaces.Box):
        return _bins(space, discretise)
    raise UserError(
        f"The environment's actions are {short_repr(space)}; visr chooses among a few discrete ones, so wrap "
        "it with gymnasium.Wrapper to offer those."
    )


def _bins(space: spaces.Box, discretise: int) -> NDArray:
    dims = int(np.prod(space.shape))
    if not discretise:
        raise UserError(
            f"The environment's actions are {short_repr(space)}, which is continuous; --discretise 3 would "
            f"offer 3 values in each of its {dims} dimensions."
        )
    if discretise < 2 or not np.isfinite([space.low, space.high]).all():
        raise UserError(
            f"discretise = {discretise} needs at least 2 values and actions with bounds."
        )
    if dims * math.log(discretise) > math.log(_MAX_ACTIONS) + 1e-9:
        raise UserError(
            f"discretise = {discretise} makes {discretise}^{dims} actions; at most {_MAX_ACTIONS:,} are "
            "sensible, so use fewer values."
        )
    ends = zip(space.low.ravel().tolist(), space.high.ravel().tolist(), strict=True)
    values = [np.linspace(low, high, discretise) for low, high in ends]
    return np.array(list(itertools.product(*values)), dtype=space.dtype).reshape(-1, *space.shape)


def is_text(space: gymnasium.Space) -> bool:
    """Whether the space holds strings: Gymnasium's Text, or a space like MiniGrid's missions."""
    return isinstance(space, spaces.Text) or (space.dtype is not None and space.dtype.kind == "U")
