"""What a task would return, told by the episodes that pursued tasks near it: no step is played for it.

E[return | w] = sum_i k(w . w_i) R_i / sum_i k(w . w_i), with the kernel k(x) = exp(kappa (x - 1)) of von
Mises and Fisher.
Regression judges w by single rewards; this judges it by what people want, whole episodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
KAPPAS = (2.0, 5.0, 10.0, 20.0, 50.0)
ENOUGH = 200
"""Episodes, below which neighbours are too few to tell anything."""
HELD_OUT = 4
"""Every fourth episode judges what the others chose."""
_MOST = 4_000
"""Episodes compared with all others: enough to choose one number by."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Episodes that pursued a task each."""

    w: Floats
    """[N, d], unit length."""
    returns: Floats
    """[N]"""

    @classmethod
    def of(cls, tried: list[tuple[Floats, float]]) -> Neighbours:
        """From (w, return) of every episode."""
        return cls(np.array([w for w, _ in tried]), np.array([score for _, score in tried]))

    def split(self) -> tuple[Neighbours, Neighbours]:
        """Those that choose, and those that judge."""
        judges = np.arange(len(self.returns)) % HELD_OUT == HELD_OUT - 1
        return (
            Neighbours(self.w[~judges], self.returns[~judges]),
            Neighbours(self.w[judges], self.returns[judges]),
        )

    def expected(self, w: Floats, kappa: float) -> Floats:
        """E[return | w] for tasks [..., d]."""
        weight = np.exp(kappa * (w @ self.w.T - 1))
        return (weight @ self.returns) / weight.sum(axis=-1)

    def best_kappa(self) -> float:
        """The kernel whose predictions of held-out returns are nearest."""
        mine, others = self.split()
        tasks, returns = others.w[:_MOST], others.returns[:_MOST]
        errors = [np.square(mine.expected(tasks, k) - returns).mean() for k in KAPPAS]
        return KAPPAS[int(np.argmin(errors))]

    def best_task(self, kappa: float) -> Floats:
        """The task, among those tried, whose neighbourhood returned most."""
        return self.w[int(self.expected(self.w[:_MOST], kappa).argmax())]
