"""Command lines for the page: those that made the run, and useful next ones."""

from __future__ import annotations

import shlex

from visr.config import FinetuneConfig, RunConfig, all_flags, flags
from visr.report.read import RunData, SavedTask
from visr.storage.run_dir import RunDir

ENV_TASK = "env-regression"
"""The task that `infer --reward env` saves."""
_OF_PHASE_TWO = (ENV_TASK, "env-search")
"""Tasks that `visr evaluate RUN` saves."""


def made(run: RunData) -> list[str]:
    """The commands that made the run, its tasks and scores, and this page."""
    lines = [pretrain(run)]
    if run.two_phase is not None:
        lines.append(evaluate(run))
    for saved in run.tasks:
        if run.two_phase is None or saved.stem not in _OF_PHASE_TWO:
            lines += [infer(run, saved)] if _flag(run, saved) else []
            lines += [evaluate(run, saved)] if saved.is_evaluated else []
    return [*lines, shlex.join(["visr", "report", str(run.path)])]


def pretrain(run: RunData) -> str:
    """Train the same run again: the paper's preset and every field that differs from it."""
    if run.finetune_config is None:
        words = ["pretrain", run.config.env, "--preset", "paper"]
        words += [*all_flags(run.config, RunConfig()), *_cluster(run)]
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
    """Infer `saved` again, or an example."""
    example = ["--reward", "boxes:7" if run.config.is_grid else "env"]
    words = example if saved is None else _flag(run, saved)
    return shlex.join(["visr", "infer", str(run.path), *words])


def _flag(run: RunData, saved: SavedTask) -> list[str]:
    """The prompt of a task as a flag; none for what its file does not contain, such as trajectories."""
    prompt = saved.task.prompt
    if prompt is None and not run.config.is_grid:  # a file of an older version
        return ["--reward", "env"] if saved.task.name in ("env", *_OF_PHASE_TWO) else []
    if prompt is None or prompt.kind == "cells":
        is_text = saved.task.reward is not None and (prompt is None or prompt.text != "array")
        return ["--reward", saved.task.name] if is_text else []
    if prompt.kind in ("env", "expression"):
        return ["--reward", "env" if prompt.kind == "env" else prompt.text]
    if prompt.kind == "goal" and ("=" in prompt.text or run.config.is_grid):
        return ["--goal", prompt.text.removeprefix("goal ")]
    return []


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
