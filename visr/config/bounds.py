"""Bounds of numbers, and the kinds of numbers that settings are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class Bound:
    """The smallest and the largest number that a field may hold; for a text or a list, its length."""

    low: float = -math.inf
    high: float = math.inf
    is_open: bool = False
    """`low` itself is not allowed."""

    def contains(self, value: float) -> bool:
        """Whether a number lies within."""
        return self.low <= value <= self.high and not (self.is_open and value == self.low)

    def words(self) -> str:
        """To follow "is not a number"."""
        if self.high == math.inf:
            return "" if self.low == -math.inf else f" of at least {self.low:g}"
        if self.low in (-math.inf, -self.high):
            return f" of at most {self.high:g}"
        return f" from {self.low:g} to {self.high:g}"


LARGEST_INT = 2**63 - 1
LARGEST_SIZE = 10**6
"""Of anything that is held in memory."""
FRACTION = Bound(0, 1)
Fraction = Annotated[float, FRACTION]
Count = Annotated[int, Bound(0, LARGEST_INT)]
CountFromOne = Annotated[int, Bound(1, LARGEST_INT)]
Size = Annotated[int, Bound(1, LARGEST_SIZE)]
SizeFromTwo = Annotated[int, Bound(2, LARGEST_SIZE)]
SizeOrZero = Annotated[int, Bound(0, LARGEST_SIZE)]
Amount = Annotated[float, Bound(0, LARGEST_INT)]
Positive = Annotated[float, Bound(0, LARGEST_INT, is_open=True)]
Resource = Annotated[float, Bound(0, LARGEST_SIZE)]
