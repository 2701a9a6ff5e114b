"""What a setting may be: bounds, and the types of settings that carry them."""

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


LARGEST_INT = 2**63 - 1
LARGEST_SIZE = 10**6  # of anything that is held in memory
Fraction = Annotated[float, Bound(0, 1)]
Count = Annotated[int, Bound(0, LARGEST_INT)]
CountFromOne = Annotated[int, Bound(1, LARGEST_INT)]
Size = Annotated[int, Bound(1, LARGEST_SIZE)]
SizeFromTwo = Annotated[int, Bound(2, LARGEST_SIZE)]
SizeOrZero = Annotated[int, Bound(0, LARGEST_SIZE)]
Threads = Annotated[int, Bound(0, 1_024)]  # each of them is started
Amount = Annotated[float, Bound(0, LARGEST_INT)]
Positive = Annotated[float, Bound(0, LARGEST_INT, is_open=True)]
Resource = Annotated[float, Bound(0, LARGEST_SIZE)]
