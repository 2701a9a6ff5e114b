"""How much of what varies was foreseen, told from batches as they come."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

_CONSTANT = 1e-18
"""Of the mean square: less variance than that is rounding."""


@dataclass
class Fit:
    """Running moments of r, and its squared distance from what was foreseen."""

    count: float = 0.0
    mean: float = 0.0
    spread: float = 0.0
    """sum (r - mean)^2"""
    errors: float = 0.0
    """sum (r - foreseen)^2"""

    def note(self, r: Tensor, foreseen: Tensor) -> None:
        """Merge a batch, both [N] of float64 (Chan et al., 1979)."""
        count, mean = len(r), float(r.mean())
        total, shift = self.count + count, mean - self.mean
        self.spread += float((r - mean).square().sum()) + shift**2 * self.count * count / total
        self.mean += shift * count / total
        self.count = total
        self.errors += float((r - foreseen).square().sum())

    @property
    def r_squared(self) -> float | None:
        """1 - errors / spread; None where r did not vary."""
        if self.spread <= _CONSTANT * self.count * self.mean**2:
            return None
        return 1 - self.errors / self.spread

    def sums(self) -> list[float]:
        """All of it, as the constructor takes it."""
        return [self.count, self.mean, self.spread, self.errors]
