"""Rewarded steps from an .npz file of observations and rewards."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from gymnasium import spaces
from numpy.lib import format as npy
from numpy.typing import NDArray

from visr.agents.visr import Visr
from visr.errors import UserError
from visr.inference.collect import features
from visr.inference.steps import RewardedSteps
from visr.storage.files import reading

_LARGEST = 2**30
"""Bytes of a dataset, unpacked."""
_EPISODE_LENGTH = 100
"""Steps that count as an episode where the file names no episodes."""


def read(path: Path, agent: Visr) -> RewardedSteps:
    """`observations` [N, ...] of the states reached, `rewards` [N] and, optionally, `episodes` [N]."""
    arrays = _read(path)
    if missing := {"observations", "rewards"} - set(arrays):
        raise UserError(
            f"{path} has no array `{sorted(missing)[0]}`; it needs observations and rewards."
        )
    observations, reward = arrays["observations"], arrays["rewards"]
    space = agent.spec.observation_space
    if reward.ndim != 1 or observations.shape != (len(reward), *(space.shape or ())):
        raise UserError(
            f"{path} has observations of shape {observations.shape} and rewards of shape {reward.shape}; "
            f"this run needs [{', '.join(['N', *map(str, space.shape or ())])}] and [N]."
        )
    if observations.dtype.kind not in "iufb" or reward.dtype.kind not in "iufb":
        raise UserError(f"{path} holds something other than numbers; it needs arrays of numbers.")
    if isinstance(space, spaces.Discrete) and not _are_states(observations, int(space.n)):
        raise UserError(f"{path}: observations must be whole numbers from 0 to {space.n - 1}.")
    episode = arrays.get("episodes", np.arange(len(reward)) // _EPISODE_LENGTH)
    if episode.shape != reward.shape or episode.dtype.kind not in "iu":
        raise UserError(f"{path}: `episodes` must be a whole number for every step.")
    phi = features(agent, observations.astype(space.dtype))
    return RewardedSteps(phi, reward.astype(np.float64), episode.astype(np.intp))


def _are_states(observations: NDArray, num_states: int) -> bool:
    is_integer = observations.dtype.kind in "iu"
    return is_integer and bool(((observations >= 0) & (observations < num_states)).all())


def _read(path: Path) -> dict[str, NDArray]:
    """The arrays of an .npz file; sizes are checked first, and nothing is unpickled."""
    try:
        with reading(path), zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
            if sum(member.file_size for member in members) > _LARGEST:
                raise UserError(
                    f"{path} would unpack to more than {_LARGEST:,} bytes; give a smaller one."
                )
            arrays = {}
            for member in members:
                with archive.open(member) as file:
                    _check_header(file, member.file_size)
                with archive.open(member) as file:
                    arrays[member.filename.removesuffix(".npy")] = npy.read_array(
                        file, allow_pickle=False
                    )
            return arrays
    except (
        zipfile.BadZipFile,
        zlib.error,
        ValueError,
        EOFError,
        RuntimeError,
        NotImplementedError,
        MemoryError,
    ) as error:
        raise UserError(f"{path} is not an .npz file of plain arrays ({error}).") from None


def _check_header(file: IO[bytes], num_bytes: int) -> None:
    """Refuse a header that claims more than the file holds: numpy would allocate all of it."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, kind = read(file)
    if math.prod(shape) * kind.itemsize > num_bytes:
        raise ValueError(f"it promises an array of shape {shape} and holds {num_bytes:,} bytes")
