"""visr evaluate: what a policy is truly worth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from visr.commands import options, output
from visr.errors import UserError
from visr.run_dir import evaluation_of, write_json
from visr.tasks import exact
from visr.tasks.task import Task

if TYPE_CHECKING:
    from visr.api import Evaluation, Run

_FAMILIES = {
    "span": "random w (in the span of phi)",
    "boxes": "two 4x4 boxes",
    "goals": "single goal cells",
}


@dataclass(frozen=True)
class Options:
    """The exact value of a task's policy, as a fraction: (V - V_random) / (V_optimal - V_random)."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Directory of a pre-trained run."""
    task: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")] = None
    """A task's name in the run, or a task.json; without one, three families of 50 tasks each."""
    gamma: float = exact.GAMMA
    """Discount of the values; 0.95 is the authors' notebook's."""
    policy: Literal["run", "gpi", "own"] = "run"
    """Act by GPI, by w's own policy, or as the run was configured; the families show both anyway."""
    json: bool = False
    """Print the result as one JSON object."""


def run(args: list[str]) -> int:
    """Evaluate one task, or the families."""
    chosen = options.parse(Options, args, "evaluate")
    if not 0 <= chosen.gamma < 1:
        raise UserError(f"gamma = {chosen.gamma} must be at least 0 and less than 1.")
    from visr import api

    loaded = api.load(chosen.run)
    if chosen.task is None:
        _show_families(loaded, chosen)
        return 0
    path = _task_file(loaded, chosen.task)
    gpi = {"run": None, "gpi": True, "own": False}[chosen.policy]
    result = loaded.evaluate(Task.load(path), gamma=chosen.gamma, gpi=gpi)
    write_json(evaluation_of(path), result.to_dict())
    _show(result, chosen.json)
    return 0


def _task_file(loaded: Run, task: str) -> Path:
    saved = loaded.directory.task(task)
    if saved.parent == loaded.directory.tasks and saved.is_file():
        return saved
    if Path(task).is_file():
        return Path(task)
    names = ", ".join(p.stem for p in loaded.directory.task_files()) or "none yet; see `visr infer`"
    raise UserError(f"There is no task {task!r}: neither a file nor saved in the run ({names}).")


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
    scores = loaded.evaluate_families(gamma=chosen.gamma)
    if chosen.json:
        output.emit({"gamma": chosen.gamma, "num_steps": loaded.num_steps, **scores})
        return
    rows = [
        (text, *(_score(scores, name + kind) for kind in ("", "_gpi", "_planned")))
        for name, text in _FAMILIES.items()
        if name in scores
    ]
    output.table(
        f"fraction of optimal, exact, discount {chosen.gamma:g}, {loaded.num_steps:,} steps",
        rows,
        header=("50 tasks each", "w's own", "GPI", "planned on phi.w"),
    )


def _score(scores: dict[str, float], name: str) -> str:
    return f"{scores[name]:.3f}" if name in scores else "-"
