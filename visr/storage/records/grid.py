"""Records of a grid world: NAME.evaluation.json (exact values of a policy) and portrait.safetensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from visr.config import Bound, RunConfig
from visr.storage import schema
from visr.storage.files import read_arrays, read_json, reading, write_arrays
from visr.storage.summaries import Summary

NUM_ACTIONS = 4
NUM_TASKS, NUM_POLICIES = 49, 10
"""Random tasks of a snapshot, and random policies behind their GPI values."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Summary):
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
    value_constant: float | None = None
    """Of the best policy that repeats one action."""

    def summary(self) -> dict[str, str]:
        """The value and what to compare it with."""
        return {
            "task": self.task,
            "fraction of optimal": f"{self.fraction_of_optimal:.3f}",
            "value": f"{self.value:.3f}",
            "random": f"{self.value_random:.3f}",
            "optimal": f"{self.value_optimal:.3f}",
        }

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


@dataclass(frozen=True, eq=False)
class GridSnapshot:
    """portrait.safetensors: phi and values of random tasks, for the report's maps."""

    phi: NDArray[np.float64]
    """[S, d]"""
    free: NDArray[np.bool_]
    """[height, width], False inside walls."""
    rewards: NDArray[np.float64]
    """[K, S], phi . w of K random tasks."""
    values: NDArray[np.float64]
    """[K, S], their GPI values."""

    def save(self, path: Path) -> None:
        """Write portrait.safetensors."""
        write_arrays(path, self)

    @classmethod
    def load(cls, path: Path, config: RunConfig) -> GridSnapshot:
        """Read portrait.safetensors of a run with that configuration."""
        remedy = "move it away and report again to do without its pictures"
        with reading(path), schema.refusing(f"{path} is damaged", remedy):
            return cls(**_checked(read_arrays(path), config))


def _checked(arrays: dict[str, NDArray], config: RunConfig) -> dict[str, NDArray]:
    """The arrays of a snapshot in the shapes that the configuration implies, or a ValueError."""
    grid = config.grid
    num_states, num_tasks = grid.height * grid.width, len(np.atleast_1d(arrays.get("rewards", ())))
    shapes = {
        "phi": (num_states, config.agent.num_features),
        "free": (grid.height, grid.width),
        "rewards": (num_tasks, num_states),
        "values": (num_tasks, num_states),
    }
    for name, shape in shapes.items():
        if name not in arrays:
            raise ValueError(f"{name} is missing")
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape} where the run has {shape}")
    kinds = {name: np.bool_ if name == "free" else np.float64 for name in shapes}
    return {name: arrays[name].astype(kinds[name]) for name in shapes}
