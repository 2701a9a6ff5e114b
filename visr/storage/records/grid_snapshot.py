"""portrait.safetensors: phi and values of random tasks on a grid world, for the report's maps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from visr.config import RunConfig
from visr.storage import checksums, schema
from visr.storage.files import reading, write_tensors

NUM_TASKS, NUM_POLICIES = 49, 10
"""Random tasks of a snapshot, and random policies behind their GPI values."""


@dataclass(frozen=True, eq=False)
class GridSnapshot:
    """The arrays behind the paper's three figures of the grid world."""

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
        arrays = {name: np.ascontiguousarray(array) for name, array in vars(self).items()}
        write_tensors(path, safetensors.numpy.save(arrays))

    @classmethod
    def load(cls, path: Path, config: RunConfig) -> GridSnapshot:
        """Read portrait.safetensors of a run with that configuration."""
        remedy = "move it away and report again to do without its pictures"
        with reading(path), schema.refusing(f"{path} is damaged", remedy):
            checksums.check(path)
            try:
                arrays = safetensors.numpy.load(path.read_bytes())
            except safetensors.SafetensorError as error:
                raise ValueError(str(error)) from None
            return cls(**_checked(arrays, config))


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
