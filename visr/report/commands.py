"""Command lines for the page: those that made the run, and useful next ones."""

from __future__ import annotations

import shlex

from visr.config import SECTIONS, FinetuneConfig, RunConfig, flags
from visr.report.read import RunData, SavedTask
from visr.storage.run_dir import RunDir

ENV_TASK = "env-regression"
"""The task that `infer --reward env` saves."""


def made(run: RunData) -> list[str]:
    """The commands that made the run, its tasks and scores, and this page."""
    lines = [pretrain(run)]
    if run.config.is_grid:
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
    if run.finetune_config is None:
        words = ["pretrain", run.config.env, "--preset", "paper"]
        for section in SECTIONS:
            words += flags(getattr(run.config, section), getattr(RunConfig(), section))
        words += _cluster(run)
    else:  # RUN is the pre-trained run, whose path is not recorded
        words = ["finetune", "RUN", "--task", str(RunDir(run.path).task("task"))]
        words += flags(run.finetune_config, FinetuneConfig())
    return shlex.join(["visr", *words, "--out", str(run.path)])


def resume(run: RunData) -> str:
    """Continue training."""
    is_tuned = run.finetune_config is not None
    words = ["finetune" if is_tuned else "pretrain", "--resume", str(run.path)]
    return shlex.join(["visr", *words, *([] if is_tuned else _cluster(run))])


def infer(run: RunData, saved: SavedTask | None = None) -> str:
    """Infer `saved` again, or an example; outside the grid only the environment's reward is possible."""
    reward = "boxes:7" if saved is None else saved.task.name
    reward = reward if run.config.is_grid else "env"
    return shlex.join(["visr", "infer", str(run.path), "--reward", reward])


def evaluate(run: RunData, saved: SavedTask | None = None) -> str:
    """Evaluate one task, or without a task the whole run."""
    return shlex.join(["visr", "evaluate", str(run.path), *([saved.stem] if saved else [])])


def play(run: RunData) -> str:
    """Record a video of an inferred task."""
    stems = [saved.stem for saved in run.tasks]
    task = ENV_TASK if ENV_TASK in stems or not stems else stems[0]
    return shlex.join(["visr", "play", str(run.path), "--task", task, "--video", "out.mp4"])


def _cluster(run: RunData) -> list[str]:
    """Cluster settings are accepted only with --cluster."""
    return ["--cluster", "local"] if run.config.cluster != RunConfig().cluster else []
