"""visr infer: turn a reward into a task w."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from visr.commands import options, output
from visr.errors import UserError
from visr.storage.records.task import Task, new_path
from visr.storage.run_dir import slug

if TYPE_CHECKING:
    from visr.api import Run

_CELLS = ("centred", "ridge", "whitened")
_ENV = ("clip_rewards", "episodes", "steps", "seed", "evaluate")


@dataclass(frozen=True)
class Options:
    """Find the w for which phi . w is closest to a reward; no weight changes."""

    run: options.Run
    reward: str
    """env (the environment's own), FILE.npz, "angle < 0.1"; on the grid also boxes:SEED, goal:ROW,COL,
    FILE.npy, FILE.csv."""
    method: str = "best"
    """Which w becomes the task: least squares, ridge, centred, centred ridge, whitened, random search,
    smoothed search (searches need `env`), or best."""
    evaluate: bool = False
    """With `env`: play episodes with the w of every method."""
    trials: int | None = None
    """With --evaluate: episodes of each method; by default 30, as in the paper."""
    name: str | None = None
    """Name of the task in the run; by default made from the reward."""
    out: str | None = None
    """Write the task to this file instead of into the run."""
    centred: bool | None = None
    """Grid: subtract the means of phi and of the reward; by default as the run was configured."""
    ridge: float | None = None
    """Grid: ridge penalty, relative to phi's second moments; by default as the run was configured."""
    whitened: bool | None = None
    """Grid: decorrelate and scale the features first; by default as the run was configured."""
    clip_rewards: bool | None = None
    """With `env`: fit rewards clipped to [-1, 1]; by default as the run was configured."""
    episodes: int | None = None
    """With `env`: largest number of episodes with rewards; by default 50, as in the paper."""
    steps: int | None = None
    """With `env`: largest number of steps with rewards, counted in ten games at once; by default 100,000."""
    seed: int | None = None
    """With `env`: random seed; by default 0."""
    device: options.Device = "auto"
    json: bool = False
    """Print the task as one JSON object."""


def run(args: list[str]) -> int:
    """Infer the task, save it, and say how well it explains the reward."""
    chosen = options.parse(Options, args, "infer")
    options.check_range(chosen, ("trials", "episodes", "steps"), 1)
    options.check_range(chosen, ("seed",), 0)
    from visr import api
    from visr.inference import prompts

    loaded = api.load(chosen.run, device=chosen.device)
    if loaded.world is None or prompts.is_of_steps(chosen.reward):
        _infer_from_steps(loaded, chosen)
    else:
        _infer_from_cells(loaded, chosen)
    return 0


def _save(loaded: Run, task: Task, chosen: Options) -> Path:
    run = loaded.directory
    if chosen.out is not None:
        path = Path(chosen.out)
    else:
        path = new_path(run, task) if chosen.name is None else run.task(slug(chosen.name))
    task.save(path)
    return path


def _next(loaded: Run, path: Path) -> str:
    name = path.stem if path == loaded.directory.task(path.stem) else path
    return f"Next: visr evaluate {loaded.address} {name}"


# -------------------------------------------------------------- a reward of the grid's cells


def _infer_from_cells(loaded: Run, chosen: Options) -> None:
    options.refuse(
        chosen,
        ("method",),
        "is for rewards of steps; rewards of cells take --centred, --ridge and --whitened",
    )
    options.refuse(
        chosen,
        (*_ENV, "trials"),
        "belongs to --reward env and other rewards of steps, not of cells",
    )
    fields = options.given(**{name: getattr(chosen, name) for name in _CELLS})
    task = loaded.infer(chosen.reward, **fields)
    path = _save(loaded, task, chosen)
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
    result = {**task.to_dict(), "file": str(path)}
    remarks = [verdict(task), _next(loaded, path)]
    output.show(result, chosen.json, f"task: {task.name}", rows, remarks=remarks)


def verdict(task: Task) -> str:
    """How much of the reward the features express; `visr evaluate` measures the policy."""
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


# ------------------------------------------------------------------- a reward of single steps


def _infer_from_steps(loaded: Run, chosen: Options) -> None:
    """Every method on the same steps."""
    options.refuse(chosen, _CELLS, "is for rewards of cells; elsewhere --method names a method")
    if chosen.reward != "env":
        options.refuse(chosen, _ENV, "belongs to --reward env")
    if chosen.trials is not None and not chosen.evaluate:
        raise UserError(
            f"trials = {chosen.trials} is the number of episodes to play; add --evaluate."
        )
    note = (lambda text: None) if chosen.json else output.say
    if chosen.reward == "env":
        loaded.require_rewards()
        note("collecting the environment's rewards ...")
    counts = options.given(num_episodes=chosen.episodes, num_steps=chosen.steps, seed=chosen.seed)
    clip = options.given(clip_rewards=chosen.clip_rewards)
    compared = loaded.compare(chosen.reward, **counts, **clip)
    task = loaded.task_of(compared, chosen.method, chosen.reward)
    result = {**task.to_dict(), **compared.to_dict()}
    for name, method in result["methods"].items() if chosen.evaluate else ():
        candidate = loaded.task_of(compared, name, name)
        scores = loaded.evaluate_task(candidate, **options.given(num_episodes=chosen.trials))
        note(f"{name}: {scores.mean:,.2f}")
        method |= {"mean_return": scores.mean, "interval_of_mean": scores.interval()}
        method["scores"] = list(scores.scores)
    path = _save(loaded, task, chosen)
    header, rows = _table(result["methods"], compared.best)
    output.show(
        {**result, "file": str(path)},
        chosen.json,
        f"{loaded.config.env}, reward {task.name}: {compared.num_steps:,} steps of "
        f"{compared.num_episodes:,} episodes, {compared.num_rewarded:,} with a reward; * is best",
        rows,
        header,
        path=path,
        remarks=[*compared.words, _next(loaded, path)],
    )


def _table(
    methods: dict[str, dict[str, Any]], best: str
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """One row for each method; columns that no method has are left out."""
    table = [
        {
            "method": f"{one['method']} *" if name == best else one["method"],
            "mean return (95 %)": _mean(one),
            "expected return": _decimals(one["expected_return"], 2),
            "R^2 held out": _decimals(one["r_squared"], 3),
            "condition": _condition(one["condition_number"]),
            "bootstrap cosine": _decimals(one["steadiness"], 2),
            "w": _with_errors(one["w"], one["interval"]),
        }
        for name, one in methods.items()
    ]
    header = tuple(name for name in table[0] if any(row[name] for row in table))
    return header, [tuple(row[name] for name in header) for row in table]


def _mean(one: dict[str, Any]) -> str:
    if "mean_return" not in one:
        return ""
    low, high = one["interval_of_mean"]
    return f"{one['mean_return']:,.2f} ({low:,.2f} to {high:,.2f})"


def _decimals(value: float | None, number: int) -> str:
    return "" if value is None else f"{value:,.{number}f}"


def _condition(value: float) -> str:
    return "-" if math.isinf(value) else f"{value:.3g}"


def _with_errors(w: list[float], interval: list[list[float]], most: int = 5) -> str:
    """The first few numbers of w, each with half the width of its interval."""
    bounds = zip(w[:most], *interval, strict=False)
    shown = " ".join(f"{x:+.2f}±{(high - low) / 2:.2f}" for x, low, high in bounds)
    return shown if len(w) <= most else f"{shown} ..."
