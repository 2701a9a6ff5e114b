"""visr infer: a reward becomes a task."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from visr.commands import options, output
from visr.run_dir import evaluation_of
from visr.tasks.task import Task


@dataclass(frozen=True)
class Options:
    """Find the w whose phi . w comes nearest to a reward; no weight changes."""

    run: Annotated[str, tyro.conf.Positional]
    """Directory of a pre-trained run."""
    reward: str
    """boxes[:SEED] | goal:ROW,COL | FILE.npy | FILE.csv | an expression over row and col, as "row > 5"."""
    name: str | None = None
    """Name of the task in the run; by default made from the reward."""
    out: str | None = None
    """Write the task here instead of into the run."""
    centred: bool | None = None
    """Take the means out of phi and reward first; by default as the run was configured."""
    ridge: float | None = None
    """Ridge penalty, relative to phi's second moments; by default as the run was configured."""
    json: bool = False
    """Print the task as one JSON object."""


def run(args: list[str]) -> int:
    """Infer, save, and say how far to trust it."""
    chosen = options.parse(Options, args, "infer")
    from visr import api

    fields = {"centred": chosen.centred, "ridge": chosen.ridge}
    loaded = api.load(chosen.run)
    task = loaded.infer(chosen.reward, **{k: v for k, v in fields.items() if v is not None})
    name = slug(chosen.name or task.name)
    path = Path(chosen.out) if chosen.out else loaded.directory.task(name)
    task.save(path)
    evaluation_of(path).unlink(missing_ok=True)  # it spoke of the task that was here before
    if chosen.json:
        output.emit({**task.to_dict(), "file": str(path)})
    else:
        _show(task, path, loaded.path)
    return 0


def slug(text: str) -> str:
    """A file name made of a reward's words."""
    return (
        re.sub(r"[^a-z0-9]+", "-", Path(text).stem.lower() if "/" in text else text.lower()).strip(
            "-"
        )[:60]
        or "task"
    )


def _show(task: Task, path: Path, run_path: Path) -> None:
    rows = [
        ("method", task.method),
        ("R^2", f"{task.r_squared:.3f}"),
        ("condition number", f"{task.condition_number:.3g}"),
        ("states", f"{task.num_steps}"),
        ("rewarded states", f"{task.num_rewarded}"),
        ("w", _numbers(task.w)),
        ("standard error", _numbers(task.standard_error)),
        ("task", str(path)),
    ]
    output.table(f"task: {task.name}", rows)
    output.say(verdict(task))
    output.say(f"Next: visr evaluate {run_path} {path.stem}")


def verdict(task: Task) -> str:
    """How far to trust the task, in words."""
    if task.r_squared >= 0.8:
        return "The features express this reward well."
    if task.r_squared >= 0.4:
        return "The features express the broad shape of this reward; expect a good policy, not a perfect one."
    return (
        "The features express little of this reward; the policy may miss it. "
        "More features (--num-features) widen what can be expressed."
    )


def _numbers(x: np.ndarray, most: int = 8) -> str:
    shown = " ".join(f"{v:+.3f}" for v in x[:most])
    return shown if len(x) <= most else f"{shown} ... ({len(x)} in all)"
