"""What a task's policy is truly worth on a grid world; torch-free, so that reports can read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The exact value of a greedy policy, between the random policy's and the optimal one."""

    task: str
    fraction_of_optimal: float
    """(V - V_random) / (V_optimal - V_random)"""
    value: float
    """V, averaged over start states, for the true reward."""
    value_random: float
    value_optimal: float
    gamma: float
    gpi: bool
    policy: NDArray[np.int64]
    """[S], the action in every state."""
    values: NDArray[np.float64]
    """[S], the policy's exact value in every state."""
    represented_reward: NDArray[np.float64]
    """[S], phi . w: the reward as the agent sees it."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in vars(self).items()}
