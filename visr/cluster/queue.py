"""The queue of unrolls for the learner, with bounded staleness; and cluster statistics."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, NamedTuple


class QueuedUnrolls(NamedTuple):
    """Unrolls of one actor that wait for the learner."""

    unrolls: Any
    """A reference into the object store."""
    size: int
    """How many."""
    version: int
    """Number of updates behind the weights that collected them."""


class UnrollQueue:
    """First in, first out.

    The learner takes unrolls in this order and keeps an incomplete batch. So the position of an unroll
    determines the update that uses it, and its staleness: that update minus the version of its weights.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._waiting: deque[QueuedUnrolls] = deque()
        self._taken: list[QueuedUnrolls] = []
        self._kept: list[tuple[int, int]] = []
        self.num_dropped = 0
        """Unrolls that were too stale or lost, and never used."""

    def __len__(self) -> int:
        """Unrolls that no update has used yet, in the queue or at the learner."""
        return sum(w.size for w in (*self._waiting, *self._taken)) + self.num_kept

    @property
    def num_kept(self) -> int:
        """Unrolls at the learner that do not fill a batch yet."""
        return sum(size for _, size in self._kept)

    def add(self, waiting: QueuedUnrolls) -> None:
        """Append to the queue."""
        self._waiting.append(waiting)

    def reset(self, version: int, num_kept: int) -> None:
        """Empty the queue; the learner's loaded state contains `num_kept` unrolls."""
        self._waiting.clear()
        self._taken, self._kept = [], [(version, num_kept)] if num_kept else []

    def drain(self) -> list[Any]:
        """References to all queued unrolls; the learner keeps them in its state."""
        unrolls = [w.unrolls for w in self._waiting]
        self._kept += [(w.version, w.size) for w in self._waiting]
        self._waiting.clear()
        return unrolls

    def take_all(self) -> list[Any]:
        """References to all queued unrolls of any age: synchronous rounds have a fixed lag."""
        self._taken = list(self._waiting)
        self._waiting.clear()
        return [w.unrolls for w in self._taken]

    def take(self, num_updates: int, most: int, max_staleness: int) -> list[Any]:
        """References for up to `most` updates; stale unrolls are dropped. Empty without a full batch."""
        taken: list[QueuedUnrolls] = []
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

    def consume(self, num_updates: int, made: int) -> list[tuple[int, int]]:
        """(staleness, number) of the unrolls that updates num_updates .. num_updates + made used."""
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

    def drop_taken(self) -> None:
        """Count the unrolls as dropped that were lost before the learner could read them."""
        self.num_dropped += sum(w.size for w in self._taken)
        self._taken = []


class ClusterStats:
    """Sums since the last row. They contain wall-clock times, so they have a file of their own."""

    def __init__(self, unroll_length: int) -> None:
        self._unroll_length = unroll_length
        self.num_restarts = 0
        """Restarts of the learner."""
        self._clear()

    def _clear(self) -> None:
        self._since = time.perf_counter()
        self._acted = self._learnt = self._acting = self._learning = 0.0
        self._actors_free = self._learner_free = 0.0
        self._stale_sum = self._stale_most = 0

    def add_acting(self, report: dict[str, float], num_unrolls: int) -> None:
        """Add an actor's finished unrolls."""
        self._acted += num_unrolls * self._unroll_length
        self._acting += report["acted"]
        self._actors_free += report["waited"]

    def add_learning(self, report: dict[str, float], used: list[tuple[int, int]]) -> None:
        """Add the learner's report; `used` lists (staleness, number of unrolls)."""
        self._learnt += sum(count for _, count in used) * self._unroll_length
        self._learning += report["learnt"]
        self._learner_free += report["waited"]
        self._stale_sum += sum(staleness * count for staleness, count in used)
        self._stale_most = max([self._stale_most, *(staleness for staleness, _ in used)])

    def row(self, now: dict[str, float]) -> dict[str, float]:
        """Statistics since the last row, beside the current values `now`."""
        seconds = max(time.perf_counter() - self._since, 1e-9)
        num_used = max(self._learnt / self._unroll_length, 1)
        row = {
            **now,
            "staleness": self._stale_sum / num_used,
            "max_staleness": float(self._stale_most),
            "acting_steps_per_second": self._acted / seconds,
            "learning_steps_per_second": self._learnt / seconds,
            "actors_waiting": _share(self._actors_free, self._acting),
            "learner_waiting": _share(self._learner_free, self._learning),
            "learner_restarts": float(self.num_restarts),
        }
        self._clear()
        return row


def _share(waiting: float, working: float) -> float:
    """The share of time spent waiting."""
    return waiting / (waiting + working) if waiting + working else 0.0
