"""All that decides a fine-tuning: settings, the task, the tasks beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visr.config import FinetuneConfig, RunConfig
from visr.errors import UserError
from visr.storage.records.finetuning import REMEDY, FinetunePlan
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir

TASK = "task"
"""The name of the task within a fine-tuned run."""


@dataclass(frozen=True, eq=False)
class Plan:
    """All that decides a fine-tuning, as finetune.json holds it."""

    settings: FinetuneConfig
    task: Task
    saved: NDArray[np.float64]
    """[P, d], the tasks that GPI consults at first: w and the run's others."""

    def save(self, run: RunDir) -> None:
        """Into a new run, the task beside it."""
        FinetunePlan(self.settings, tuple(self.saved), self.task.name).save(run)
        self.task.save(run.task(TASK))

    @classmethod
    def load(cls, run: RunDir) -> Plan:
        """Of a fine-tuned run; what is damaged is a UserError."""
        record, task = FinetunePlan.load(run), Task.load(run.task(TASK))
        if any(len(w) != len(task.w) for w in record.saved):
            raise UserError(f"{run.finetune} is damaged (its saved tasks do not fit); {REMEDY}.")
        return cls(record.settings, task, np.stack(record.saved))


def is_alike(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """Whether two w are the same but for rounding."""
    return a.shape == b.shape and np.allclose(a, b, atol=1e-6)


def require_reward(config: RunConfig, task: Task) -> None:
    """On the grid the task itself must carry one, of this world."""
    if config.is_grid and task.reward is None:
        raise UserError(
            f"The task `{task.name}` carries no reward to learn from; infer it from one of the grid's own."
        )
    num_cells = config.grid.height * config.grid.width
    if config.is_grid and task.reward is not None and len(task.reward) != num_cells:
        raise UserError(
            f"The task `{task.name}` has a reward over {len(task.reward)} states and this world has "
            f"{num_cells}; infer it with this run."
        )
