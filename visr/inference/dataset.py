"""Three ways to say what you want where there is no exact model, each as steps with rewards."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.lib import format as npy
from numpy.typing import NDArray

from visr.agents.visr import Visr
from visr.envs.episodes import whole
from visr.errors import UserError
from visr.evaluation.two_phase import Rewarded
from visr.inference.compare import Answer, Comparison, Rewards
from visr.inference.recording import Recording, RewardFunction
from visr.storage.files import reading
from visr.storage.records.task import Task

ENV_REWARD = "env"
"""The reward that the environment itself gives."""
_LARGEST = 2**30
"""Bytes of a dataset, unpacked."""
_AT_ONCE = 1024


def is_general(reward: Any) -> bool:
    """Whether a reward needs no grid: the environment's own, or a dataset."""
    if isinstance(reward, Path):
        return True
    return isinstance(reward, str) and (reward == ENV_REWARD or reward.lower().endswith(".npz"))


def from_environment(seen: Rewarded, clip: bool) -> Rewards:
    """The environment's own rewards, met in episodes that each pursued a task."""
    reward = np.clip(seen.reward, -1, 1) if clip else seen.reward
    tried = [(episode.w.astype(np.float64), episode.score) for episode in whole(seen.episodes)]
    return Rewards(seen.phi, reward.astype(np.float64), seen.episode, tried)


def from_recording(recording: Recording, wanted: str | RewardFunction) -> Rewards:
    """A function or an expression, applied to steps that were recorded without rewards."""
    return Rewards(recording.phi, recording.rewards(wanted), recording.episode, [])


def from_dataset(path: Path, agent: Visr) -> Rewards:
    """An .npz file: `observations` [N, ...] of states reached, `rewards` [N], perhaps `episodes` [N]."""
    arrays = _read(path)
    if missing := {"observations", "rewards"} - set(arrays):
        raise UserError(
            f"{path} has no array `{sorted(missing)[0]}`; it needs observations and rewards."
        )
    seen, reward = arrays["observations"], arrays["rewards"]
    space = agent.spec.observation_space
    if reward.ndim != 1 or seen.shape != (len(reward), *(space.shape or ())):
        raise UserError(
            f"{path} has observations of shape {seen.shape} and rewards of shape {reward.shape}; this run "
            f"needs [{', '.join(['N', *map(str, space.shape or ())])}] and [N]."
        )
    if seen.dtype.kind not in "iufb" or reward.dtype.kind not in "iufb":
        raise UserError(f"{path} holds something other than numbers; it needs arrays of numbers.")
    if isinstance(space, spaces.Discrete) and not _are_states(seen, int(space.n)):
        raise UserError(f"{path}: observations must be whole numbers from 0 to {space.n - 1}.")
    episode = arrays.get("episodes", np.arange(len(reward)) // 100)
    if episode.shape != reward.shape or episode.dtype.kind not in "iu":
        raise UserError(f"{path}: `episodes` must be a whole number for every step.")
    phi = features(agent, seen.astype(space.dtype))
    return Rewards(phi, reward.astype(np.float64), episode.astype(np.intp), [])


def _are_states(seen: NDArray, num_states: int) -> bool:
    return seen.dtype.kind in "iu" and bool(((seen >= 0) & (seen < num_states)).all())


def _read(path: Path) -> dict[str, NDArray]:
    """The arrays of an .npz file: sizes first, then the arrays, and nothing is unpickled."""
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
                    _refuse_promises(file, member.file_size)
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


def _refuse_promises(file: IO[bytes], num_bytes: int) -> None:
    """An array's header may claim more than follows it, and numpy would make room for all that."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, kind = read(file)
    if math.prod(shape) * kind.itemsize > num_bytes:
        raise ValueError(f"it promises an array of shape {shape} and holds {num_bytes:,} bytes")


@torch.inference_mode()
def features(agent: Visr, observations: NDArray) -> NDArray[np.float32]:
    """phi of many observations, a few at a time."""
    parts = [
        agent.phi(torch.as_tensor(observations[i : i + _AT_ONCE], device=agent.device))
        .cpu()
        .numpy()
        for i in range(0, len(observations), _AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.empty((0, agent.config.num_features), np.float32)


def task_of(answer: Answer, comparison: Comparison, name: str, env: str) -> Task:
    """An answer as a task; its interval becomes a standard error."""
    return Task(
        name=name,
        env=env,
        w=answer.w,
        method=answer.method,
        r_squared=answer.r_squared,
        condition_number=answer.condition_number,
        standard_error=np.ptp(answer.interval, axis=0) / (2 * 1.645),  # the middle 90 % of a normal
        num_steps=comparison.num_steps,
        num_rewarded=comparison.num_rewarded,
    )
