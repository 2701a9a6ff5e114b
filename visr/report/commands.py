"""The commands that made a run, and those that make what it lacks."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

from visr.config import SECTIONS, FinetuneConfig, RunConfig
from visr.report.read import Record, SavedTask
from visr.storage.run_dir import RunDir

ENV_TASK = "env-regression"
"""The task that `infer --reward env` leaves in a run."""


def pretrain(record: Record) -> str:
    """The command that trains this run anew: the paper's numbers, and every field that differs."""
    if record.tuning is not None:
        return _finetune(record, record.tuning)
    words = ["visr", "pretrain", record.config.env, "--preset", "paper"]
    for name, (value, default) in fields(record.config).items():
        if value != default:
            words += _flag(name, value)
    return shlex.join([*words, *_where(record), "--out", str(record.path)])


def resume(record: Record) -> str:
    """Go on with training."""
    if record.tuning is not None:
        return shlex.join(["visr", "finetune", "--resume", str(record.path)])
    return shlex.join(["visr", "pretrain", "--resume", str(record.path), *_where(record)])


def _finetune(record: Record, tuning: FinetuneConfig) -> str:
    """The same of a fine-tuned run, which knows its task and no longer where it came from."""
    words = ["visr", "finetune", "RUN", "--task", str(RunDir(record.path).task("task"))]
    for name, value in vars(tuning).items():
        if value != getattr(FinetuneConfig(), name):
            words += _flag(name, value)
    return shlex.join([*words, "--out", str(record.path)])


def _where(record: Record) -> list[str]:
    """Settings of a cluster want one."""
    return ["--cluster", "local"] if record.config.cluster != RunConfig().cluster else []


def infer(record: Record, saved: SavedTask | None = None) -> str:
    """Turn a reward into a task: the one that made `saved`, or an example."""
    reward = "boxes:7" if saved is None else saved.task.name
    if not record.is_grid:
        reward = "env"  # its own: no other is known of any state
    return shlex.join(["visr", "infer", str(record.path), "--reward", reward])


def evaluate(record: Record, saved: SavedTask | None = None) -> str:
    """Judge a task's policy exactly; without a task, the run as a whole."""
    task = [] if saved is None else [saved.stem]
    return shlex.join(["visr", "evaluate", str(record.path), *task])


def play(record: Record) -> str:
    """Film an inferred task."""
    stems = [saved.stem for saved in record.tasks]
    task = ENV_TASK if ENV_TASK in stems or not stems else stems[0]
    return shlex.join(["visr", "play", str(record.path), "--task", task, "--video", "out.mp4"])


def report(record: Record) -> str:
    """Draw this page again."""
    return shlex.join(["visr", "report", str(record.path)])


def fields(config: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Every field but the environment: its value, and the paper's."""
    pairs: dict[str, tuple[Any, Any]] = {}
    for section in SECTIONS:
        chosen, default = getattr(config, section), getattr(RunConfig(), section)
        for field in dataclasses.fields(chosen):
            pairs[field.name] = (getattr(chosen, field.name), getattr(default, field.name))
    return pairs


def _flag(name: str, value: Any) -> list[str]:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    values = value if isinstance(value, tuple) else (value,)
    return [f"--{flag}", *map(str, values)]
