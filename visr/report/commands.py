"""Command lines for the page: those that made the run, and useful next ones."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

from visr.config import SECTIONS, FinetuneConfig, RunConfig
from visr.report.read import RunData, SavedTask
from visr.storage.run_dir import RunDir

ENV_TASK = "env-regression"
"""The task that `infer --reward env` saves."""


def made(run: RunData) -> list[str]:
    """The commands that made the run, its tasks and scores, and this page."""
    lines = [pretrain(run)]
    if run.is_grid:
        for saved in run.tasks:
            lines.append(infer(run, saved))
            if saved.evaluation is not None:
                lines.append(evaluate(run, saved))
    elif run.two_phase is not None:
        lines.append(evaluate(run))
    elif run.tasks:
        lines.append(infer(run))
    return [*lines, shlex.join(["visr", "report", str(run.path)])]


def pretrain(run: RunData) -> str:
    """Train the same run again: the paper's preset and every field that differs from it."""
    if run.finetune_config is not None:
        return _finetune(run, run.finetune_config)
    words = ["visr", "pretrain", run.config.env, "--preset", "paper"]
    for name, (value, default) in fields(run.config).items():
        if value != default:
            words += _flag(name, value)
    return shlex.join([*words, *_cluster(run), "--out", str(run.path)])


def _finetune(run: RunData, config: FinetuneConfig) -> str:
    """Fine-tune again; RUN is the pre-trained run, whose path is not recorded."""
    words = ["visr", "finetune", "RUN", "--task", str(RunDir(run.path).task("task"))]
    for name, value in vars(config).items():
        if value != getattr(FinetuneConfig(), name):
            words += _flag(name, value)
    return shlex.join([*words, "--out", str(run.path)])


def resume(run: RunData) -> str:
    """Continue training."""
    verb = "pretrain" if run.finetune_config is None else "finetune"
    cluster = _cluster(run) if run.finetune_config is None else []
    return shlex.join(["visr", verb, "--resume", str(run.path), *cluster])


def _cluster(run: RunData) -> list[str]:
    """Cluster settings are accepted only with --cluster."""
    return ["--cluster", "local"] if run.config.cluster != RunConfig().cluster else []


def infer(run: RunData, saved: SavedTask | None = None) -> str:
    """Infer `saved` again, or an example; outside the grid only the environment's reward is possible."""
    reward = "boxes:7" if saved is None else saved.task.name
    reward = reward if run.is_grid else "env"
    return shlex.join(["visr", "infer", str(run.path), "--reward", reward])


def evaluate(run: RunData, saved: SavedTask | None = None) -> str:
    """Evaluate one task, or without a task the whole run."""
    return shlex.join(["visr", "evaluate", str(run.path), *([saved.stem] if saved else [])])


def play(run: RunData) -> str:
    """Record a video of an inferred task."""
    stems = [saved.stem for saved in run.tasks]
    task = ENV_TASK if ENV_TASK in stems or not stems else stems[0]
    return shlex.join(["visr", "play", str(run.path), "--task", task, "--video", "out.mp4"])


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
