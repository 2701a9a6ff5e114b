"""Ids that name the spaces of recorded steps where no environment is known: dataset/vectors-4/actions-2."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
from gymnasium import spaces

from visr import envs
from visr.config.check import check_env
from visr.config.fields import DATASET, RunConfig
from visr.envs import modules
from visr.envs.spaces import SpaceCodec, observations
from visr.errors import UserError, short_repr

_ID = re.compile(
    rf"{DATASET}(states|vectors|planes|images)-(\d{{1,7}}(?:x\d{{1,5}}){{0,2}})/actions-(\d{{1,4}})"
)
_MOST_NUMBERS, _MOST_ACTIONS = 1_000_000, 1_000


def id_of(space: spaces.Space, num_actions: int) -> str:
    """The id that names these observations and so many actions."""
    if isinstance(space, spaces.Discrete):
        kind, sizes = "states", (int(space.n),)
    else:
        assert isinstance(space, spaces.Box)
        kind, sizes = "vectors", space.shape
        if len(space.shape) > 1:
            kind = "planes" if int(space.high.max()) == 1 else "images"
    name = f"{DATASET}{kind}-{'x'.join(map(str, sizes))}/actions-{num_actions}"
    codec(name)
    return name


def codec(name: str) -> SpaceCodec:
    """The spaces that an id names."""
    match = _ID.fullmatch(name)
    sizes = [int(size) for size in match[2].split("x")] if match else []
    is_image = match is not None and match[1] in ("planes", "images")
    fits = match is not None and (len(sizes) in (2, 3) if is_image else len(sizes) == 1)
    if match is None or not fits or not 1 <= math.prod(sizes) <= _MOST_NUMBERS:
        raise UserError(
            f"{short_repr(name)} does not name the spaces of a dataset; it looks like "
            f"{DATASET}vectors-4/actions-2, and `visr pretrain --dataset FILE` writes it by itself."
        )
    num_actions = int(match[3])
    if not 2 <= num_actions <= _MOST_ACTIONS:
        raise UserError(
            f"The dataset has {num_actions} different actions; there must be 2 to {_MOST_ACTIONS:,} of them."
        )
    if match[1] == "states":
        own: spaces.Space = spaces.Discrete(sizes[0])
        names = ["state"]
    elif is_image:
        own = spaces.Box(0, 1 if match[1] == "planes" else 255, tuple(sizes), np.uint8)
        names = []
    else:
        own = spaces.Box(-np.inf, np.inf, tuple(sizes), np.float32)
        names = [f"x{i}" for i in range(sizes[0])]
    space, encode = observations(own)
    actions = np.arange(num_actions)
    return SpaceCodec(own, space, encode, actions, names, [str(action) for action in actions])


def in_environment(config: RunConfig, env: str) -> RunConfig:
    """The configuration of a run that learnt from a dataset, with an environment to act in."""
    check_env(env)
    if config.has_environment and env != config.env:
        raise UserError(
            f"env = {short_repr(env)} is for runs that learnt from a dataset alone; this run is of "
            f"{config.env}, so leave it out."
        )
    chosen = dataclasses.replace(config, env=env)
    if not config.has_environment:
        modules.trust(env)
        _require_fit(config.env, envs.space_codec(chosen), env)
    return chosen


def _require_fit(name: str, given: SpaceCodec, env: str) -> None:
    """Refuse an environment whose spaces are not those that the id `name` tells."""
    mine = codec(name)
    for what, ours, theirs in (
        ("observations", _words(mine.space), _words(given.space)),
        ("actions", str(len(mine.actions)), str(len(given.actions))),
    ):
        if ours != theirs:
            raise UserError(
                f"{env} does not fit the run's dataset: its {what} are {theirs} and the dataset's are {ours}."
            )


def _words(space: spaces.Space) -> str:
    if isinstance(space, spaces.Discrete):
        return f"{space.n} states"
    return f"arrays of shape {space.shape}"
