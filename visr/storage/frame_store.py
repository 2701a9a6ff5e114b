"""Stacks of frames, each frame kept once: in memory, or mapped from files that need not fit into memory.

An unroll of T steps with observations of k stacked frames keeps T + k frames: those of its first observation,
and the newest of every later one. Frames from before an episode are zeros in a stack, as ALE has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FIELD = "frames"
"""The name of the frames in a file of recorded steps."""
_NOT_STACKS = "its observations are not stacks of successive frames"


class _Part(NamedTuple):
    """n unrolls."""

    frames: NDArray[np.uint8]
    """[T + k, n, H, W]"""
    num_own: NDArray[np.uint8]
    """[T + 1, n], how many frames of each observation are of its own episode"""

    @property
    def size(self) -> int:
        return self.frames.shape[1]


class FrameStore:
    """Numbered unrolls, oldest first; the oldest may be forgotten."""

    def __init__(self, stack_size: int) -> None:
        self._size = stack_size
        self._parts: list[_Part] = []
        self._first = 0
        """The number of the oldest unroll."""

    def add(self, observation: Tensor, is_reset: Tensor) -> None:
        """Append unrolls: [T + 1, n, k, H, W] uint8, [T, n]."""
        seen = observation.numpy()
        frames = np.concatenate([seen[0].swapaxes(0, 1), seen[1:, :, -1]])
        part = _Part(frames, self._num_own(is_reset))
        time, slot = np.indices(seen.shape[:2]).reshape(2, -1)
        if not np.array_equal(self._stacks(part, time, slot), seen.reshape(-1, *seen.shape[2:])):
            raise ValueError(_NOT_STACKS)
        self._parts.append(part)

    def add_piece(self, piece: Mapping[str, Tensor]) -> None:
        """Append the unrolls of a file; those of older versions have whole stacks."""
        resets = piece["is_reset"]
        length, count = resets.shape
        if FIELD not in piece:
            self.add(piece["observation"], resets)
            return
        frames = piece[FIELD].numpy()
        if frames.dtype != np.uint8 or frames.shape[:2] != (length + self._size, count):
            raise ValueError(f"its {FIELD} do not fit its steps")
        self._parts.append(_Part(frames, self._num_own(resets)))

    def new_frames(self, first: int) -> Tensor:
        """The frames of all unrolls from this number on: [T + k, n, H, W]."""
        parts, number = [], self._first
        for part in self._parts:
            parts.append(part.frames[:, max(first - number, 0) :])
            number += part.size
        return torch.from_numpy(np.concatenate(parts, axis=1))

    def replace_newest(self, frames: NDArray[np.uint8]) -> None:
        """Keep the newest unrolls as these equal frames, which a file maps, instead of in memory."""
        own: list[NDArray[np.uint8]] = []
        while sum(x.shape[1] for x in own) < frames.shape[1]:
            own.insert(0, self._parts.pop().num_own)
        joined = np.concatenate(own, axis=1)
        surplus = joined.shape[1] - frames.shape[1]  # forgotten before the file was written
        self._first += surplus
        self._parts.append(_Part(frames, joined[:, surplus:]))

    def forget(self, first: int) -> None:
        """Drop whole parts whose numbers all lie before this one."""
        while self._parts and self._first + self._parts[0].size <= first:
            self._first += self._parts.pop(0).size

    def stacks(self, time: Tensor, number: Tensor) -> Tensor:
        """The observations at these times of these unrolls: [N], [N] -> [N, k, H, W]"""
        starts = np.cumsum([self._first, *(part.size for part in self._parts)])
        where = np.searchsorted(starts, number.numpy(), side="right") - 1
        height, width = self._parts[0].frames.shape[2:]
        found = np.empty((len(time), self._size, height, width), np.uint8)
        for index in np.unique(where):
            chosen = where == index
            slot = number.numpy()[chosen] - starts[index]
            found[chosen] = self._stacks(self._parts[index], time.numpy()[chosen], slot)
        return torch.from_numpy(found)

    def _stacks(
        self, part: _Part, time: NDArray[np.int64], slot: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        place = np.arange(self._size)
        stacks = part.frames[time[:, None] + place, slot[:, None]]
        stacks[place < self._size - part.num_own[time, slot][:, None]] = 0
        return stacks

    def _num_own(self, is_reset: Tensor) -> NDArray[np.uint8]:
        """[T, n] -> [T + 1, n]; an observation that a reset step reaches has one frame of its own."""
        resets = is_reset.numpy()
        own = np.full((len(resets) + 1, resets.shape[1]), self._size, np.uint8)
        for t, is_new in enumerate(resets):
            own[t + 1] = np.where(is_new, 1, np.minimum(own[t] + 1, self._size))
        return own


class StackedRows:
    """The observations of a store of whole unrolls as rows: row u (T + 1) + t is time t of unroll u."""

    def __init__(self, store: FrameStore, length: int, count: int) -> None:
        self._store, self._width, self._count = store, length + 1, count

    def __len__(self) -> int:
        return self._count * self._width

    def __getitem__(self, rows: Tensor) -> Tensor:
        """[N] -> [N, k, H, W]"""
        return self._store.stacks(rows % self._width, rows // self._width)
