"""Real steps: what the model learns from, is measured on, and where simulated episodes start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visr.training.replay import Indices, ReplayBuffer, single_step


class Sequences(NamedTuple):
    """N sequences of T real steps."""

    history: Tensor
    """[N, K, C, H, W] uint8: the last frames before the first step"""
    action: Tensor
    """[N, T] int64"""
    next_frame: Tensor
    """[N, T, C, H, W] uint8"""
    reward: Tensor
    """[N, T] float32"""
    terminated: Tensor
    """[N, T] bool"""
    is_valid: Tensor
    """[N, T] bool: the episode has not ended before this step"""


class RealSteps:
    """The real steps of a run in their order; each episode's last frame has an entry of its own."""

    def __init__(self, frame: NDArray, num_steps: int, history: int) -> None:
        """`frame` is an example of one; `num_steps` is the capacity."""
        self.buffer = ReplayBuffer(2 * num_steps, single_step(frame, 0, 0.0, False, False, False))
        self._history = history
        self.held_out: list[tuple[int, int]] = []
        """Ranges of entries that never train the model."""

    def add(self, frame: NDArray, action: int, reward: float, terminated: bool) -> None:
        """Store a step: the frame before it, and what followed."""
        self.buffer.add(single_step(frame, action, reward, terminated, False, True))

    def end_episode(self, frame: NDArray) -> None:
        """Store the last frame of an episode that ended, or that is not continued."""
        self.buffer.add(single_step(frame, 0, 0.0, False, True, False))

    def candidates(self, held_out: bool | None = None) -> Indices:
        """Entries that are steps: all, only the held-out ones, or only the others."""
        count = self.buffer.num_added
        is_step = self.buffer.storage.is_step[:count].numpy()
        if held_out is not None:
            is_step = is_step & (self._is_held_out(count) == held_out)
        return np.flatnonzero(is_step)

    def _is_held_out(self, count: int) -> NDArray[np.bool_]:
        marks = np.zeros(count, dtype=np.bool_)
        for first, end in self.held_out:
            marks[first:end] = True
        return marks

    def histories(self, entries: Indices) -> Tensor:
        """The last frames at these entries, zeros before the episode's first: [N] -> [N, K, C, H, W]"""
        places = entries[:, None] + np.arange(1 - self._history, 1)
        rows = self.buffer.storage
        is_step = rows.is_step.numpy()[np.clip(places, 0, None)] & (places >= 0)
        is_step[:, -1] = True
        # Backwards in time: a frame belongs to the episode if only steps lie between it and the newest.
        belongs = np.flip(np.minimum.accumulate(np.flip(is_step, axis=1), axis=1), axis=1)
        frames = rows.observation[np.clip(places, 0, None)]
        mask = torch.from_numpy(belongs.copy()).view(*belongs.shape, *(1,) * (frames.dim() - 2))
        return frames * mask

    def sequences(self, entries: Indices, length: int, held_out: bool | None = None) -> Sequences:
        """The steps that start at these entries; held-out steps are valid only if they are asked for."""
        count, rows = self.buffer.num_added, self.buffer.storage
        places = entries[:, None] + np.arange(length)
        inside = np.minimum(places, count - 1)
        is_valid = rows.is_step.numpy()[inside] & (places < count - 1)
        if held_out is not None:
            is_valid &= self._is_held_out(count)[inside] == held_out
        is_valid = np.minimum.accumulate(is_valid, axis=1)
        return Sequences(
            self.histories(entries),
            rows.action[inside],
            rows.observation[np.minimum(places + 1, count - 1)],
            rows.reward[inside],
            rows.terminated[inside],
            torch.from_numpy(is_valid),
        )


def draw(entries: Indices, count: int, rng: torch.Generator) -> Indices:
    """`count` of these entries, uniformly with replacement."""
    return entries[torch.randint(len(entries), (count,), generator=rng).numpy()]
