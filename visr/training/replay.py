"""Unrolls kept for learning from them again: the newest so many steps, drawn evenly."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

from visr.training.batch_queue import concatenate
from visr.types import Unroll


class Replay:
    """Single unrolls in order of arrival; what is new since the last checkpoint is known apart."""

    def __init__(self, num_unrolls: int) -> None:
        self._kept: deque[Unroll] = deque(maxlen=num_unrolls)
        self._is_notable: deque[bool] = deque(maxlen=num_unrolls)
        self._new: list[Unroll] = []

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, unroll: Unroll) -> None:
        """Keep every environment's unroll as one of its own."""
        self._append(unroll)
        self._new.append(unroll)

    def _append(self, unroll: Unroll) -> None:
        for index in range(unroll.num_unrolls):
            self._kept.append(unroll.part(index, index + 1))
        self._is_notable.extend((unroll.reward.ne(0) & ~unroll.is_reset).any(dim=0).tolist())

    def sample(self, count: int, random: torch.Generator) -> Unroll:
        """`count` unrolls, each drawn evenly from all that are kept."""
        chosen = torch.randint(len(self._kept), (count,), generator=random).tolist()
        return self._batch(chosen)

    def sample_notable(self, count: int, random: torch.Generator) -> tuple[Unroll, Tensor]:
        """Half of them from those with a reward in them, and weights [count] that undo the preference."""
        notable = [index for index, is_notable in enumerate(self._is_notable) if is_notable]
        chosen = torch.randint(len(self._kept), (count,), generator=random).tolist()
        if not notable:
            return self._batch(chosen), torch.ones(count)
        some = torch.randint(len(notable), (count // 2,), generator=random).tolist()
        chosen[: count // 2] = [notable[index] for index in some]
        half, share = count // 2 / count, len(notable) / len(self._kept)
        preferred = torch.tensor([self._is_notable[index] for index in chosen])
        weight = torch.where(preferred, 1 / (1 - half + half / share), 1 / (1 - half))
        return self._batch(chosen), weight

    def _batch(self, chosen: list[int]) -> Unroll:
        return concatenate([self._kept[index] for index in chosen])

    def all(self) -> Unroll:
        """Everything that is kept, as one batch."""
        return concatenate(list(self._kept))

    def take_new(self) -> dict[str, Tensor]:
        """What was added since the last call: a piece for the disk."""
        new, self._new = self._new, []
        return {k: v.contiguous() for k, v in concatenate(new)._asdict().items()} if new else {}

    def restore(self, piece: Unroll) -> None:
        """Put a piece back, in the order of the pieces."""
        self._append(piece)
