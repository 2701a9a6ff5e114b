"""visr evaluate: what a policy is truly worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from visr.commands import evaluate_episodes, options, output
from visr.config import BASELINES
from visr.envs.grid import dynamic_programming
from visr.errors import UserError
from visr.storage import pretrained_models, task_store
from visr.storage.files import write_json
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir, evaluation_of

if TYPE_CHECKING:
    from visr.api import Evaluation, Run

_FAMILIES = {
    "span": "random w (in the span of phi)",
    "boxes": "two 4x4 boxes",
    "goals": "single goal cells",
}


@dataclass(frozen=True)
class Options:
    """What a task's policy is worth: on the grid its exact value, elsewhere the scores of whole episodes.

    On the grid a fraction, (V - V_random) / (V_optimal - V_random). In other environments without a task:
    the paper's second phase, which meets rewards, infers by regression and by search, and plays each.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Directory of a pre-trained run."""
    task: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")] = None
    """A task's name in the run, or a task.json; without one, three families of 50 tasks, or phase two."""
    gamma: float | None = None
    """Grid only: discount of the values; by default 0.95, the authors' notebook's."""
    policy: Literal["run", "gpi", "own"] = "run"
    """Act by GPI, by w's own policy, or as the run was configured; the families show both anyway."""
    episodes: int | None = None
    """Elsewhere: whole episodes that judge each task; by default 30, the paper's."""
    rewarded_steps: int | None = None
    """Phase two: steps with rewards at most; by default 100,000, the paper's."""
    rewarded_episodes: int | None = None
    """Phase two: episodes with rewards at most; by default 50, the paper's."""
    seed: int | None = None
    """Elsewhere: decides the episodes' beginnings and all random draws; by default 0, with a TASK 1."""
    clip_rewards: bool | None = None
    """Phase two: fit rewards clipped to [-1, 1]; by default as the run was configured."""
    device: str = "auto"
    """Where the networks live."""
    json: bool = False
    """Print the result as one JSON object."""


def run(args: list[str]) -> int:
    """Evaluate one task, or the families."""
    chosen = options.parse(Options, args, "evaluate")
    if chosen.gamma is not None and not 0 <= chosen.gamma < 1:
        raise UserError(f"gamma = {chosen.gamma} must be at least 0 and less than 1.")
    if _is_baseline(chosen.run):
        options.refuse(
            chosen, _OF_TASKS, "does not apply: a baseline pursues what it was trained for"
        )
        evaluate_episodes.evaluate_baseline(chosen)
        return 0
    from visr import api

    loaded = api.load(chosen.run, device=chosen.device)
    gpi = {"run": None, "gpi": True, "own": False}[chosen.policy]
    if loaded.world is None:
        options.refuse(
            chosen, ("gamma",), f"does not apply: {loaded.config.env} has no exact values"
        )
        if not loaded.adapts:
            words = f"does not apply: a {loaded.config.agent.algorithm} agent adapts to nothing"
            options.refuse(chosen, _OF_ADAPTING, words)
        if chosen.task is None and gpi is not None:
            raise UserError("--policy goes with a task; phase two acts as the run was configured.")
        evaluate_episodes.evaluate(loaded, chosen, gpi)
        return 0
    options.refuse(chosen, _BY_EPISODES, "does not apply: values on the grid are exact")
    if chosen.task is None:
        _show_families(loaded, chosen)
        return 0
    path = task_store.find(loaded.directory, chosen.task)
    gamma = dynamic_programming.GAMMA if chosen.gamma is None else chosen.gamma
    result = loaded.evaluate(Task.load(path), gamma=gamma, gpi=gpi)
    write_json(evaluation_of(path), result.to_dict())
    _show(result, chosen.json)
    return 0


_BY_EPISODES = ("episodes", "rewarded_steps", "rewarded_episodes", "seed", "clip_rewards")


def _is_baseline(run: str) -> bool:
    """Whether DQN, PPO or Rainbow was trained there; no model of the package is one."""
    return (
        not pretrained_models.is_model(run)
        and RunDir.open(run).config().agent.algorithm in BASELINES
    )


_OF_ADAPTING = ("rewarded_steps", "rewarded_episodes", "clip_rewards")
_OF_TASKS = ("task", "gamma", "policy", *_OF_ADAPTING)


def _show(result: Evaluation, as_json: bool) -> None:
    if as_json:
        output.emit(result.to_dict())
        return
    rows = [
        ("fraction of optimal", f"{result.fraction_of_optimal:.3f}"),
        ("value", f"{result.value:.3f}"),
        ("value of a random policy", f"{result.value_random:.3f}"),
        ("value of an optimal policy", f"{result.value_optimal:.3f}"),
        ("discount", f"{result.gamma:g}"),
        ("policy", "greedy, GPI" if result.gpi else "greedy, w's own"),
    ]
    output.table(f"task: {result.task} (exact, mean over start states)", rows)


def _show_families(loaded: Run, chosen: Options) -> None:
    gamma = dynamic_programming.GAMMA if chosen.gamma is None else chosen.gamma
    scores = loaded.evaluate_families(gamma=gamma)
    if chosen.json:
        output.emit({"gamma": gamma, "num_steps": loaded.num_steps, **scores})
        return
    rows = [
        (text, *(_score(scores, name + kind) for kind in ("", "_gpi", "_planned")))
        for name, text in _FAMILIES.items()
        if name in scores
    ]
    output.table(
        f"fraction of optimal, exact, discount {gamma:g}, {loaded.num_steps:,} steps",
        rows,
        header=("50 tasks each", "w's own", "GPI", "planned on phi.w"),
    )


def _score(scores: dict[str, float], name: str) -> str:
    return f"{scores[name]:.3f}" if name in scores else "-"
