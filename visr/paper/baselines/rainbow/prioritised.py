"""Prioritised replay (Schaul et al., 2016) of n-step returns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visr.training.replay import Indices, NStepBatch, ReplayBuffer, Steps, single_step


class SumTree:
    """Weights that are drawn in proportion, and changed, in logarithmic time.

    A complete binary tree in one array: node i is the sum of nodes 2i and 2i + 1, node 1 is the total.
    """

    def __init__(self, size: int) -> None:
        self._depth = max(size - 1, 1).bit_length()
        self._first_leaf = 1 << self._depth
        self._nodes = np.zeros(2 * self._first_leaf)
        self._size = size

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._nodes[1])

    @property
    def leaves(self) -> NDArray[np.float64]:
        """[size], a view of the weights."""
        return self._nodes[self._first_leaf : self._first_leaf + self._size]

    def set(self, indices: Indices, weights: NDArray[np.float64] | float) -> None:
        """Change some weights; the last one counts for an index that occurs twice."""
        nodes = np.asarray(indices) + self._first_leaf
        self._nodes[nodes] = weights
        for _ in range(self._depth):
            nodes = nodes >> 1 if len(nodes) == 1 else np.unique(nodes >> 1)
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def find(self, amounts: NDArray[np.float64]) -> Indices:
        """The indices at which the running sum of weights first exceeds each amount: [B] -> [B]"""
        nodes, left_over = np.ones(len(amounts), dtype=np.int64), amounts.astype(np.float64)
        for _ in range(self._depth):
            left = self._nodes[2 * nodes]
            # Rounding may leave a little too much; it must not lead to a weight of 0.
            goes_right = (left_over >= left) & (self._nodes[2 * nodes + 1] > 0)
            left_over -= np.where(goes_right, left, 0.0)
            nodes = 2 * nodes + goes_right
        return nodes - self._first_leaf


class PrioritisedBatch(NamedTuple):
    """Steps drawn in proportion to their priorities."""

    steps: NStepBatch
    slots: Indices
    """[B]: for `set_priorities`"""
    weight: Tensor
    """[B] float32: (N P(i))^-beta, the largest 1"""


class PrioritisedReplay:
    """Draws a step only once the n entries after it are present or its episode has ended."""

    def __init__(self, observation: NDArray, capacity: int, n_step: int, gamma: float) -> None:
        """`observation` is an example of one."""
        self._n_step, self._gamma = n_step, gamma
        self._buffer = ReplayBuffer(capacity, single_step(observation, 0, 0.0, False, False, False))
        self._tree = SumTree(capacity)
        self._largest_priority = 1.0
        self._num_ready = 0
        """Entries, from the first ever added, whose n-step return is known."""

    def __len__(self) -> int:
        return len(self._buffer)

    @property
    def max_steps(self) -> int:
        return self._buffer.max_steps

    @property
    def num_missing(self) -> int:
        return self._buffer.num_missing

    def add(self, observation: NDArray, action: int, reward: float, terminated: bool) -> None:
        """Store a step with the largest priority so far."""
        self._append(single_step(observation, action, reward, terminated, terminated, True))
        self._make_ready(self._buffer.num_added - self._n_step)

    def end_episode(self, observation: NDArray) -> None:
        """Store the last observation of an episode that ended or was truncated."""
        buffer = self._buffer
        if buffer.num_added:
            buffer.storage.ended[(buffer.num_added - 1) % buffer.capacity] = True
        self._append(single_step(observation, 0, 0.0, False, True, False))
        self._make_ready(buffer.num_added)

    def _append(self, entry: Steps) -> None:
        self._tree.set(np.array([self._buffer.num_added % self._buffer.capacity]), 0.0)
        self._buffer.add(entry)

    def _make_ready(self, count: int) -> None:
        """Let the steps among the first `count` entries be drawn."""
        if count <= self._num_ready:
            return
        slots = np.arange(self._num_ready, count) % self._buffer.capacity
        is_step = self._buffer.storage.is_step.numpy()[slots]
        self._tree.set(slots, np.where(is_step, self._largest_priority, 0.0))
        self._num_ready = count

    def sample(self, size: int, beta: float, rng: torch.Generator) -> PrioritisedBatch:
        """One step from each of `size` equal parts of the sum of priorities."""
        drawn = torch.rand(size, generator=rng, dtype=torch.float64).numpy()
        slots = self._tree.find((np.arange(size) + drawn) / size * self._tree.total)
        priority = self._tree.leaves[slots]
        weight = (priority.min() / priority) ** beta  # N and the sum cancel
        steps = self._buffer.transitions(slots, self._n_step, self._gamma)
        return PrioritisedBatch(steps, slots, torch.from_numpy(weight.astype(np.float32)))

    def set_priorities(self, slots: Indices, priority: NDArray[np.float64]) -> None:
        """Draw these steps in proportion to `priority` from now on."""
        self._largest_priority = max(self._largest_priority, float(priority.max()))
        self._tree.set(slots, priority)

    def new_piece(self) -> dict[str, Tensor]:
        """The entries since the last call, with the number of entries before them."""
        piece = self._buffer.new_piece()
        first = self._buffer.num_added - len(piece["action"]) if piece else 0
        return {"first": torch.tensor(first), **piece} if piece else {}

    def restore(self, piece: dict[str, Tensor]) -> None:
        """Put a piece back into the slots that the priorities refer to."""
        piece = dict(piece)
        self._buffer.restore(piece, first=int(piece.pop("first")))

    def state(self) -> dict[str, Tensor]:
        """State for the checkpoint, without the stored steps."""
        counts = [self._buffer.num_added, self._num_ready, self._buffer.num_saved]
        return {
            "counts": torch.tensor(counts),
            "top": torch.tensor(self._largest_priority, dtype=torch.float64),
            "priority": torch.from_numpy(self._tree.leaves[: len(self)].copy()),
        }

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `state`; `restore` brings the entries."""
        num_added, self._num_ready, _ = tensors["counts"].tolist()
        self._buffer.expect(num_added)
        self._largest_priority = float(tensors["top"])
        priority = tensors["priority"].numpy()
        self._tree.set(np.arange(len(priority)), priority)
