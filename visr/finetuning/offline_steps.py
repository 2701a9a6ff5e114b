"""Recorded steps to learn from offline: a run's replay buffer, its recording, or a dataset."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from visr.config import REPLAY_LEARNERS, RunConfig
from visr.envs.episodes import EpisodeSteps
from visr.errors import UserError
from visr.inference.dataset import StepDataset
from visr.inference.recording import Recording
from visr.networks.plane_trunk import are_planes
from visr.ops import derived_seed
from visr.storage.files import read_tensors
from visr.storage.frame_store import FIELD as FRAMES
from visr.storage.frame_store import FrameStore, StackedRows
from visr.storage.run_dir import RunDir
from visr.training.recorded_steps import unpacked

_CHUNK, _CHUNK_BYTES = 65_536, 2**26
"""Steps that a reward function gets at once: at most so many, and fewer of large observations."""
_HELD_OUT, _MOST_HELD_OUT = 0.1, 50_000
"""Share of the steps that estimate and do not train; at most so many."""
_CUT_SHORT = 32
"""Last steps of a recording: one of every environment."""


@dataclass(frozen=True, eq=False)
class OfflineSteps:
    """N steps between M stored observations; step i + 1 follows step i where `continues`."""

    observation: Tensor | StackedRows
    """[M, ...]; binary planes as bits, stacked frames in files."""
    before: Tensor
    """[N], the row of s."""
    after: Tensor
    """[N], the row of s'."""
    action: Tensor
    """[N] int64"""
    terminated: Tensor
    """[N] bool: no reward follows"""
    continues: Tensor
    """[N] bool: step i + 1 is the next one of the same episode"""
    episode: Tensor
    """[N] int64; held-out data are whole episodes."""
    space: spaces.Space
    source: str
    """Where they come from, in words."""

    def __len__(self) -> int:
        return len(self.action)

    def observations(self, rows: Tensor) -> Tensor:
        """Observations as networks take them: [n] -> [n, ...]"""
        kept = self.observation[rows]
        return unpacked(kept, self.space.shape) if are_planes(self.space) else kept  # pyright: ignore

    @property
    def bytes_each(self) -> int:
        """Of an observation as networks take it."""
        return math.prod(self.space.shape or ()) * (self.space.dtype or np.dtype(np.int64)).itemsize

    def subset(self, kept: Tensor) -> OfflineSteps:
        """Some of the steps; whole episodes stay in order. kept [N] bool"""
        follows = self.continues & torch.cat([kept[1:], kept.new_zeros(1)])
        fields = {
            name: getattr(self, name)[kept]
            for name in ("before", "after", "action", "terminated", "episode")
        }
        return dataclasses.replace(self, **fields, continues=follows[kept])

    def chunks(self) -> Iterator[tuple[slice, EpisodeSteps]]:
        """All steps as a reward function takes them, some at a time."""
        size = min(_CHUNK, _CHUNK_BYTES // self.bytes_each)
        for start in range(0, len(self), size):
            part = slice(start, min(start + size, len(self)))
            none = np.zeros(part.stop - start, np.intp)
            before, reached = (
                self.observations(rows[part]).numpy() for rows in (self.before, self.after)
            )
            action, ended = self.action[part].numpy(), self.terminated[part].numpy()
            reward = none.astype(np.float32)
            yield part, EpisodeSteps(none, before, action, reached, reward, ended)

    def labelled(self, of: Callable[[EpisodeSteps], NDArray]) -> Tensor:
        """The reward of every step, [N]."""
        reward = torch.zeros(len(self))
        for part, steps in self.chunks():
            reward[part] = torch.as_tensor(np.asarray(of(steps)), dtype=torch.float32)
        return reward


def of_replay(run: RunDir, config: RunConfig, space: spaces.Space) -> OfflineSteps | None:
    """The replay buffer of a run, from its files; None if the run has none."""
    if config.agent.algorithm not in REPLAY_LEARNERS or not run.replay_pieces():
        return None
    remedy = "restore it from a copy, or remove the directory to use the recording"
    needed = ("action", "terminated", "is_reset")
    frames = FrameStore((space.shape or (1,))[0])
    try:
        pieces: list[dict[str, Tensor]] = []
        seen: list[Tensor] = []
        for path in run.replay_pieces():
            found = read_tensors(path, remedy, mapped=FRAMES)
            pieces.append({name: found[name] for name in needed})
            if config.is_atari:
                frames.add_piece(found)
            else:
                seen.append(found["observation"])
        fields = {name: torch.cat([piece[name] for piece in pieces], dim=1) for name in needed}
        length, count = fields["action"].shape
        if config.is_atari:
            return _of_unrolls(fields, StackedRows(frames, length, count), config, space)
        observation = torch.cat(seen, dim=1)
        if observation.shape[:2] != (length + 1, count):
            raise ValueError("observations and actions do not fit together")
    except (KeyError, IndexError, RuntimeError, ValueError) as error:
        raise UserError(f"{run.replay} is damaged ({error}); {remedy}.") from None
    rows = observation.transpose(0, 1).flatten(0, 1).contiguous()
    return _of_unrolls(fields, rows, config, space)


def _of_unrolls(
    fields: dict[str, Tensor],
    observation: Tensor | StackedRows,
    config: RunConfig,
    space: spaces.Space,
) -> OfflineSteps:
    """Unrolls [T, B] as one list of steps, unroll after unroll, without steps that only reset."""
    resets, num_envs = fields["is_reset"].T, config.training.num_envs
    count, length = resets.shape
    first = torch.arange(count)[:, None] * (length + 1) + torch.arange(length)
    kept, starts = ~resets, resets.clone()
    follows = torch.cat([kept[:, 1:], kept.new_zeros(count, 1)], dim=1)
    if count % num_envs == 0:  # unroll i continues unroll i - num_envs
        starts[:num_envs, 0] = True
        ordered = starts.view(-1, num_envs, length).transpose(0, 1).flatten()
        numbers = ordered.cumsum(0).view(num_envs, -1, length).transpose(0, 1)
        episode = numbers.reshape(count, length)
    else:
        starts[:, 0] = True
        episode = starts.flatten().cumsum(0).view(count, length)
    before = first[kept]
    return OfflineSteps(
        observation=observation,
        before=before,
        after=before + 1,
        action=fields["action"].T[kept],
        terminated=fields["terminated"].T[kept],
        continues=follows[kept],
        episode=episode[kept],
        space=space,
        source="the replay buffer of pre-training",
    )


def of_recording(recording: Recording, space: spaces.Space) -> OfflineSteps:
    """The recorded sample of a run.

    One of an older version does not say how episodes ended: their last steps count as terminal, except those
    of episodes that the end of the recording cut short.
    """
    order = np.argsort(recording.episode, kind="stable")
    episode = recording.episode[order]
    is_last = np.append(episode[1:] != episode[:-1], True)
    terminated = is_last & (order < len(order) - _CUT_SHORT)
    if recording.terminated is not None:
        terminated = recording.terminated[order]
    arrays = (recording.before, recording.reached, recording.action)
    before, reached, action = (array[order] for array in arrays)
    return _of_arrays(before, reached, action, terminated, episode, space, "the recorded sample")


def of_dataset(steps: StepDataset, path: str, space: spaces.Space) -> OfflineSteps:
    """The steps of an .npz file or of a Minari dataset."""
    if steps.before is None or steps.action is None:
        raise UserError(
            f"{path} holds no actions or no next observations; refinement learns from whole steps."
        )
    order = np.argsort(steps.episode, kind="stable")
    arrays = (steps.before, steps.reached, steps.action, steps.terminated, steps.episode)
    before, reached, action, terminated, episode = (array[order] for array in arrays)
    return _of_arrays(before, reached, action, terminated, episode, space, path)


def _of_arrays(
    before: NDArray,
    reached: NDArray,
    action: NDArray,
    terminated: NDArray,
    episode: NDArray,
    space: spaces.Space,
    source: str,
) -> OfflineSteps:
    count = len(action)
    if not count:
        raise UserError(f"There are no steps in {source}; refinement needs recorded steps.")
    both = np.concatenate([before, reached])
    if are_planes(space):
        both = np.packbits(both.reshape(len(both), -1), axis=-1)
    same = np.append(episode[1:] == episode[:-1], False)
    return OfflineSteps(
        observation=torch.from_numpy(np.ascontiguousarray(both)),
        before=torch.arange(count),
        after=torch.arange(count) + count,
        action=torch.from_numpy(action.astype(np.int64)),
        terminated=torch.from_numpy(terminated.copy()),
        continues=torch.from_numpy(same & ~terminated),
        episode=torch.from_numpy(episode.astype(np.int64)),
        space=space,
        source=source,
    )


@functools.lru_cache(maxsize=2)
def split(steps: OfflineSteps, seed: int) -> tuple[Tensor, OfflineSteps, OfflineSteps]:
    """The mask of held-out steps, the other steps and the held-out ones; the same for every task."""
    held = held_out(steps, torch.Generator().manual_seed(derived_seed(seed, 12)))
    return held, steps.subset(~held), steps.subset(held)


def held_out(steps: OfflineSteps, rng: torch.Generator) -> Tensor:
    """[N] bool: whole random episodes, about a tenth of the steps and at least one episode."""
    _, number = steps.episode.unique(return_inverse=True)
    sizes = torch.bincount(number)
    order = torch.randperm(len(sizes), generator=rng)
    most = min(_HELD_OUT * len(steps), _MOST_HELD_OUT)
    taken = order[sizes[order].cumsum(0) <= most]
    chosen = torch.zeros(len(sizes), dtype=torch.bool)
    chosen[taken if len(taken) else order[:1]] = True
    if bool(chosen.all()):  # one episode: its last tenth
        late = torch.arange(len(steps)) >= round((1 - _HELD_OUT) * len(steps))
        return late
    return chosen[number]
