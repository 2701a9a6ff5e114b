"""visr infer: turn a reward, a goal, a demonstration or preferences into a task w."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from visr.commands import evaluate, options, output
from visr.errors import UserError
from visr.run_files import new_path
from visr.storage.records.task import Task
from visr.storage.run_dir import slug

if TYPE_CHECKING:
    from visr.api import Run
    from visr.inference.prompts import Prompt
    from visr.inference.regression import Comparison

_CELLS = ("centred", "ridge", "whitened")
_ENV = ("clip_rewards", "episodes", "steps", "seed")
_PROMPTS = ("reward", "goal", "demonstration", "preferences", "w")


@dataclass(frozen=True)
class Options:
    """Find the task w that a reward, a goal, a demonstration or preferences describe; no weight changes."""

    run: options.Run
    reward: str | None = None
    """env (the environment's own), FILE.npz, "angle < 0.1"; on the grid also boxes:SEED, goal:ROW,COL,
    FILE.npy, FILE.csv."""
    goal: str | None = None
    """A state to be in: "x0=0.5,x1=0", ROW,COL on the grid, FILE.npy, or step:N of the recording."""
    demonstration: str | None = None
    """FILE.npz with the observations of a trajectory and, optionally, its actions."""
    preferences: str | None = None
    """FILE.json: {"pairs": [{"better": [START, STOP], "worse": [START, STOP]}]}, steps of the recording."""
    w: str | None = None
    """A direction, as numbers with commas."""
    method: str = "best"
    """Which w becomes the task: least squares, ridge, centred, centred ridge, whitened, random search,
    smoothed search (searches need `env`), or best."""
    evaluate: bool = False
    """Play episodes with the w of every method; `best` is then the one that returns most, if they tell."""
    trials: int | None = None
    """With --evaluate: episodes of each method; by default 30, as in the paper."""
    name: str | None = None
    """Name of the task in the run; by default made from the prompt."""
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
    env: options.Env = None
    device: options.Device = "auto"
    json: bool = False
    """Print the task as one JSON object."""


def run(args: list[str]) -> int:
    """Infer the task, save it, and say how far to trust it."""
    chosen = options.parse(Options, args, "infer", may_be_negative=("--reward", "--goal", "--w"))
    options.check_range(chosen, ("trials", "episodes", "steps"), 1)
    options.check_range(chosen, ("seed",), 0)
    if chosen.name is not None and not chosen.name.strip():
        raise UserError("--name is empty; give the task a name, or leave it out.")
    given = [name for name in _PROMPTS if getattr(chosen, name) is not None]
    if len(given) != 1:
        raise UserError(
            "Say what you want in one way: --reward, --goal, --demonstration, --preferences or --w."
        )
    if chosen.trials is not None and not chosen.evaluate:
        raise UserError(
            f"trials = {chosen.trials} is the number of episodes to play; add --evaluate."
        )
    from visr import api
    from visr.inference import prompts

    loaded = api.load(chosen.run, device=chosen.device, env=chosen.env)
    if chosen.w is not None:
        _infer_direction(loaded, chosen)
    elif chosen.reward is None or loaded.world is None or prompts.is_of_steps(chosen.reward):
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


class _Diagnosed(NamedTuple):
    content: dict[str, Any]
    sentences: list[str]


def _diagnosed(loaded: Run, task: Task) -> _Diagnosed:
    """What is known of a task of the replay learner, for JSON and in words."""
    found = loaded.diagnose(task)
    return (
        _Diagnosed({}, [])
        if found is None
        else _Diagnosed({"diagnosis": found.to_dict()}, found.words)
    )


def _next(loaded: Run, path: Path) -> str:
    name = path.stem if path == loaded.directory.task(path.stem) else path
    return evaluate.next_command(loaded, str(name))


# -------------------------------------------------------------- a reward of the grid's cells


def _infer_from_cells(loaded: Run, chosen: Options) -> None:
    options.refuse(
        chosen,
        ("method",),
        "is for rewards of steps; rewards of cells take --centred, --ridge and --whitened",
    )
    options.refuse(chosen, _ENV, "belongs to --reward env, not to rewards of cells")
    if chosen.trials is not None:
        raise UserError("--trials counts episodes; values on the grid are exact, so leave it out.")
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
    if not np.isfinite(task.standard_error).all():
        rows = [row for row in rows if row[0] not in ("condition number", "standard error")]
    result, words = {**task.to_dict(), "file": str(path)}, _diagnosed(loaded, task)
    result |= words.content
    if chosen.evaluate:
        found = loaded.evaluate_exactly(task)
        result |= {"evaluation": found.to_dict()}
        rows += evaluate.exact_rows(found)
    remarks = [verdict(task), *words.sentences, _next(loaded, path)]
    output.show(result, chosen.json, f"task: {task.name}", rows, remarks=remarks)


def verdict(task: Task) -> str:
    """How much of the reward the features express; `visr evaluate` measures the policy."""
    if not np.isfinite(task.standard_error).all():
        return "With as many features as states every reward of states fits exactly."
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
    note = (lambda text: None) if chosen.json else output.say
    inference = loaded.inference
    if chosen.reward == "env":
        inference.require_rewards()
        note("collecting the environment's rewards ...")
    counts = options.given(num_episodes=chosen.episodes, num_steps=chosen.steps, seed=chosen.seed)
    clip = options.given(clip_rewards=chosen.clip_rewards)
    prompt = inference.prompt(
        reward=chosen.reward,
        goal=chosen.goal,
        demonstration=chosen.demonstration,
        preferences=chosen.preferences,
    )
    compared = inference.compare(prompt, **counts, **clip)
    methods, words = compared.to_dict()["methods"], compared.words
    if chosen.evaluate:
        compared, words = _scored(loaded, prompt, compared, methods, chosen, note)
    task = inference.to_task(prompt, compared, chosen.method)
    path = _save(loaded, task, chosen)
    known = _diagnosed(loaded, task)
    header, rows = _table(methods, compared.best)
    shown = task.name.removeprefix("goal ")
    output.show(
        {
            **task.to_dict(),
            **compared.to_dict(),
            "methods": methods,
            "words": words,
            **known.content,
            "file": str(path),
        },
        chosen.json,
        f"{loaded.config.env}, {_given(chosen)} {shown}: {_counts(compared)}; * is best",
        rows,
        header,
        path=path,
        remarks=[*words, *known.sentences, _next(loaded, path)],
    )


def _counts(compared: Comparison) -> str:
    if compared.counted != "steps":  # no reward was regressed
        return f"{compared.num_steps:,} {compared.counted}"
    return (
        f"{compared.num_steps:,} steps of {compared.num_episodes:,} episodes, "
        f"{compared.num_rewarded:,} with a reward"
    )


def _given(chosen: Options) -> str:
    return next(name for name in _PROMPTS if getattr(chosen, name) is not None)


def _scored(
    loaded: Run,
    prompt: Prompt,
    compared: Comparison,
    methods: dict[str, dict[str, Any]],
    chosen: Options,
    note: Callable[[str], None],
) -> tuple[Comparison, list[str]]:
    """Play every method's w; the best is the one that returns most of the asked reward, if they tell."""
    if prompt.record().kind in ("demonstration", "preferences"):
        raise UserError(
            f"--evaluate compares returns of one reward, and {prompt.name} names none; `visr evaluate` "
            "measures the task."
        )
    from visr.inference import explain

    means, errors, cut = {}, {}, []
    for name, method in methods.items():
        task = loaded.inference.to_task(prompt, compared, name)
        if loaded.world is not None:
            found = loaded.evaluate_exactly(task)
            means[name], errors[name] = found.value, 0.0
            method |= {"mean_return": found.value, "fraction_of_optimal": found.fraction_of_optimal}
        else:
            settings = options.given(num_episodes=chosen.trials)
            played = loaded.evaluate_episodes(task, compare=False, **settings)
            cut, found = cut or evaluate.cut_remarks(played.policies), played.asked
            means[name], errors[name] = found.mean, found.standard_error
            method |= {"mean_return": found.mean, "interval_of_mean": found.interval()}
            method["scores"] = list(found.returns)
        note(f"{name}: {means[name]:,.2f}")
    best, why = explain.best_played(means, errors, compared.best)
    trust = f"Trust {methods[best]['method']}: {why}."
    known = [sentence for sentence in compared.words if not sentence.startswith("Trust ")]
    return dataclasses.replace(compared, best=best), [*known, *cut, trust]


def _infer_direction(loaded: Run, chosen: Options) -> None:
    """A task from numbers; no reward is regressed."""
    options.refuse(chosen, (*_CELLS, *_ENV, "method", "evaluate"), "does not apply to --w")
    try:
        w = [float(number) for number in (chosen.w or "").replace(",", " ").split()]
    except ValueError:
        raise UserError(f"{chosen.w!r} is not a list of numbers; write --w 0.5,0,-1.") from None
    task = loaded.skill(w, name=chosen.name or "direction")
    path = _save(loaded, task, chosen)
    rows = [("w", _numbers(task.w)), ("task", str(path))]
    result = {**task.to_dict(), "file": str(path)}
    output.show(result, chosen.json, f"task: {task.name}", rows, remarks=[_next(loaded, path)])


def _table(
    methods: dict[str, dict[str, Any]], best: str
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """One row for each method; columns that no method has are left out."""
    table = [
        {
            "method": f"{one['method']} *" if name == best else one["method"],
            "mean return (95 %)": _mean(one),
            "expected return": _decimals(one["expected_return"], 2),
            **{name: f"{value:.2f}" for name, value in one.get("measures", {}).items()},
            "R^2 held out": "" if "measures" in one else _decimals(one["r_squared"], 3),
            "condition": "" if "measures" in one else _condition(one["condition_number"]),
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
    if "interval_of_mean" not in one:
        return f"{one['mean_return']:,.2f} ({one['fraction_of_optimal']:.2f} of optimal)"
    low, high = one["interval_of_mean"]
    return f"{one['mean_return']:,.2f} ({low:,.2f} to {high:,.2f})"


def _decimals(value: float | None, number: int) -> str:
    return "" if value is None else f"{value:,.{number}f}"


def _condition(value: float) -> str:
    return "-" if math.isinf(value) else f"{value:.3g}"


def _with_errors(w: list[float], interval: list[list[float]] | None, most: int = 5) -> str:
    """The first few numbers of w, each with half the width of its interval where there is one."""
    if interval is None:
        shown = " ".join(f"{x:+.2f}" for x in w[:most])
    else:
        bounds = zip(w[:most], *interval, strict=False)
        shown = " ".join(f"{x:+.2f}±{(high - low) / 2:.2f}" for x, low, high in bounds)
    return shown if len(w) <= most else f"{shown} ..."
