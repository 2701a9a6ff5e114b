"""Queue of unrolls between actors and learner: full batches in order of arrival."""

from __future__ import annotations

import torch
from torch import Tensor

from visr.training.learner import Learner, within
from visr.types import BY_UNROLL, Unroll


class BatchQueue:
    """Feeds one learner; of `ranks` learners that share batches, each takes its part of every batch."""

    def __init__(
        self, learner: Learner, batch_size: int, total_updates: int, rank: int = 0, ranks: int = 1
    ) -> None:
        self._learner, self._batch_size, self._total_updates = learner, batch_size, total_updates
        self._share = batch_size // ranks
        self._offset = rank * self._share
        self._waiting: Unroll | None = None

    @property
    def num_waiting(self) -> int:
        """Unrolls that no update has used yet."""
        return 0 if self._waiting is None else self._waiting.num_unrolls

    def add(self, unrolls: list[Unroll]) -> None:
        """Append to the queue."""
        waiting = [] if self._waiting is None else [self._waiting]
        if waiting or unrolls:
            self._waiting = concatenate([*waiting, *unrolls])

    def learn(self) -> list[dict[str, Tensor]]:
        """Update on every full batch, up to the run's last update; keep the remaining unrolls."""
        if self._waiting is None:
            return []
        metrics, size, start = [], self._batch_size, 0
        left = self._total_updates - self._learner.num_updates
        while start + size <= self._waiting.num_unrolls and len(metrics) < left:
            begin = start + self._offset
            metrics.append(self._learner.update(self._waiting.part(begin, begin + self._share)))
            start += size
        rest = self._waiting.part(start, self._waiting.num_unrolls)
        self._waiting = rest if rest.num_unrolls else None
        return metrics

    def state(self) -> dict[str, Tensor]:
        """The waiting unrolls, by name."""
        if self._waiting is None:
            return {}
        return {f"waiting.{k}": v for k, v in self._waiting._asdict().items()}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `state`."""
        waiting = within(tensors, "waiting.")
        self._waiting = Unroll(**waiting) if waiting else None


def concatenate(unrolls: list[Unroll]) -> Unroll:
    """Several batches of unrolls as one, in order."""
    fields = zip(Unroll._fields, zip(*unrolls, strict=True), strict=True)
    return Unroll(**{k: torch.cat(x, dim=0 if k in BY_UNROLL else 1) for k, x in fields})
