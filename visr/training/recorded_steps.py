"""Recorded unrolls in a replay buffer and what the replay learner draws from them.

Planes are kept as bits, and stacked frames once each, in memory until they are saved.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from gymnasium import spaces
from torch import Generator, Tensor

from visr.agents.replay_successor_features import ReplaySuccessorFeatures, TaskBatch
from visr.networks.plane_trunk import are_planes
from visr.networks.transition_features.events import PlaneEvents
from visr.storage.files import read_tensors
from visr.storage.frame_store import FIELD, FrameStore
from visr.training.replay import ReplayBuffer
from visr.types import EnvSpec, Transitions, Unroll

_FITTED_STEPS = 60_000
_COUNTED_UNROLLS = 64
"""Unrolls whose events are counted at a time."""


def unpacked(bits: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Planes from their bits: [..., bytes] -> [..., C, H, W]"""
    flat = np.unpackbits(bits.numpy(), axis=-1, count=int(np.prod(shape)))
    return torch.from_numpy(flat).unflatten(-1, shape)


def empty_unroll(spec: EnvSpec, length: int, task_size: int) -> Unroll:
    """One unroll of zeros, for its shapes and types."""
    space = spec.observation_space
    seen = torch.as_tensor(space.sample())
    flags = torch.zeros(length, 1, dtype=torch.bool)
    return Unroll(
        observation=torch.zeros(length + 1, 1, *(space.shape or ()), dtype=seen.dtype),
        action=torch.zeros(length, 1, dtype=torch.int64),
        reward=torch.zeros(length, 1),
        terminated=flags,
        truncated=flags,
        is_reset=flags,
        w=torch.zeros(1, task_size),
        previous_action=torch.zeros(1, dtype=torch.int64),
        memory=torch.zeros(1, 0),
    )


class RecordedSteps:
    """A replay buffer of unrolls; binary planes take one bit a cell, actions four bytes.

    Events are counted once per step and stage: updates draw every step many times.
    """

    def __init__(
        self, num_steps: int, example: Unroll, space: spaces.Space, *, are_stacks: bool = False
    ) -> None:
        """`are_stacks`: observations are stacks of frames, [k, H, W], and k - 1 of the last one return."""
        self._shape = space.shape if are_planes(space) else None
        self._frames = FrameStore(example.observation.shape[2]) if are_stacks else None
        length = len(example.action)
        self.buffer = ReplayBuffer(max(1, -(-num_steps // length)), self._packed(example))
        self._length = length
        self._counts: Tensor | None = None
        """[T, entries, d']: the events of each step in bytes; None until they are first drawn."""
        self._num_counted = 0
        """Entries whose events are counted, of all that were ever added."""
        self._counted = torch.zeros(0)
        """The events that features stood for when they were counted."""

    @property
    def max_steps(self) -> int:
        """Steps that it holds when it is full."""
        return self.buffer.max_steps

    @property
    def num_missing(self) -> int:
        """Entries that the loaded state counts and `restore` has not brought back."""
        return self.buffer.num_missing

    def new_piece(self) -> dict[str, Tensor]:
        """The data added since the last call."""
        piece = self.buffer.new_piece()
        if self._frames is None or not piece:
            return piece
        del piece["observation"]
        first = self.buffer.num_added - piece["action"].shape[1]
        return piece | {FIELD: self._frames.new_frames(first)}

    def saved(self, path: Path) -> None:
        """The last new piece is in this file: its frames are read from there now."""
        if self._frames is not None:
            piece = read_tensors(path, "start over", mapped=FIELD)
            self._frames.replace_newest(piece[FIELD].numpy())

    def restore(self, piece: dict[str, Tensor]) -> None:
        """Put a piece back, oldest piece first."""
        piece = piece | {"action": piece["action"].int()}  # older pieces have eight bytes
        if self._frames is not None:
            self._frames.add_piece(piece)
            piece.pop(FIELD, None)
            piece["observation"] = self.buffer.storage.observation[:, : piece["action"].shape[1]]
        self.buffer.restore(piece)
        self._forget()

    def add(self, unroll: Unroll) -> None:
        """Append unrolls."""
        if self._frames is not None:
            self._frames.add(unroll.observation, unroll.is_reset)
        self.buffer.add(self._packed(unroll))
        self._forget()

    def _forget(self) -> None:
        if self._frames is not None:
            self._frames.forget(self.buffer.num_added - len(self.buffer))

    def _packed(self, unroll: Unroll) -> Unroll:
        unroll = unroll._replace(action=unroll.action.int())
        if self._frames is not None:  # which are kept apart
            return unroll._replace(observation=unroll.observation.flatten(2)[..., :0])
        if self._shape is None:
            return unroll
        bits = np.packbits(unroll.observation.flatten(2).numpy(), axis=-1)
        return unroll._replace(observation=torch.from_numpy(bits))

    def _unpacked(self, observation: Tensor) -> Tensor:
        """[..., bytes] -> [..., C, H, W]"""
        return observation if self._shape is None else unpacked(observation, self._shape)

    # ---- what to fit features to

    def sample(self, rng: Generator, num_steps: int = _FITTED_STEPS) -> Unroll:
        """Whole unrolls, about `num_steps` of them, in order."""
        count = min(len(self.buffer), num_steps // self._length + 1)
        chosen = torch.randperm(len(self.buffer), generator=rng)[:count].sort().values
        kept, slots = self.buffer.take(chosen), self.buffer.slots(chosen)
        time = torch.arange(self._length + 1)[:, None].expand(-1, count)
        seen = self._observation(time.flatten(), slots.expand_as(time).flatten())
        seen = seen.unflatten(0, time.shape)
        return kept._replace(observation=seen, action=kept.action.long())

    # ---- what to learn from

    def batch(
        self, agent: ReplaySuccessorFeatures, w: Tensor, count: int, rng: Generator
    ) -> TaskBatch:
        """`count` steps with their n-step cumulants, to be learnt from under the tasks w [M, d]."""
        gamma = agent.config.gamma
        time, slot = self._draw(count, rng)
        rows, alive = self.buffer.storage, torch.ones(count, dtype=torch.bool)
        cumulant, discount = torch.zeros(count, agent.task_size), torch.ones(count)
        steps = torch.zeros(count, dtype=torch.int64)
        for k in range(agent.config.n_step):
            now = (time + k).clamp(max=self._length - 1)
            chi = self._chi(agent, now, slot)
            cumulant += torch.where(alive, discount, 0.0)[:, None] * chi
            terminated, truncated = rows.terminated[now, slot], rows.truncated[now, slot]
            discount = torch.where(alive, discount * gamma * (~terminated).float(), discount)
            steps = steps + alive.long()
            alive = alive & ~terminated & ~truncated & (time + k + 1 < self._length)
        return TaskBatch(
            self._observation(time, slot),
            rows.action[time, slot].long(),
            cumulant,
            discount,
            self._observation(time + steps, slot),
            w,
        )

    @torch.no_grad()
    def stretches(
        self, agent: ReplaySuccessorFeatures, count: int, num_samples: int, rng: Generator
    ) -> Tensor:
        """chi of steps drawn from stretches of 4 steps up to an unroll: [N, samples, d]."""
        time, slot = self._draw(count, rng)
        if num_samples > 1:
            longest = torch.log2(torch.tensor(float(max(self._length, 4))))
            length = torch.exp2(torch.rand(count, 1, generator=rng) * (longest - 2) + 2)
            time = time[:, None] + (torch.rand(count, num_samples, generator=rng) * length).long()
            time = time.clamp(max=self._length - 1)
            # a stretch stops where the episode does
            resets = self.buffer.storage.is_reset[time, slot[:, None]]
            time = torch.where(resets, time[:, :1] - 1, time).clamp(min=0)
            slot = slot[:, None].expand(-1, num_samples)
        chi = self._chi(agent, time.flatten(), slot.flatten())
        return chi.view(count, num_samples, agent.task_size)

    def _chi(self, agent: ReplaySuccessorFeatures, time: Tensor, slot: Tensor) -> Tensor:
        """chi of these steps, [N, d]."""
        chi = agent.chi
        if not isinstance(chi, PlaneEvents):
            return agent.cumulant(self._steps(time, slot))
        counts = self._counts_of(chi).flatten(0, 1)
        return chi.of_counts(counts.index_select(0, self._row(time, slot)))

    def _row(self, time: Tensor, slot: Tensor) -> Tensor:
        """Where a step is with times and slots in one axis; whole rows are quickest to take from there."""
        return time * self.buffer.capacity + slot

    def _observation(self, time: Tensor, slot: Tensor) -> Tensor:
        """As networks take them: [N], [N] -> [N, ...]"""
        if self._frames is not None:
            return self._frames.stacks(time, self.buffer.numbers(slot))
        flat = self.buffer.storage.observation.flatten(0, 1)
        return self._unpacked(flat.index_select(0, self._row(time, slot)))

    def _counts_of(self, chi: PlaneEvents) -> Tensor:
        """The events of all steps, after counting those that are new or were counted for other features."""
        buffer, length = self.buffer, self._length
        if self._counts is None or not torch.equal(self._counted, chi.event):
            self._counted, self._num_counted = chi.event.clone(), 0
            size = (length, buffer.capacity, int((chi.event >= 0).sum()))
            self._counts = torch.from_numpy(np.zeros(size, np.uint8))  # memory when written
        first = max(self._num_counted, buffer.num_added - buffer.capacity)
        for start in range(first, buffer.num_added, _COUNTED_UNROLLS):
            stop = min(start + _COUNTED_UNROLLS, buffer.num_added)
            slot = (torch.arange(start, stop) % buffer.capacity).repeat(length)
            time = torch.arange(length).repeat_interleave(stop - start)
            self._counts[time, slot] = chi.used_counts(self._steps(time, slot))
        self._num_counted = buffer.num_added
        return self._counts

    def _steps(self, time: Tensor, slot: Tensor) -> Transitions:
        rows = self.buffer.storage
        return Transitions(
            self._observation(time + 1, slot),
            self._observation(time, slot),
            rows.action[time, slot].long(),
            rows.terminated[time, slot],
        )

    def _draw(self, count: int, rng: Generator) -> tuple[Tensor, Tensor]:
        """Times and slots of random steps, without those that only reset: [N] each."""
        many = 2 * count + 8
        time = torch.randint(self._length, (many,), generator=rng)
        slot = self.buffer.slots(torch.randint(len(self.buffer), (many,), generator=rng))
        kept = torch.nonzero(~self.buffer.storage.is_reset[time, slot])[:, 0]
        kept = kept.repeat(-(-count // max(len(kept), 1)))[:count]
        return time[kept], slot[kept]
