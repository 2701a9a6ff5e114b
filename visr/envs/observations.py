"""Observations as a user gives them: one or a batch, with a Dict's or a Tuple's parts, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from visr import arguments
from visr.envs.spaces import SpaceCodec, is_text
from visr.errors import UserError


def encoded(codec: SpaceCodec, given: Any) -> tuple[NDArray, bool]:
    """Observations as networks take them, [N, ...], and whether it was a single one.

    Raises a UserError for anything that is not an observation of this environment.
    """
    batch, is_single = _batched(codec.own_space, given)
    try:
        return codec.encode(batch), is_single
    except ValueError as error:
        raise UserError(f"The parts of these observations do not fit together: {error}.") from None


def encoded_parts(codec: SpaceCodec, given: Any) -> NDArray | None:
    """The same of a Dict or a list of Dicts (or Tuples), [N, ...]; None for anything else."""
    space = codec.own_space
    kind = {spaces.Dict: Mapping, spaces.Tuple: tuple}.get(type(space))
    if kind is None:
        return None
    if isinstance(given, kind):
        return encoded(codec, given)[0]
    is_list = isinstance(given, Sequence | np.ndarray) and len(given) > 0
    if is_list and all(isinstance(one, kind) for one in given):
        return np.concatenate([encoded(codec, one)[0] for one in given])
    return None


def _batched(space: spaces.Space, given: Any) -> tuple[Any, bool]:
    if isinstance(space, spaces.Dict):
        parts = {key: _batched(part, _item(given, key)) for key, part in space.items()}
        is_single = all(single for _, single in parts.values())
        return {key: part for key, (part, _) in parts.items()}, is_single
    if isinstance(space, spaces.Tuple):
        pieces = [_batched(part, _item(given, index)) for index, part in enumerate(space)]
        return tuple(part for part, _ in pieces), all(single for _, single in pieces)
    if is_text(space):
        return ([given], True) if isinstance(given, str) else (given, False)
    array, shape = arguments.array(given, "observation"), space.shape or ()
    is_right = array.shape[array.ndim - len(shape) :] == shape and array.ndim <= len(shape) + 1
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        low = space.start
        high = low + (space.n if isinstance(space, spaces.Discrete) else space.nvec) - 1
        is_whole = is_right and array.dtype.kind in "iu"
        if not is_whole or not ((array >= low) & (array <= high)).all():
            raise UserError(f"Observations of this world are whole numbers from {low} to {high}.")
    elif not is_right or array.dtype.kind not in "iufb":
        raise UserError(f"Observations of this world have shape {shape}, not {array.shape}.")
    is_single = array.ndim == len(shape)
    return (array[None] if is_single else array), is_single


def _item(given: Any, key: Any) -> Any:
    try:
        return given[key]
    except (KeyError, IndexError, TypeError):
        raise UserError(
            f"An observation of this world has a part {key!r}, and this one has not."
        ) from None
