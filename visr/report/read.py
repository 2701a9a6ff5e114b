"""Read everything that the report shows of a run; no file is trusted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visr import terminal
from visr.atari_games import Game, by_id
from visr.config import FinetuneConfig, RunConfig
from visr.errors import UserError
from visr.storage.records import finetuning
from visr.storage.records.episodes import EpisodeEvaluation
from visr.storage.records.finetuning import FinetuneResult
from visr.storage.records.grid import Evaluation, GridSnapshot
from visr.storage.records.imagined import Imagined
from visr.storage.records.library import Library, PractisedTask
from visr.storage.records.task import Task
from visr.storage.records.two_phase import LARGEST_SCORE, Adapted, AdaptedCondition, TwoPhase
from visr.storage.run_dir import RunDir, evaluation_of
from visr.storage.tables import read_rows

log = terminal.logger()

_KINDS = {
    "env": "the environment's own reward",
    "expression": "the reward {}",
    "cells": "a reward over cells",
    "function": "the Python function {}",
    "dataset": "the rewards of {}",
    "goal": "the goal {}",
    "demonstration": "a demonstration ({})",
    "preferences": "{}",
    "marks": "{}, marked",
}
"""Words for a task's prompt, of which {} is the text."""
Floats = NDArray[np.float64]
Columns = dict[str, Floats]
"""A CSV file by columns, `num_steps` among them; empty if it has no rows."""


@dataclass(frozen=True, eq=False)
class SavedTask:
    """A task of the run, and its evaluation if there is one."""

    stem: str
    """Its file name without `.json`, which is its name on the command line."""
    task: Task
    evaluation: Evaluation | None
    """Exact values, on the grid."""
    episodes: EpisodeEvaluation | None = None
    """Returns of whole episodes, elsewhere."""
    label: str = ""
    """What the page calls it, if not by the task's name."""

    @property
    def name(self) -> str:
        """What the page calls it."""
        return self.label or self.task.name

    @property
    def is_evaluated(self) -> bool:
        """Whether `visr evaluate` measured it."""
        return self.evaluation is not None or self.episodes is not None

    @property
    def asked_as(self) -> str:
        """How the task was described; without a prompt, how w was found."""
        prompt = self.task.prompt
        return (
            self.task.method
            if prompt is None
            else _KINDS[prompt.kind].format(prompt.text.removeprefix("goal "))
        )


@dataclass(frozen=True, eq=False)
class RunData:
    """The contents of a run directory."""

    path: Path
    config: RunConfig
    metrics: Columns
    timing: Columns
    online: Columns
    evaluation: Columns
    two_phase: TwoPhase | None
    adapted: tuple[AdaptedCondition, ...]
    """Scores of other uses of the rewarded steps than the paper's."""
    snapshot: GridSnapshot | None
    tasks: tuple[SavedTask, ...]
    library: Library | None
    """What the replay learner practised."""
    imagined: Imagined | None
    """What SimPLe's model predicts, beside what happened."""
    finetune_config: FinetuneConfig | None
    """None unless the run was fine-tuned."""
    finetuned: FinetuneResult | None

    @property
    def game(self) -> Game | None:
        """The Atari game with published scores, if the run plays one."""
        return by_id(self.config.env)

    @property
    def num_steps(self) -> int:
        """The newest step in any table."""
        ends = [table["num_steps"][-1] for table in (self.metrics, self.evaluation) if table]
        return int(max(ends, default=0))

    @property
    def total_steps(self) -> int:
        """Steps asked for: of fine-tuning if the run was fine-tuned, else of pre-training."""
        return (self.finetune_config or self.config.training).num_steps

    @property
    def is_finished(self) -> bool:
        """Whether training reached the steps asked for."""
        return self.num_steps >= self.total_steps

    @property
    def fraction_of_optimal(self) -> dict[str, float]:
        """The newest row of exact evaluations."""
        return {k: float(v[-1]) for k, v in self.evaluation.items() if k != "num_steps"}

    @property
    def practised(self) -> list[PractisedTask]:
        """The library, the largest lift first, then what was reached least."""
        tasks = () if self.library is None else self.library.tasks
        return sorted(tasks, key=lambda task: (-(task.lift or 0), task.reached))

    @property
    def free(self) -> NDArray[np.bool_]:
        """[height, width], False inside walls; all True without a snapshot."""
        if self.snapshot is not None:
            return self.snapshot.free
        return np.ones((self.config.grid.height, self.config.grid.width), dtype=np.bool_)


def run_data(path: Path) -> RunData:
    """Read the run at `path`; a damaged file is a UserError."""
    run = RunDir.open(path, allow_retired=True)
    config, snapshot = run.config(), run.grid_snapshot
    is_grid = config.is_grid
    data = RunData(
        path=path,
        config=config,
        metrics=columns(run.metrics),
        timing=columns(run.timing),
        online={} if is_grid else online(run.online),
        evaluation=columns(run.evaluation),
        two_phase=None if is_grid else two_phase(run, config.env),
        adapted=() if is_grid else adapted(run, config.env),
        snapshot=GridSnapshot.load(snapshot, config) if snapshot.exists() else None,
        tasks=_saved_tasks(run, config),
        library=Library.load(run.library) if run.library.exists() else None,
        imagined=Imagined.load(run.imagined) if run.imagined.exists() else None,
        finetune_config=finetuning.settings(run),
        finetuned=FinetuneResult.load(run) if run.is_finetuned else None,
    )
    for table in run.changed_tables(run.checkpoints()[-1]) if run.checkpoints() else ():
        log.warning("visr: %s is not as it was written: a row was changed or lost.", table)
    return data


def two_phase(run: RunDir, env: str) -> TwoPhase | None:
    """phase_two.json, if there is one."""
    return TwoPhase.load(run.phase_two, env) if run.phase_two.exists() else None


def adapted(run: RunDir, env: str) -> tuple[AdaptedCondition, ...]:
    """The conditions of adapted.json, if there is one."""
    return Adapted.load(run.adapted, env).conditions if run.adapted.exists() else ()


def columns(path: Path) -> Columns:
    """A CSV file of numbers over steps."""
    rows = read_rows(path)
    found = {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    steps = found.get("num_steps", np.array([np.nan] if rows else []))
    if not (np.isfinite(steps) & (steps >= 0)).all():
        raise UserError(f"{path} is damaged: its column num_steps is missing or not a count.")
    # a run that diverged writes infinities, which no axis can show
    return {name: np.where(np.isfinite(column), column, np.nan) for name, column in found.items()}


def online(path: Path) -> Columns:
    """online.csv: scores of the rewarded environments during training."""
    rows = columns(path)
    for name in ("num_episodes", "mean_return") if rows else ():
        if name not in rows:
            raise UserError(f"{path} is damaged: the column {name} is missing.")
        if (np.nan_to_num(np.abs(rows[name])) > LARGEST_SCORE).any():
            raise UserError(f"{path} is damaged: its column {name} exceeds {LARGEST_SCORE:.0e}.")
    if rows and not (rows["num_episodes"] >= 0).all():
        raise UserError(f"{path} is damaged: its column num_episodes is not a count.")
    return rows


def _saved_tasks(run: RunDir, config: RunConfig) -> tuple[SavedTask, ...]:
    """The tasks of a run, the evaluated ones first; to equal names the name of the file is added."""
    found = [_saved_task(file, config) for file in run.task_files()]
    count = Counter(saved.task.name for saved in found)
    found.sort(key=lambda saved: not saved.is_evaluated)
    return tuple(
        replace(saved, label=f"{saved.task.name} ({saved.stem})")
        if count[saved.task.name] > 1
        else saved
        for saved in found
    )


def _saved_task(path: Path, config: RunConfig) -> SavedTask:
    task, file = Task.load(path), evaluation_of(path)
    num_states = config.grid.height * config.grid.width
    if task.reward is not None and len(task.reward) != num_states:
        raise UserError(
            f"{path} has a reward over {len(task.reward)} states and the run's grid has "
            f"{config.grid.height} x {config.grid.width}; infer it with this run, or move it away."
        )
    if not file.exists():
        return SavedTask(path.stem, task, None)
    if not config.is_grid:
        return SavedTask(path.stem, task, None, EpisodeEvaluation.load(file))
    return SavedTask(path.stem, task, Evaluation.load(file, num_states))
