"""Recorded steps to learn from offline: a run's replay buffer, its recording, or a dataset."""

from __future__ import annotations

import dataclasses
import functools
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
from visr.storage.run_dir import RunDir
from visr.training.recorded_steps import unpacked

_CHUNK = 65_536
_HELD_OUT, _MOST_HELD_OUT = 0.1, 50_000
"""Share of the steps that estimate and do not train; at most so many."""
_CUT_SHORT = 32
"""Last steps of a recording: one of every environment."""


@dataclass(frozen=True, eq=False)
class OfflineSteps:
    """N steps between M stored observations; step i + 1 follows step i where `continues`."""

    observation: Tensor
    """[M, ...]; binary planes as bits."""
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
        return unpacked(kept, self.space.shape) if _is_packed(self.space) else kept  # pyright: ignore

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
        for start in range(0, len(self), _CHUNK):
            part = slice(start, min(start + _CHUNK, len(self)))
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


def _is_packed(space: spaces.Space) -> bool:
    return are_planes(space)


def of_replay(run: RunDir, config: RunConfig, space: spaces.Space) -> OfflineSteps | None:
    """The replay buffer of a run, from its files; None if the run has none."""
    if config.agent.algorithm not in REPLAY_LEARNERS or not run.replay_pieces():
        return None
    remedy = "restore it from a copy, or remove the directory to use the recording"
    pieces = [read_tensors(path, remedy) for path in run.replay_pieces()]
    needed = ("observation", "action", "terminated", "is_reset")
    try:
        fields = {name: torch.cat([piece[name] for piece in pieces], dim=1) for name in needed}
        length, count = fields["action"].shape
        if fields["observation"].shape[:2] != (length + 1, count):
            raise ValueError("observations and actions do not fit together")
    except (KeyError, IndexError, RuntimeError, ValueError) as error:
        raise UserError(f"{run.replay} is damaged ({error}); {remedy}.") from None
    return _of_unrolls(fields, config.training.num_envs, space)


def _of_unrolls(fields: dict[str, Tensor], num_envs: int, space: spaces.Space) -> OfflineSteps:
    """Unrolls [T, B] as one list of steps, unroll after unroll, without steps that only reset."""
    seen, resets = fields["observation"].transpose(0, 1), fields["is_reset"].T
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
        observation=seen.flatten(0, 1).contiguous(),
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

    It does not say how episodes ended. Their last steps count as terminal, except those of episodes that the
    end of the recording cut short.
    """
    order = np.argsort(recording.episode, kind="stable")
    episode = recording.episode[order]
    is_last = np.append(episode[1:] != episode[:-1], True)
    terminated = is_last & (order < len(order) - _CUT_SHORT)
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
    if _is_packed(space):
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
