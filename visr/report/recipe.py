"""The commands that made a run, and those that make what it lacks."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

from visr.config import SECTIONS, RunConfig
from visr.report.load import Record, SavedTask


def pretrain(record: Record) -> str:
    """The command that trains this run anew: the paper's numbers, and every field that differs."""
    words = ["visr", "pretrain", record.config.env, "--preset", "paper"]
    for name, (value, default) in fields(record.config).items():
        if value != default:
            words += _flag(name, value)
    return shlex.join([*words, "--out", str(record.path)])


def resume(record: Record) -> str:
    """Go on with training."""
    return shlex.join(["visr", "pretrain", "--resume", str(record.path)])


def infer(record: Record, saved: SavedTask | None = None) -> str:
    """Turn a reward into a task: the one that made `saved`, or an example."""
    reward = "boxes:7" if saved is None else saved.task.name
    return shlex.join(["visr", "infer", str(record.path), "--reward", reward])


def evaluate(record: Record, saved: SavedTask) -> str:
    """Judge a task's policy exactly."""
    return shlex.join(["visr", "evaluate", str(record.path), saved.stem])


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
