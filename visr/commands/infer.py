"""visr infer: a reward becomes a task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro

from visr.commands import infer_compare, options, output
from visr.storage import task_store
from visr.storage.records.task import Task

if TYPE_CHECKING:
    from visr.api import Run


@dataclass(frozen=True)
class Options:
    """Find the w whose phi . w comes nearest to a reward; no weight changes."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Directory of a pre-trained run."""
    reward: str
    """env (its own), FILE.npz, "angle < 0.1"; on the grid boxes:SEED, goal:ROW,COL, FILE.npy, FILE.csv."""
    method: str = "best"
    """Whose w becomes the task: least squares, ridge, centred, centred ridge, whitened, random search,
    smoothed search (of whole episodes; both with `env`), or best."""
    evaluate: bool = False
    """Play episodes with every method's w, and say what they scored."""
    trials: int | None = None
    """With --evaluate: episodes for each method; by default 30, the paper's."""
    name: str | None = None
    """Name of the task in the run; by default made from the reward."""
    out: str | None = None
    """Write the task here instead of into the run."""
    centred: bool | None = None
    """Take the means out of phi and reward first; by default as the run was configured."""
    ridge: float | None = None
    """Ridge penalty, relative to phi's second moments; by default as the run was configured."""
    whitened: bool | None = None
    """Make phi's features uncorrelated and alike in size first; by default as the run was configured."""
    clip_rewards: bool | None = None
    """With `env`: fit rewards clipped to [-1, 1]; by default as the run was configured."""
    episodes: int | None = None
    """With `env`: episodes with rewards at most; by default 50, the paper's."""
    steps: int | None = None
    """With `env`: steps with rewards, to within the ten games that play at once; by default 100,000."""
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
    from visr.inference import dataset

    loaded = api.load(chosen.run, device=chosen.device)
    if loaded.world is None or dataset.is_general(chosen.reward):
        return _by_comparison(loaded, chosen)
    options.refuse(
        chosen,
        ("method",),
        "is for rewards of steps; for one of cells there are --centred, --ridge and --whitened",
    )
    options.refuse(
        chosen, _GENERAL, "belongs to --reward env and other rewards of steps, not of cells"
    )
    fields = {"centred": chosen.centred, "ridge": chosen.ridge, "whitened": chosen.whitened}
    task = loaded.infer(chosen.reward, **{k: v for k, v in fields.items() if v is not None})
    path = _save(loaded, task, chosen)
    if chosen.json:
        output.emit({**task.to_dict(), "file": str(path)})
    else:
        _show(loaded, task, path)
    return 0


_GENERAL = ("clip_rewards", "episodes", "steps", "seed", "evaluate", "trials")


def _by_comparison(loaded: Run, chosen: Options) -> int:
    options.refuse(
        chosen,
        ("centred", "ridge", "whitened"),
        "is for rewards of cells; elsewhere --method names a method",
    )
    if chosen.reward != "env":
        options.refuse(chosen, _GENERAL[:-1], "belongs to --reward env")
    task, compared, played = infer_compare.infer(loaded, chosen)
    path = _save(loaded, task, chosen)
    if chosen.json:
        details = infer_compare.to_dict(compared, played)
        output.emit({**task.to_dict(), **details, "file": str(path)})
    else:
        infer_compare.show(loaded, task, compared, played, path)
    return 0


def _save(loaded: Run, task: Task, chosen: Options) -> Path:
    given = chosen.out
    path = task_store.place(loaded.directory, task, chosen.name) if given is None else Path(given)
    return task_store.keep(task, path)


def _show(loaded: Run, task: Task, path: Path) -> None:
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
    output.say(infer_compare.next_step(loaded, path))


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
