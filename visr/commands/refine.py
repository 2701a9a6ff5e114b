"""visr refine: a better policy for a task, learnt from recorded steps without the environment."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from visr.commands import evaluate, options, output
from visr.errors import UserError
from visr.run_files import find_task
from visr.storage.records.task import Task

if TYPE_CHECKING:
    from visr.api import Run
    from visr.finetuning.refine import Limit
    from visr.storage.records.refinement import Refinement

_SAVE_EVERY = 10.0
"""Seconds between two saves of the best policy so far."""
_FEW_STEPS, _FEW_MATCHES = 100, 0.02
"""With fewer rewarded steps, or a smaller share of matching actions, there is a warning."""


@dataclass(frozen=True)
class Options:
    """Refine a task's policy offline: Q-learning on the recorded steps with the asked reward.

    It starts from the instant policy, estimates each policy on held-out recorded episodes, and keeps the
    best one. By this estimate the result is never worse than the policy that it was given. Ctrl-C keeps the
    best policy so far.
    """

    run: options.Run
    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """Name of a task in the run, or a task.json."""
    seconds: float | None = None
    """Time to spend; 5 by default."""
    num_updates: int | None = None
    """Updates to make instead: the result is the same every time."""
    until_done: bool = False
    """Go on until no more gain is expected."""
    resume: bool = False
    """Continue an earlier refinement of this task."""
    name: str | None = None
    """Name of the refined task; by default TASK-refined."""
    data: str | None = None
    """Learn from an .npz file or minari:ID instead of the run's own recorded steps."""
    rewarded_steps: int | None = None
    """Tasks of the environment's own reward: rewarded steps for the reward model; by default `infer`'s."""
    seed: int = 0
    """Random seed."""
    device: options.Device = "auto"
    json: options.Json = False


def run(args: list[str]) -> int:
    """Refine, save and report."""
    chosen = options.parse(Options, args, "refine")
    options.check_range(chosen, ("rewarded_steps",), 1)
    options.check_range(chosen, ("seed",), 0)
    from visr import api
    from visr.run_refine import limit_of
    from visr.training.driver import stop_requests

    limit = limit_of(chosen.seconds, chosen.num_updates, chosen.until_done)
    loaded = api.load(chosen.run, device=chosen.device)
    source = find_task(loaded.directory, chosen.task)
    target = _target(loaded, source, chosen.name)
    if chosen.resume:
        if not target.exists():
            raise UserError(f"There is no {target} to resume; leave out --resume.")
        source = target
    with stop_requests() as stop:
        task = _refine(loaded, Task.load(source), limit, chosen, target, stop)
    _report(loaded, task, target, chosen)
    return 128 + stop[0] if stop else 0


def _target(loaded: Run, source: Path, name: str | None) -> Path:
    """Where the refined task is saved: never over the instant one, unless it is named so."""
    if name is not None:
        path = loaded.directory.task(name)
        if path.parent != loaded.directory.tasks or not name:
            raise UserError(f"--name {name!r} is not a name; give one without slashes.")
        return path
    is_refined = source.stem.endswith("-refined")
    return loaded.directory.task(source.stem if is_refined else f"{source.stem}-refined")


def _refine(
    loaded: Run,
    task: Task,
    limit: Limit,
    chosen: Options,
    target: Path,
    stop: list[int],
) -> Task:
    """The best task; it is saved now and then, so that a killed process loses little."""
    saved, best, show = time.monotonic(), task, _progress(chosen.json)
    for best in loaded.refining(
        task,
        data=chosen.data,
        resume=chosen.resume,
        seed=chosen.seed,
        rewarded_steps=chosen.rewarded_steps,
        limit=limit,
    ):
        assert best.refinement is not None
        show(best.refinement)
        if stop:
            break
        if time.monotonic() - saved > _SAVE_EVERY:
            best.save(target)
            saved = time.monotonic()
    best.save(target)
    return best


def _progress(is_quiet: bool) -> Callable[[Refinement], None]:
    """A line on stderr after the first slice, and then now and then."""
    last = -math.inf

    def show(found: Refinement) -> None:
        nonlocal last
        if not is_quiet and time.monotonic() - last > 2:
            last = time.monotonic()
            output.say(
                f"refining: {found.num_updates:,} updates, estimated reward per step "
                f"{found.given:.4g} -> {found.value:.4g}"
            )

    return show


def _report(loaded: Run, task: Task, target: Path, chosen: Options) -> None:
    found = task.refinement
    assert found is not None
    share = found.num_rewarded / found.num_steps
    rows = [
        ("given policy", f"{found.given:.4g}"),
        ("refined policy", f"{found.value:.4g}"),
        ("gain", f"{found.gain:+.4g} ± {found.gain_error:.2g}"),
        ("updates", f"{found.num_updates:,}"),
        ("recorded steps", f"{found.num_steps:,}, from {found.source}"),
        ("with the reward", f"{found.num_rewarded:,} ({share:.2%})"),
        (
            "held-out steps with its actions",
            f"{found.matching_steps:,} of {found.held_out_steps:,}",
        ),
        ("states where it acts otherwise", f"{found.changed:.0%}"),
    ]
    if found.reward_r_squared is not None:
        rows.append(("R^2 of the reward model", f"{found.reward_r_squared:.2f}"))
    output.show(
        {**task.to_dict()["refinement"], "task": task.name, "is_refined": found.is_refined}
        | {"saved": str(target)},
        chosen.json,
        f"{loaded.config.env}, task {task.name}: estimated discounted reward per step",
        rows,
        path=target,
        remarks=remarks(found, loaded, target),
    )


def remarks(found: Refinement, loaded: Run, target: Path) -> list[str]:
    """How far to trust the result, and what to do next."""
    lines = []
    if found.num_rewarded < _FEW_STEPS:
        lines.append(
            f"Only {found.num_rewarded:,} of {found.num_steps:,} recorded steps have the asked reward, so "
            "the estimates are rough; pre-train longer, or give --data."
        )
    if found.matching_steps < _FEW_MATCHES * found.held_out_steps:
        lines.append(
            f"Only {found.matching_steps:,} of {found.held_out_steps:,} held-out steps take the refined "
            "policy's actions: it strays from what was recorded."
        )
    if not found.is_refined:
        lines.append("No better policy was found on the held-out episodes; the given one is kept.")
    elif not found.is_done:
        lines.append("It may still get better: --resume goes on, --until-done lets it decide.")
    lines.append(evaluate.next_command(loaded, target.stem))
    return lines
