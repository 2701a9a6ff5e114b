"""visr infer: a reward becomes a task."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro

from visr import config as configuration
from visr.commands import options, output, trials
from visr.errors import UserError
from visr.run_dir import RunDir, evaluation_of
from visr.tasks.task import Task

if TYPE_CHECKING:
    from visr.api import Run


@dataclass(frozen=True)
class Options:
    """Find the w whose phi . w comes nearest to a reward; no weight changes."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Directory of a pre-trained run."""
    reward: str
    """env (the environment's own); on the grid boxes[:SEED], goal:ROW,COL, FILE.npy, FILE.csv, "row > 5"."""
    name: str | None = None
    """Name of the task in the run; by default made from the reward."""
    out: str | None = None
    """Write the task here instead of into the run."""
    centred: bool | None = None
    """Take the means out of phi and reward first; by default as the run was configured."""
    ridge: float | None = None
    """Ridge penalty, relative to phi's second moments; by default as the run was configured."""
    clip_rewards: bool | None = None
    """With `env`: fit rewards clipped to [-1, 1]; by default as the run was configured."""
    episodes: int | None = None
    """With `env`: episodes with rewards at most; by default 50, the paper's."""
    steps: int | None = None
    """With `env`: steps with rewards at most; by default 100,000, the paper's."""
    seed: int | None = None
    """With `env`: decides the episodes' beginnings and all random draws; by default 0."""
    device: str = "auto"
    """Where the networks live."""
    json: bool = False
    """Print the task as one JSON object."""


def run(args: list[str]) -> int:
    """Infer, save, and say how far to trust it."""
    chosen = options.parse(Options, args, "infer")
    from visr import api

    loaded = api.load(chosen.run, device=chosen.device)
    names = ("centred", "ridge", "clip_rewards")
    fields = {name: getattr(chosen, name) for name in names}
    fields = {name: value for name, value in fields.items() if value is not None}
    if chosen.reward == api.ENV_REWARD:
        task = _from_environment(loaded, chosen, fields)
    else:
        _refuse_without_environment(chosen)
        task = loaded.infer(chosen.reward, **fields)
    path = (
        Path(chosen.out) if chosen.out is not None else _place(task, chosen.name, loaded.directory)
    )
    task.save(path)
    evaluation_of(path).unlink(missing_ok=True)  # it spoke of the task that was here before
    if chosen.json:
        output.emit({**task.to_dict(), "file": str(path)})
    else:
        _show(task, path, loaded.directory)
    return 0


def _from_environment(loaded: Run, chosen: Options, fields: dict[str, Any]) -> Task:
    """Meet the environment's rewards; the task is what regression makes of them."""
    from visr.tasks import protocol

    given = trials.counts(num_episodes=chosen.episodes, num_steps=chosen.steps, seed=chosen.seed)
    config = configuration.replace(loaded.config, **fields)
    if not chosen.json:
        output.say("meeting the environment's rewards ...")
    return protocol.by_regression(loaded.meet_rewards(**given), config)


def _refuse_without_environment(chosen: Options) -> None:
    for name in ("clip_rewards", "episodes", "steps", "seed"):
        if getattr(chosen, name) is not None:
            raise UserError(
                f"--{name.replace('_', '-')} belongs to --reward env; a reward over cells needs no episodes."
            )


def _place(task: Task, name: str | None, run: RunDir) -> Path:
    """The name asked for, or one made from the reward that no other reward's task has taken."""
    if name is not None:
        return run.task(slug(name))  # the user chose it, and may choose to replace
    stem = slug(task.name)
    numbered = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    return next(path for path in map(run.task, numbered) if _is_free(path, task))


def _is_free(path: Path, task: Task) -> bool:
    """Whether nothing is there, or an earlier task for the same reward."""
    if not path.exists():
        return True
    try:
        return Task.load(path).name == task.name
    except UserError:
        return False


def slug(text: str) -> str:
    """A file name made of a reward's words."""
    words = Path(text).stem if text.lower().endswith((".npy", ".csv")) else text
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60] or "task"


def _show(task: Task, path: Path, run: RunDir) -> None:
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
    output.say(
        f"Next: visr evaluate {run.path} {path.stem if path == run.task(path.stem) else path}"
    )


def verdict(task: Task) -> str:
    """How much of the reward the features carry, in words; what the policy is worth, evaluation says."""
    if not np.isfinite(task.standard_error).all():
        return "There are too few states for so many features to say how good this fit is."
    if task.r_squared >= 0.8:
        return "The features express this reward well."
    if task.r_squared >= 0.4:
        return "The features express the broad shape of this reward."
    if task.r_squared < 0:
        return (
            "The fit is worse than a constant: the reward may have an offset that unit features cannot "
            "express (try --centred True), or need more features (--num-features)."
        )
    return "The features express little of this reward; more of them (--num-features) express more."


def _numbers(x: np.ndarray, most: int = 8) -> str:
    shown = " ".join(f"{v:+.3f}" for v in x[:most])
    return shown if len(x) <= most else f"{shown} ... ({len(x)} in all)"
