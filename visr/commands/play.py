"""visr play: watch an agent pursue a task, or film it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro

from visr.commands import options, output
from visr.commands.evaluate import task_file
from visr.errors import UserError
from visr.storage.records.task import Task

if TYPE_CHECKING:
    from visr.api import Run


@dataclass(frozen=True)
class Options:
    """Play episodes with one task and say how they went; with --video, film them."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Directory of a pre-trained run."""
    task: str = "skill:0"
    """A task's name in the run, a task.json, skill:SEED (a random w) or axis:K (along feature K, or -K)."""
    video: str | None = None
    """Film the episodes into this MP4 file (needs visr[video])."""
    episodes: int = 1
    """How many episodes."""
    max_steps: int = 4_500
    """End an episode after so many steps."""
    epsilon: float | None = None
    """Probability of a random action; by default the run's."""
    seed: int = 0
    """Decides the episodes' beginnings and all random draws."""
    device: str = "auto"
    """Where the networks live."""
    json: bool = False
    """Print the result as one JSON object."""


def run(args: list[str]) -> int:
    """Play, film if asked to, and report."""
    chosen = options.parse(Options, args, "play")
    _check(chosen)
    from visr import api

    loaded = api.load(chosen.run, device=chosen.device)
    w, name = _wanted(loaded, chosen.task)
    episodes = _play(loaded, chosen, w, name)
    scores = [score for score, _ in episodes]
    if chosen.json:
        steps = [num_steps for _, num_steps in episodes]
        output.emit(
            {
                "task": name,
                "w": w.tolist(),
                "scores": scores,
                "num_steps": steps,
                "video": chosen.video,
            }
        )
        return 0
    rows = [(f"{n}", f"{score:g}", f"{steps:,}") for n, (score, steps) in enumerate(episodes, 1)]
    output.table(f"{loaded.config.env}, task {name}", rows, header=("episode", "score", "steps"))
    if chosen.video:
        print(chosen.video)
    return 0


def _check(chosen: Options) -> None:
    for name in ("episodes", "max_steps"):
        if getattr(chosen, name) < 1:
            raise UserError(
                f"{name} = {getattr(chosen, name)} is too small; it must be at least 1."
            )
    if not 0 <= chosen.seed < 2**31:
        raise UserError(f"seed = {chosen.seed} must lie between 0 and {2**31 - 1}.")
    if chosen.epsilon is not None and not 0 <= chosen.epsilon <= 1:
        raise UserError(f"epsilon = {chosen.epsilon} must lie between 0 and 1.")
    if chosen.video is not None and Path(chosen.video).suffix.lower() != ".mp4":
        raise UserError(f"{chosen.video!r} is no name of an MP4 file; give one such as film.mp4.")


def _wanted(loaded: Run, task: str) -> tuple[np.ndarray, str]:
    """The w to pursue: a skill, a direction, or a saved task's."""
    d = loaded.config.agent.task_size
    kind, _, value = task.partition(":")
    if kind == "skill":
        from visr.evaluation.two_phase import own_tasks

        seed = _integer(value, task, 0, 2**31 - 1)
        return own_tasks(loaded.config.agent, seed)(), task
    if kind == "axis":
        axis = _integer(value.removeprefix("-"), task, 1, d)
        w = np.zeros(d, dtype=np.float32)
        w[axis - 1] = -1.0 if value.startswith("-") else 1.0
        return w, task
    saved = Task.load(task_file(loaded, task))
    if len(saved.w) != d:
        raise UserError(
            f"The task `{saved.name}` has {len(saved.w)} features and this run has {d}; "
            "infer it with this run."
        )
    return saved.w.astype(np.float32), saved.name


def _integer(text: str, task: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdecimal() and low <= int(text[:12]) <= high):
        raise UserError(
            f"{task!r} needs a whole number from {low} to {high}, such as skill:7 or axis:1."
        )
    return int(text)


def _play(loaded: Run, chosen: Options, w: np.ndarray, name: str) -> list[tuple[float, int]]:
    from visr.play import video as film

    config = loaded.config
    rates = film.FRAMES_PER_SECOND.items()
    rate = next((fps for prefix, fps in rates if config.env.startswith(prefix)), 15)
    reel = film.Film(Path(chosen.video), rate, name) if chosen.video else None
    episodes: list[tuple[float, int]] = []
    done = False
    try:
        for frame in film.frames(
            loaded.agent,
            config,
            w,
            num_episodes=chosen.episodes,
            max_steps=chosen.max_steps,
            epsilon=config.agent.exploration if chosen.epsilon is None else chosen.epsilon,
            seed=chosen.seed,
            show=reel is not None,
        ):
            if reel:
                reel.add(frame)
            if frame.is_last:
                episodes.append((frame.score, frame.num_steps))
        done = True
    finally:
        if reel:
            reel.close(keep=done)
    return episodes
