"""Python code that repeats what was done on the page."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Lines = list[str]
"""Lines of code that define `task`."""


def script(run: Path, lines: Lines, *, gpi: bool, epsilon: float = 0.0) -> str:
    """A complete program: load the run, infer the task, make its policy."""
    numpy = ["import numpy as np"] if any("np." in line for line in lines) else []
    return "\n".join(
        [
            *numpy,
            "import visr",
            "",
            f"run = visr.load({str(run.resolve())!r})",
            *lines,
            f"policy = run.policy(task, gpi={gpi}, epsilon={epsilon:g})",
            "",
        ]
    )


def painted(reward: NDArray[np.float64], height: int, width: int) -> Lines:
    """Zeros, and the painted cells row by row."""
    cells = reward.reshape(height, width)
    lines = [f"reward = np.zeros(({height}, {width}))"]
    for row in range(height):
        start = 0
        for value, group in itertools.groupby(cells[row].tolist()):
            stop = start + len(list(group))
            if value:
                lines.append(f"reward[{row}, {start}:{stop}] = {value!r}")
            start = stop
    return [*lines, "task = run.infer(reward)"]


def skill(seed: int) -> Lines:
    """A random skill by its seed."""
    return [f"task = run.skill({seed})"]


def direction(w: NDArray[np.float64], name: str, why: str = "") -> Lines:
    """The vector itself."""
    comment = f"  # {why}" if why else ""
    return [f"task = run.skill({w.tolist()!r}, name={name!r}){comment}"]


def saved(path: Path) -> Lines:
    """A task saved in the run."""
    return [f"task = visr.Task.load({str(path.resolve())!r})"]


def expression(text: str) -> Lines:
    """An expression over cells or observation fields."""
    return [f"task = run.infer({text!r})"]


def environment(episodes: int, steps: int, seed: int, method: str) -> Lines:
    """The environment's own reward, from some episodes."""
    counts = f"num_episodes={episodes}, num_steps={steps}, seed={seed}"
    return [
        f'compared = run.compare("env", {counts})',
        f'task = run.task_of(compared, {method!r}, "env")',
    ]


def mixture(parts: Sequence[tuple[Lines, float]]) -> Lines:
    """Each part under its own name, then the weighted sum."""
    lines: Lines = []
    for index, (part, _) in enumerate(parts):
        lines += [line.replace("task = ", f"part_{index} = ", 1) for line in part]
    inside = ", ".join(
        f"(part_{index}, {_plain(weight)})" for index, (_, weight) in enumerate(parts)
    )
    return [*lines, f"task = visr.mix([{inside}])"]


def _plain(weight: float) -> Any:
    return repr(float(weight))
