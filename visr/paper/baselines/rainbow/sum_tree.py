"""Weights of which any can be changed, and drawn in proportion, in logarithmic time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


class SumTree:
    """A complete binary tree in one array: node i is the sum of nodes 2i and 2i + 1, node 1 is the total."""

    def __init__(self, size: int) -> None:
        self._depth = max(size - 1, 1).bit_length()
        self._first_leaf = 1 << self._depth
        self._nodes = np.zeros(2 * self._first_leaf)
        self._size = size

    @property
    def total(self) -> float:
        """Of all weights."""
        return float(self._nodes[1])

    @property
    def leaves(self) -> NDArray[np.float64]:
        """[size], a view of the weights."""
        return self._nodes[self._first_leaf : self._first_leaf + self._size]

    def set(self, indices: Indices, weights: NDArray[np.float64] | float) -> None:
        """Change some weights; of an index that occurs twice, the last counts."""
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
            # Rounding may leave a little too much; it must not lead to where nothing weighs anything.
            goes_right = (left_over >= left) & (self._nodes[2 * nodes + 1] > 0)
            left_over -= np.where(goes_right, left, 0.0)
            nodes = 2 * nodes + goes_right
        return nodes - self._first_leaf
