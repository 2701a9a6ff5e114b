"""Cluster statistics: actors, queue, staleness, and time spent waiting."""

from __future__ import annotations

import time


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
