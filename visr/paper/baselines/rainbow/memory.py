"""Prioritised replay (Schaul et al., 2016) of n-step returns; every observation is kept once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visr.paper.baselines.rainbow.sum_tree import Indices, SumTree


class Batch(NamedTuple):
    """Steps that were drawn, with what they came to n steps later."""

    slots: Indices
    """[B]: where they lie."""
    observation: NDArray
    action: NDArray[np.int64]
    reward: NDArray[np.float32]
    """[B]: sum_k gamma^k r_{t+k}, up to n rewards."""
    discount: NDArray[np.float32]
    """[B]: gamma^n of what follows, n smaller where an episode was cut; 0 where it ended."""
    next_observation: NDArray
    weight: NDArray[np.float32]
    """[B]: (N P(i))^-beta, the largest 1."""


class Memory:
    """A ring of rows: a step with the observation it began at, or the last observation of an episode.

    A row is drawn only once the n rows after it are there, or its episode has ended.
    """

    def __init__(self, observation: NDArray, size: int, n_step: int, gamma: float) -> None:
        """`observation` is an example of one."""
        self._n, self._gamma, self._size = n_step, gamma, size
        self._rows = {
            "observation": np.zeros((size, *observation.shape), dtype=observation.dtype),
            "action": np.zeros(size, dtype=np.int64),
            "reward": np.zeros(size, dtype=np.float32),
            "terminated": np.zeros(size, dtype=np.bool_),
            "ended": np.zeros(size, dtype=np.bool_),  # no return looks beyond
            "is_step": np.zeros(size, dtype=np.bool_),
        }
        self._tree = SumTree(size)
        self._top = 1.0
        self._count = self._ripe = self._saved = self._missing = 0
        """Rows ever added; those that may be drawn; those that `new_piece` has handed out."""

    @property
    def max_steps(self) -> int:
        """Rows that it holds when it is full."""
        return self._size

    @property
    def num_missing(self) -> int:
        """Rows that the loaded state counts and `restore` has not brought back."""
        return self._missing

    def __len__(self) -> int:
        return min(self._count, self._size)

    def add(self, observation: NDArray, action: int, reward: float, terminated: bool) -> None:
        """Keep a step, as important as the most important one so far."""
        self._append(observation, action, reward, terminated, terminated, True)
        self._ripen(self._count - self._n)

    def close(self, observation: NDArray) -> None:
        """The episode ends here, or is cut: keep its last observation."""
        if self._count:
            self._rows["ended"][(self._count - 1) % self._size] = True
        self._append(observation, 0, 0.0, False, True, False)
        self._ripen(self._count)

    def _append(self, *row: object) -> None:
        slot = self._count % self._size
        for column, value in zip(self._rows.values(), row, strict=True):
            column[slot] = value
        self._tree.set(np.array([slot]), 0.0)
        self._count += 1

    def _ripen(self, count: int) -> None:
        """All rows before the `count`-th may be drawn from now on, if they are steps."""
        if count <= self._ripe:
            return
        slots = np.arange(self._ripe, count) % self._size
        self._tree.set(slots, np.where(self._rows["is_step"][slots], self._top, 0.0))
        self._ripe = count

    def sample(self, size: int, beta: float, random: torch.Generator) -> Batch:
        """One step from each of `size` equal parts of all priorities."""
        drawn = torch.rand(size, generator=random, dtype=torch.float64).numpy()
        slots = self._tree.find((np.arange(size) + drawn) / size * self._tree.total)
        priority = self._tree.leaves[slots]
        weight = (priority.min() / priority) ** beta  # N and the sum cancel
        return self._batch(slots, weight.astype(np.float32))

    def _batch(self, slots: Indices, weight: NDArray[np.float32]) -> Batch:
        rows = self._rows
        window = (slots[:, None] + np.arange(self._n)) % self._size
        ended = rows["ended"][window]
        counts = np.cumsum(ended, axis=1) - ended == 0  # nothing before it ended
        powers = self._gamma ** np.arange(self._n)
        reward = (rows["reward"][window] * counts * powers).sum(axis=1)
        length = counts.sum(axis=1)
        goes_on = ~(rows["terminated"][window] & counts).any(axis=1)
        discount = self._gamma**length * goes_on
        return Batch(
            slots,
            rows["observation"][slots],
            rows["action"][slots],
            reward.astype(np.float32),
            discount.astype(np.float32),
            rows["observation"][(slots + length) % self._size],
            weight,
        )

    def prioritise(self, slots: Indices, priority: NDArray[np.float64]) -> None:
        """From now on draw these steps in proportion to `priority`."""
        self._top = max(self._top, float(priority.max()))
        self._tree.set(slots, priority)

    def new_piece(self) -> dict[str, Tensor]:
        """The rows since the last call that are still here: a piece for the disk."""
        first = max(self._saved, self._count - self._size)
        slots = np.arange(first, self._count) % self._size
        self._saved = self._count
        piece = {name: torch.from_numpy(column[slots]) for name, column in self._rows.items()}
        return {"first": torch.tensor(first), **piece}

    def restore(self, piece: dict[str, Tensor]) -> None:
        """Put a piece back where it was."""
        slots = (int(piece["first"]) + np.arange(len(piece["action"]))) % self._size
        for name, column in self._rows.items():
            column[slots] = piece[name].numpy()
        first = max(int(piece["first"]), self._count - len(self))
        self._missing -= max(0, int(piece["first"]) + len(slots) - first)

    def state(self) -> dict[str, Tensor]:
        """All but the rows."""
        counts = torch.tensor([self._count, self._ripe, self._saved])
        top = torch.tensor(self._top, dtype=torch.float64)
        priority = torch.from_numpy(self._tree.leaves[: len(self)].copy())
        return {"counts": counts, "top": top, "priority": priority}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `state`; `restore` brings the rows."""
        self._count, self._ripe, self._saved = tensors["counts"].tolist()
        self._top, self._missing = float(tensors["top"]), len(self)
        self._tree.set(np.arange(len(self)), tensors["priority"].numpy())
