"""Tasks are values: mix them, compare them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from visr.errors import UserError
from visr.storage.records.task import Task


def mix(parts: Sequence[tuple[Task, float]], name: str | None = None) -> Task:
    """The task whose reward is the weighted sum of the parts': w = sum of weight * w_i, at unit length.

    Each part's w has unit length, so weights say how much of each direction, whatever the rewards were.
    """
    if not parts:
        raise UserError("There is nothing to mix; name at least one task and its weight.")
    first = parts[0][0]
    for task, weight in parts:
        if task.env != first.env or len(task.w) != len(first.w):
            raise UserError(
                f"`{task.name}` is a task of {task.env} with {len(task.w)} features and `{first.name}` one "
                f"of {first.env} with {len(first.w)}; only tasks of one run can be mixed."
            )
        if not math.isfinite(weight) or abs(weight) > 1e6:
            raise UserError(
                f"The weight {weight} of `{task.name}` must be a number of at most 1e6."
            )
    w = np.sum([weight * task.w for task, weight in parts], axis=0)
    length = float(np.linalg.norm(w))
    if length < 1e-9:
        raise UserError("These tasks cancel each other out (w = 0); choose other weights.")
    rewards = [task.reward for task, _ in parts if task.reward is not None]
    shapes = {reward.shape for reward in rewards}
    has_reward = len(rewards) == len(parts) and len(shapes) == 1
    return Task(
        name=name or " + ".join(f"{weight:g} {task.name}" for task, weight in parts),
        env=first.env,
        w=w / length,
        method=f"mixed of {len(parts)} tasks",
        r_squared=0.0,
        condition_number=math.inf,
        standard_error=_error(parts, length),
        num_steps=sum(task.num_steps for task, _ in parts),
        num_rewarded=sum(task.num_rewarded for task, _ in parts),
        reward=np.sum([k * t.reward for t, k in parts], axis=0) if has_reward else None,  # pyright: ignore
    )


def _error(parts: Sequence[tuple[Task, float]], length: float) -> np.ndarray:
    """As if the parts' errors were independent."""
    with np.errstate(over="ignore"):  # too large for a number is as good as unknown: infinite
        squares = [(weight * task.standard_error) ** 2 for task, weight in parts if weight]
        return np.sqrt(np.sum(squares, axis=0)) / length


def cosine(a: Task, b: Task) -> float:
    """1: the same task; 0: nothing in common; -1: opposites."""
    if len(a.w) != len(b.w):
        raise UserError(
            f"`{a.name}` has {len(a.w)} features and `{b.name}` has {len(b.w)}; they cannot be compared."
        )
    return float(a.w @ b.w)
