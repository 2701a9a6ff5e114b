"""A run directory as plain dataclasses of numbers, trusting nothing in its files."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from visr.atari_games import Game, by_id
from visr.config import GRID, FinetuneConfig, RunConfig
from visr.errors import UserError
from visr.report import finetuning as tuning
from visr.report import phase_two
from visr.report.finetuning import Tuned
from visr.report.phase_two import Condition, PhaseTwo
from visr.storage import checksums
from visr.storage.files import read_json
from visr.storage.records import finetuning
from visr.storage.records.evaluation import Evaluation
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir, evaluation_of
from visr.storage.tables import whole_lines

log = logging.getLogger("visr")

NUM_ACTIONS = 4

Floats = NDArray[np.float64]
Columns = dict[str, Floats]
"""A CSV file by columns, `num_steps` among them; empty where there are no rows yet."""


@dataclass(frozen=True, eq=False)
class Portrait:
    """What phi and psi looked like at the run's last evaluation."""

    phi: Floats
    """[S, d]"""
    free: NDArray[np.bool_]
    """[height, width], False inside walls."""
    rewards: Floats
    """[K, S], phi . w of K random tasks."""
    values: Floats
    """[K, S], their GPI values."""


@dataclass(frozen=True, eq=False)
class SavedTask:
    """A task of the run, and its evaluation if there is one."""

    stem: str
    """Its name on disk, and so on the command line."""
    task: Task
    evaluation: Evaluation | None


@dataclass(frozen=True, eq=False)
class Record:
    """All that a report tells of a run."""

    path: Path
    config: RunConfig
    metrics: Columns
    timing: Columns
    online: Columns
    evaluation: Columns
    phase_two: PhaseTwo | None
    adapted: tuple[Condition, ...]
    """Other ways than the paper's to spend the rewarded steps."""
    portrait: Portrait | None
    tasks: tuple[SavedTask, ...]
    tuning: FinetuneConfig | None = None
    """How it was fine-tuned, if it was."""
    tuned: Tuned | None = None
    """And what that was worth."""

    @property
    def is_grid(self) -> bool:
        """Whether states are cells of a grid, so that maps and exact values exist."""
        return self.config.env == GRID

    @property
    def game(self) -> Game | None:
        """The Atari game it plays, if it is one with published scores."""
        return by_id(self.config.env)

    @property
    def num_steps(self) -> int:
        """The newest step any file tells of."""
        ends = [table["num_steps"][-1] for table in (self.metrics, self.evaluation) if table]
        return int(max(ends, default=0))

    @property
    def is_finished(self) -> bool:
        """Whether training reached the steps it was asked for."""
        return self.num_steps >= self.total_steps

    @property
    def total_steps(self) -> int:
        """Asked for: reward-free ones, or rewarded ones of a fine-tuning."""
        return self.config.training.num_steps if self.tuning is None else self.tuning.num_steps

    @property
    def fraction_of_optimal(self) -> dict[str, float]:
        """The newest row of exact evaluations."""
        return {k: float(v[-1]) for k, v in self.evaluation.items() if k != "num_steps"}

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """[height, width], False inside walls; only the portrait knows of walls."""
        if self.portrait is not None:
            return self.portrait.free
        return np.ones((self.config.grid.height, self.config.grid.width), dtype=np.bool_)


def record(path: Path) -> Record:
    """Everything there is of the run at `path`; what is damaged is a UserError."""
    run = RunDir.open(path)
    config = run.config()
    is_grid = config.env == GRID
    found = Record(
        path=path,
        config=config,
        metrics=columns(run.metrics),
        timing=columns(run.timing),
        online={} if is_grid else online(run.online),
        evaluation=columns(run.evaluation),
        phase_two=None if is_grid else phase_two.read(run.phase_two, config.env),
        adapted=() if is_grid else phase_two.read_adapted(run.adapted, config.env),
        portrait=_portrait(run.portrait, config) if run.portrait.exists() else None,
        tasks=tuple(_saved_task(file, config) for file in run.task_files()),
        tuning=finetuning.settings(run),
        tuned=tuning.read(run.finetuned) if run.is_finetuned else None,
    )
    _warn_of_changed_tables(run)  # after what cannot be read at all, which is one sentence
    return found


def _warn_of_changed_tables(run: RunDir) -> None:
    """Rows that still parse may have been changed: the newest checkpoint knows what they were."""
    for table in run.changed_tables(run.checkpoints()[-1]) if run.checkpoints() else ():
        log.warning("visr: %s is not as it was written: a row was changed or lost.", table)


def columns(path: Path) -> Columns:
    """A CSV file of numbers over steps."""
    header, *rows = whole_lines(path) or [""]
    if not rows:
        return {}
    names = header.rstrip("\r\n").split(",")
    try:
        table = np.loadtxt(rows, delimiter=",", comments=None, ndmin=2)
    except ValueError:
        table = np.zeros((0, 0))
    if table.shape[1] != len(names):
        raise UserError(
            f"{path} is damaged: a row does not fit its header; restore it, or move it away."
        )
    found = dict(zip(names, table.T, strict=True))
    steps = found.get("num_steps", np.array([math.nan]))
    if not (np.isfinite(steps).all() and (steps >= 0).all()):
        raise UserError(f"{path} is damaged: its column num_steps is missing or not a count.")
    # a run that diverged writes infinities; no axis can show them
    return {name: np.where(np.isfinite(column), column, np.nan) for name, column in found.items()}


def online(path: Path) -> Columns:
    """The scores over training, as online.csv tells them."""
    rows = columns(path)
    if rows and not {"num_episodes", "mean_return"} <= rows.keys():
        raise UserError(f"{path} is damaged: it has no column num_episodes or none mean_return.")
    if rows and not (rows["num_episodes"] >= 0).all():
        raise UserError(f"{path} is damaged: its column num_episodes is not a count.")
    largest = phase_two.LARGEST  # sums of products of more overflow
    for name in ("num_episodes", "mean_return") if rows else ():
        if (np.nan_to_num(np.abs(rows[name])) > largest).any():
            raise UserError(f"{path} is damaged: its column {name} exceeds {largest:.0e}.")
    return rows


def _portrait(path: Path, config: RunConfig) -> Portrait:
    try:
        checksums.check(path)
        return _checked_portrait(safetensors.numpy.load(path.read_bytes()), config)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror or error}.") from None
    except (SafetensorError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"{path} is damaged ({error}); move it away and report again to do without its pictures."
        ) from None


def _checked_portrait(arrays: dict[str, NDArray[Any]], config: RunConfig) -> Portrait:
    grid, d = config.grid, config.agent.num_features
    num_states, num_tasks = grid.height * grid.width, len(np.atleast_1d(arrays["rewards"]))
    shapes = {
        "phi": (num_states, d),
        "free": (grid.height, grid.width),
        "rewards": (num_tasks, num_states),
        "values": (num_tasks, num_states),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape} where the run has {shape}")
    return Portrait(
        phi=arrays["phi"].astype(np.float64),
        free=arrays["free"].astype(np.bool_),
        rewards=arrays["rewards"].astype(np.float64),
        values=arrays["values"].astype(np.float64),
    )


def _saved_task(path: Path, config: RunConfig) -> SavedTask:
    task = Task.load(path)
    if task.reward is not None and len(task.reward) != config.grid.height * config.grid.width:
        raise UserError(
            f"{path} has a reward over {len(task.reward)} states and the run's grid has "
            f"{config.grid.height} x {config.grid.width}; infer it with this run, or move it away."
        )
    file = evaluation_of(path)
    is_exact = config.env == GRID and file.exists()  # elsewhere nothing has an exact value
    return SavedTask(path.stem, task, _evaluation(file, task) if is_exact else None)


def _evaluation(path: Path, task: Task) -> Evaluation:
    content = read_json(path)
    try:
        if task.reward is None:
            raise ValueError("its task carries no reward")
        num_states = len(task.reward)
        policy = _states(content, "policy", num_states)
        if not np.isin(policy, np.arange(NUM_ACTIONS)).all():
            raise ValueError(f"policy holds something other than actions 0 to {NUM_ACTIONS - 1}")
        return Evaluation(
            task=task.name,
            fraction_of_optimal=_number(content, "fraction_of_optimal"),
            value=_number(content, "value"),
            value_random=_number(content, "value_random"),
            value_optimal=_number(content, "value_optimal"),
            gamma=_number(content, "gamma"),
            gpi=bool(content["gpi"]),
            policy=policy.astype(np.int64),
            values=_states(content, "values", num_states),
            represented_reward=_states(content, "represented_reward", num_states),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"{path} is not an evaluation ({error}); `visr evaluate` makes it anew."
        ) from None


def _number(content: Any, name: str) -> float:
    number = float(content[name])
    if not math.isfinite(number):
        raise ValueError(f"{name} is not a finite number")
    return number


def _states(content: Any, name: str, num_states: int) -> Floats:
    values = np.asarray(content[name], dtype=np.float64)
    if values.shape != (num_states,) or not np.isfinite(values).all():
        raise ValueError(f"{name} is not a list of {num_states} finite numbers")
    return values
