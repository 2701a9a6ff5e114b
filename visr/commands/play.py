"""visr play: play episodes of a task, and record them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from visr.commands import options, output
from visr.errors import UserError
from visr.run_files import find_task
from visr.storage.records.task import Task

if TYPE_CHECKING:
    from visr.api import Run


@dataclass(frozen=True)
class Options:
    """Play episodes of one task and print their scores; with --video, record them."""

    run: options.Run
    task: str = "skill:0"
    """Name of a task in the run, a task.json, skill:SEED (a random w), or axis:K, axis:-K (feature K)."""
    video: str | None = None
    """Record the episodes in this MP4 (needs visr[video]) or GIF file."""
    episodes: int = 1
    """Number of episodes."""
    max_steps: int | None = None
    """End an episode after this many steps (default: 4,500; 100 on a grid without time limit)."""
    epsilon: float | None = None
    """Probability of a random action; by default the run's, 0 plays the greedy policy."""
    seed: int = 0
    """Random seed."""
    env: options.Env = None
    device: options.Device = "auto"
    json: options.Json = False


def run(args: list[str]) -> int:
    """Play and print the scores."""
    chosen = options.parse(Options, args, "play")
    _check(chosen)
    from visr import api

    loaded = api.load(chosen.run, device=chosen.device, env=chosen.env)
    task = _task(loaded, chosen.task)
    ends = loaded.play(
        task,
        video=chosen.video,
        num_episodes=chosen.episodes,
        **options.given(max_steps=chosen.max_steps),
        epsilon=chosen.epsilon,
        seed=chosen.seed,
    )
    asked = loaded.asked_reward(task)
    result = {
        "task": task.name,
        "w": task.w.tolist(),
        "scores": [end.score for end in ends],
        "asked_returns": [end.asked_return for end in ends],
        "reward": asked.words,
        "num_steps": [end.num_steps for end in ends],
        "video": chosen.video,
    }
    has_own = loaded.world is None and asked.kind != "env"
    header = ("episode", "return", *(("environment's own return",) if has_own else ()), "steps")
    rows = [
        (
            f"{number}",
            f"{end.asked_return:g}",
            *((f"{end.score:g}",) if has_own else ()),
            f"{end.num_steps:,}",
        )
        for number, end in enumerate(ends, 1)
    ]
    random = loaded.config.agent.epsilon if chosen.epsilon is None else chosen.epsilon
    remarks = [f"The return sums {asked.words}."]
    remarks += [f"{random:.0%} of the actions are random (--epsilon)."] if random else []
    title = f"{loaded.config.env}, task {task.name}"
    output.show(result, chosen.json, title, rows, header, path=chosen.video, remarks=remarks)
    return 0


def _check(chosen: Options) -> None:
    options.check_range(chosen, ("episodes", "max_steps"), 1)
    options.check_range(chosen, ("seed",), 0)
    if chosen.epsilon is not None and not 0 <= chosen.epsilon <= 1:
        raise UserError(f"epsilon = {chosen.epsilon} must lie between 0 and 1.")
    if chosen.video is not None and Path(chosen.video).suffix.lower() not in (".mp4", ".gif"):
        raise UserError(
            f"{chosen.video!r} is not the name of an MP4 or GIF file; give one such as video.mp4."
        )


def _task(loaded: Run, task: str) -> Task:
    """A skill, a direction or a saved task."""
    d = loaded.agent.task_size
    kind, _, value = task.partition(":")
    if kind == "skill":
        return loaded.skill(_integer(value, task, 0, options.MOST), task)
    if kind == "axis":
        axis = _integer(value.removeprefix("-"), task, 1, d)
        w = np.zeros(d)
        w[axis - 1] = -1.0 if value.startswith("-") else 1.0
        return loaded.skill(w, task)
    return Task.load(find_task(loaded.directory, task))


def _integer(text: str, task: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdecimal() and low <= int(text[:12]) <= high):
        raise UserError(
            f"{task!r} needs a whole number from {low} to {high}, such as skill:7 or axis:1."
        )
    return int(text)
