"""Recorded steps as the replay learner takes them: the spaces of a dataset, and its steps as unrolls."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from visr.envs import dataset_spaces
from visr.envs.spaces import SpaceCodec
from visr.errors import UserError
from visr.inference import dataset
from visr.inference.dataset import MINARI, StepDataset
from visr.types import Unroll


def dataset_id(source: str) -> str:
    """The id of an environment with the spaces of a dataset; actions must be discrete."""
    if source.startswith(MINARI):
        own, actions = dataset.minari_spaces(source.removeprefix(MINARI))
        if not isinstance(actions, spaces.Discrete):
            raise UserError(
                f"{source} has actions of {actions}; only discrete ones can be learnt from without an "
                "environment, so name its environment and --discretise."
            )
        return dataset_spaces.id_of(_plain(own, source), int(actions.n))
    arrays = dataset.read_arrays(source)
    for name in ("observations", "actions"):
        if name not in arrays:
            raise UserError(
                f"{source} has no array `{name}`; it has {', '.join(sorted(arrays)) or 'none'}, and learning "
                "needs observations and actions."
            )
    acted = arrays["actions"]
    if acted.ndim != 1 or acted.dtype.kind not in "iu" or not len(acted) or acted.min() < 0:
        raise UserError(
            f"{source}: actions must be whole numbers from 0, one for every step; for other actions name the "
            "environment, too."
        )
    seen = [arrays[key] for key in ("observations", "next_observations") if key in arrays]
    return dataset_spaces.id_of(_space(source, seen), int(acted.max()) + 1)


def _space(source: str, seen: list[NDArray]) -> spaces.Space:
    """The space of observations [N, ...]: whole numbers are states, bytes images, the rest vectors."""
    first = seen[0]
    if first.dtype.kind not in "iufb" or not first.size:
        raise UserError(f"{source} holds no observations that are numbers; it needs one per step.")
    if first.ndim == 1 and first.dtype.kind in "iu":
        if min(int(x.min()) for x in seen) < 0:
            raise UserError(f"{source}: observations that are whole numbers must be at least 0.")
        return spaces.Discrete(max(int(x.max()) for x in seen) + 1)
    if first.ndim in (3, 4) and first.dtype in (np.uint8, np.bool_):
        brightest = max(int(x.max()) for x in seen)
        return spaces.Box(0, 1 if brightest <= 1 else 255, first.shape[1:], np.uint8)
    if first.ndim != 2:
        raise UserError(
            f"{source} has observations of shape {first.shape}; they must be states [N], vectors [N, k] or "
            "images of bytes [N, height, width, channels]."
        )
    return spaces.Box(-np.inf, np.inf, first.shape[1:], np.float32)


def _plain(own: spaces.Space, source: str) -> spaces.Space:
    """A space without offsets and bounds; a Dict or Tuple needs its environment."""
    if isinstance(own, spaces.Discrete):
        return spaces.Discrete(int(own.n))
    if isinstance(own, spaces.Box) and len(own.shape) == 1:
        return own
    if isinstance(own, spaces.Box) and own.dtype == np.uint8 and len(own.shape) in (2, 3):
        return own
    raise UserError(
        f"{source} has observations of {type(own).__name__}; name its environment, too, which says how to "
        "read them."
    )


def unrolls(source: str, codec: SpaceCodec, length: int, task_size: int) -> Unroll:
    """All steps of a dataset as unrolls of `length` steps, trajectory after trajectory."""
    steps = dataset.read(source, codec)
    if steps.before is None or steps.action is None:
        raise UserError(
            f"{source} does not say which action leads from which observation to which; learning from it "
            "needs `actions`, and `next_observations` or one observation more than actions."
        )
    if not len(steps.action):
        raise UserError(f"{source} holds no steps.")
    return as_unrolls(steps, length, task_size)


def as_unrolls(steps: StepDataset, length: int, task_size: int) -> Unroll:
    """Each trajectory's observations in a row, the last one with a step that only resets."""
    before, action = steps.before, steps.action
    assert before is not None
    assert action is not None
    starts = _starts(steps, before)
    count, ends = len(action), np.append(np.flatnonzero(starts)[1:] - 1, len(action) - 1)
    place = np.arange(count) + np.cumsum(starts) - 1
    last = place[ends] + 1
    rows = -(-(count + len(ends)) // length) * length
    observation = np.empty((rows + 1, *before.shape[1:]), before.dtype)
    observation[last[-1] :] = steps.reached[-1]  # also where the last unroll is not full
    observation[place], observation[last] = before, steps.reached[ends]
    acted, terminated, truncated = (np.zeros(rows, kind) for kind in (np.int64, bool, bool))
    is_reset = np.ones(rows, bool)
    acted[place], terminated[place], is_reset[place] = action, steps.terminated, False
    truncated[place[ends]] = ~steps.terminated[ends]
    num = rows // length
    index = np.arange(num) * length + np.arange(length + 1)[:, None]

    def by_unroll(array: NDArray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array[index[:-1]]))

    return Unroll(
        observation=torch.from_numpy(observation[index]),
        action=by_unroll(acted),
        reward=torch.zeros(length, num),
        terminated=by_unroll(terminated),
        truncated=by_unroll(truncated),
        is_reset=by_unroll(is_reset),
        w=torch.zeros(num, task_size),
        previous_action=torch.full((num,), -1),
        memory=torch.zeros(num, 0),
    )


def _starts(steps: StepDataset, before: NDArray) -> NDArray[np.bool_]:
    """[N]: whether a step does not continue the one before it."""
    count = len(before)
    goes_on = (steps.episode[1:] == steps.episode[:-1]) & ~steps.terminated[:-1]
    same = before[1:] == steps.reached[:-1]
    goes_on &= same.reshape(count - 1, -1).all(axis=1) if count > 1 else True
    return np.append(True, ~goes_on)
