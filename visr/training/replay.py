"""Replay buffer: a ring of unrolls or of single steps, saved to disk in pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visr.types import BY_UNROLL, Unroll


class Steps(NamedTuple):
    """N consecutive steps of one environment; each episode's last observation has an entry of its own."""

    observation: Tensor
    """[N, ...], before the step"""
    action: Tensor
    """[N] int64"""
    reward: Tensor
    """[N] float32"""
    terminated: Tensor
    """[N] bool: the episode ended, or a life was lost: discount 0"""
    ended: Tensor
    """[N] bool: returns stop after this entry"""
    is_step: Tensor
    """[N] bool: False for the entry of a last observation"""


def single_step(
    observation: NDArray, action: int, reward: float, terminated: bool, ended: bool, is_step: bool
) -> Steps:
    """One entry, for a buffer of `Steps`."""
    return Steps(
        torch.as_tensor(observation)[None],
        torch.tensor([action]),
        torch.tensor([reward], dtype=torch.float32),
        torch.tensor([terminated]),
        torch.tensor([ended]),
        torch.tensor([is_step]),
    )


class NStepBatch(NamedTuple):
    """B steps with their n-step returns."""

    observation: Tensor
    """[B, ...]"""
    action: Tensor
    """[B] int64"""
    reward: Tensor
    """[B] float32: sum_k gamma^k r_{t+k} over up to n rewards"""
    discount: Tensor
    """[B] float32: gamma^n, n smaller where an episode was truncated; 0 where it terminated"""
    next_observation: Tensor
    """[B, ...], n steps later"""


Entries = TypeVar("Entries", Unroll, Steps)
Indices = NDArray[np.int64]


class ReplayBuffer(Generic[Entries]):
    """The newest `capacity` entries like those of `example`, whose batch size does not matter.

    `check` raises a ValueError for restored entries that the environment could not have produced.
    """

    def __init__(
        self, capacity: int, example: Entries, check: Callable[[Entries], None] | None = None
    ) -> None:
        self.capacity, self._type, self._check = capacity, type(example), check
        has_time = isinstance(example, Unroll)
        self._axes = [int(has_time and name not in BY_UNROLL) for name in example._fields]
        self._steps_per_entry = len(example.action) if has_time else 1
        # numpy's zeros take memory only when they are first written
        self._arrays = [
            np.zeros((*x.shape[:axis], capacity, *x.shape[axis + 1 :]), x.numpy().dtype)
            for x, axis in zip(example, self._axes, strict=True)
        ]
        self.storage: Entries = self._type(*map(torch.from_numpy, self._arrays))
        self.num_added = 0
        """Entries ever added."""
        self.num_saved = 0
        """Entries that saved pieces hold."""
        self._start = 0
        """The number of the oldest entry that is still here."""
        self._num_expected = 0
        """Entries that `expect` announced."""

    def __len__(self) -> int:
        return self.num_added - self._start

    @property
    def max_steps(self) -> int:
        """Steps that it holds when it is full."""
        return self.capacity * self._steps_per_entry

    def add(self, entries: Entries) -> None:
        """Append entries; they overwrite the oldest."""
        count = entries[0].shape[self._axes[0]]
        slots = np.arange(self.num_added, self.num_added + count) % self.capacity
        newest = slice(-self.capacity, None)
        for array, x, axis in zip(self._arrays, entries, self._axes, strict=True):
            index = (slice(None),) * axis
            array[(*index, slots[newest])] = np.asarray(x)[(*index, newest)]
        self.num_added += count
        self._start = max(self._start, self.num_added - self.capacity)

    def slots(self, indices: Tensor) -> Tensor:
        """Where in `storage` the entries at these indices are; 0 is the oldest."""
        return (self._start + indices) % self.capacity

    def numbers(self, slots: Tensor) -> Tensor:
        """How many entries were added before those in these slots."""
        return self._start + (slots - self._start) % self.capacity

    def take(self, indices: Tensor) -> Entries:
        """The entries at these indices; 0 is the oldest."""
        slots = self.slots(indices)
        fields = zip(self.storage, self._axes, strict=True)
        return self._type(*(x.index_select(axis, slots) for x, axis in fields))

    def select(self, *names: str) -> dict[str, Tensor]:
        """These fields of all entries, oldest first."""
        slots = (self._start + torch.arange(len(self))) % self.capacity
        axes = dict(zip(self.storage._fields, self._axes, strict=True))
        return {k: getattr(self.storage, k).index_select(axes[k], slots) for k in names}

    def sample(self, count: int, rng: torch.Generator) -> Entries:
        """`count` entries, drawn uniformly with replacement."""
        return self.take(torch.randint(len(self), (count,), generator=rng))

    def all(self) -> Entries:
        """All entries, oldest first."""
        return self.take(torch.arange(len(self)))

    def transitions(self, slots: Indices, n_step: int, gamma: float) -> NStepBatch:
        """The n-step returns that start at these slots of a buffer of `Steps`."""
        rows = self.storage
        assert isinstance(rows, Steps)
        window = (slots[:, None] + np.arange(n_step)) % self.capacity
        ended = rows.ended.numpy()[window]
        counts = np.cumsum(ended, axis=1) - ended == 0  # no earlier entry of the window ended
        reward = (rows.reward.numpy()[window] * counts * gamma ** np.arange(n_step)).sum(axis=1)
        length = counts.sum(axis=1)
        terminated = (rows.terminated.numpy()[window] & counts).any(axis=1)
        discount = gamma**length * ~terminated
        return NStepBatch(
            rows.observation[slots],
            rows.action[slots],
            torch.from_numpy(reward.astype(np.float32)),
            torch.from_numpy(discount.astype(np.float32)),
            rows.observation[(slots + length) % self.capacity],
        )

    def new_piece(self) -> dict[str, Tensor]:
        """The entries since the last call that are still here, for the disk; empty if there are none."""
        first = max(self.num_saved, self._start)
        self.num_saved = self.num_added
        if first == self.num_added:
            return {}
        return self.take(torch.arange(first, self.num_added) - self._start)._asdict()

    def restore(self, piece: dict[str, Tensor], first: int | None = None) -> None:
        """Append a saved piece; `first` is the number of entries that were added before it."""
        entries = self._type(**piece)
        self._refuse_mismatch(entries)
        if self._check is not None:
            self._check(entries)
        if first is not None and first != self.num_added:
            self._start = self.num_added = first
        self.add(entries)
        self.num_saved = self.num_added

    def _refuse_mismatch(self, entries: Entries) -> None:
        """Reject entries whose shapes or dtypes differ from the example's."""
        fields = zip(entries._fields, entries, self.storage, self._axes, strict=True)
        for name, x, mine, axis in fields:
            shapes = [(*s[:axis], *s[axis + 1 :]) for s in (x.shape, mine.shape)]
            if x.dtype != mine.dtype or x.dim() != mine.dim() or shapes[0] != shapes[1]:
                raise ValueError(f"its {name} has another shape or type")
        if len({x.shape[axis] for x, axis in zip(entries, self._axes, strict=True)}) != 1:
            raise ValueError("its fields are not equally long")

    def expect(self, num_added: int) -> None:
        """Announce how many entries had been added when the pieces were saved."""
        self._num_expected = num_added

    @property
    def num_missing(self) -> int:
        """Expected entries that `restore` has not brought back."""
        return max(0, min(self.capacity, self._num_expected) - len(self))
