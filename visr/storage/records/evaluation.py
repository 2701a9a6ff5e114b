"""NAME.evaluation.json: the exact value of a task's policy on a grid world."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from visr.config import Bound
from visr.storage import schema
from visr.storage.files import read_json

NUM_ACTIONS = 4
"""Of the grid world."""


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
    policy: Annotated[NDArray[np.int64], Bound(0, NUM_ACTIONS - 1)]
    """[S], the action in every state."""
    values: NDArray[np.float64]
    """[S], the policy's exact value in every state."""
    represented_reward: NDArray[np.float64]
    """[S], phi . w: the reward as the agent sees it."""

    def to_dict(self) -> dict[str, Any]:
        """The content of the file."""
        return schema.to_dict(self)

    @classmethod
    def load(cls, path: Path, num_states: int) -> Evaluation:
        """Read the evaluation of a task with a reward over `num_states` states."""
        content = read_json(path)
        with schema.refusing(f"{path} is not an evaluation", "`visr evaluate` makes another"):
            evaluation = schema.read(cls, content)
            for name in ("policy", "values", "represented_reward"):
                if len(getattr(evaluation, name)) != num_states:
                    raise ValueError(f"{name} is not a list of {num_states} numbers")
        return evaluation
