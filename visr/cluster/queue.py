"""Unrolls that wait for the learner, and how old their weights will be when it uses them."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple


class Waiting(NamedTuple):
    """Unrolls of one actor."""

    unrolls: Any
    """A reference into the object store."""
    size: int
    """How many."""
    version: int
    """Updates that their weights had seen."""


class Queue:
    """In order of arrival; staleness is bounded here, where it is known exactly.

    A learner takes unrolls in this order and keeps an incomplete batch, so the update that will use an
    unroll follows from its place, and with it the staleness: updates made by then, less its weights'.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._waiting: deque[Waiting] = deque()
        self._taken: list[Waiting] = []
        self._kept: list[tuple[int, int]] = []
        self.num_dropped = 0
        """Unrolls that were too old, or lost on their way, and never used."""

    def __len__(self) -> int:
        """Unrolls that no update has used yet, wherever they are."""
        return sum(w.size for w in (*self._waiting, *self._taken)) + self.num_kept

    @property
    def num_kept(self) -> int:
        """Unrolls at the learner's that were too few for a batch."""
        return sum(size for _, size in self._kept)

    def add(self, waiting: Waiting) -> None:
        """One more, behind all others."""
        self._waiting.append(waiting)

    def start_anew(self, version: int, num_kept: int) -> None:
        """Forget everything; the learner was handed so many with its state."""
        self._waiting.clear()
        self._taken, self._kept = [], [(version, num_kept)] if num_kept else []

    def hand_over(self) -> list[Any]:
        """References to all that waits, for the learner to keep."""
        unrolls = [w.unrolls for w in self._waiting]
        self._kept += [(w.version, w.size) for w in self._waiting]
        self._waiting.clear()
        return unrolls

    def take_all(self) -> list[Any]:
        """References to everything, however old: rounds have a fixed lag."""
        self._taken = list(self._waiting)
        self._waiting.clear()
        return [w.unrolls for w in self._taken]

    def take(self, num_updates: int, most: int, max_staleness: int) -> list[Any]:
        """References for up to `most` updates, the too old ones dropped; none unless a batch is full."""
        taken: list[Waiting] = []
        place, wanted = self.num_kept, most * self._batch_size
        while self._waiting and place < wanted:
            first = self._waiting.popleft()
            used_at = num_updates + (place + first.size - 1) // self._batch_size
            if used_at - first.version > max_staleness:
                self.num_dropped += first.size
                continue
            taken.append(first)
            place += first.size
        if place < self._batch_size:
            self._waiting.extendleft(reversed(taken))
            return []
        self._taken = taken
        return [w.unrolls for w in taken]

    def learnt(self, num_updates: int, made: int) -> list[tuple[int, int]]:
        """(staleness, how many) of all that the `made` updates after the first `num_updates` used."""
        order = deque([*self._kept, *((w.version, w.size) for w in self._taken)])
        used: list[tuple[int, int]] = []
        for update in range(num_updates, num_updates + made):
            left = self._batch_size
            while left:
                version, size = order.popleft()
                used.append((update - version, min(size, left)))
                if size > left:
                    order.appendleft((version, size - left))
                left -= used[-1][1]
        self._taken, self._kept = [], list(order)
        return used

    def lose(self) -> None:
        """What was taken has gone with its node before the learner could read it."""
        self.num_dropped += sum(w.size for w in self._taken)
        self._taken = []
