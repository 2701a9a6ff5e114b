"""Prompts: what a user gives to describe a task, and how each becomes w.

To add one, write a class with `name`, `record` and `infer`, as in goal.py, demonstration.py, preferences.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from visr import arguments
from visr.agents.base import BehaviourModel
from visr.config import InferenceConfig
from visr.errors import UserError, short_repr
from visr.inference.compare_methods import compare_methods
from visr.inference.dataset import MINARI
from visr.inference.regression import Comparison, estimate
from visr.inference.steps import RewardedSteps
from visr.storage.records.task import Task, TaskPrompt

ENV_REWARD = "env"
"""The reward that the environment itself gives."""


class Prompt(Protocol):
    """A description of a task."""

    @property
    def name(self) -> str:
        """The task's name, in the user's words."""
        ...

    def record(self) -> TaskPrompt:
        """What task.json keeps of it."""
        ...

    def infer(self, model: BehaviourModel, data: Callable[[], RewardedSteps]) -> Comparison:
        """Estimate w; `data` collects or labels steps, and is called only by prompts that need them."""
        ...


@dataclass(frozen=True)
class Reward:
    """A reward, known by its values on the steps of `data`: w such that phi(s') . w predicts it."""

    name: str
    config: InferenceConfig | None = None
    """The regression to use; None compares all methods."""
    given: Any = None
    """The reward as the user gave it."""

    def record(self) -> TaskPrompt:
        """The expression, or the kind of reward and its name."""
        if callable(self.given):
            return TaskPrompt("function", self.name, function=self.given)  # pyright: ignore
        if self.name == ENV_REWARD:
            return TaskPrompt("env", self.name)
        return TaskPrompt("dataset" if is_dataset(self.given) else "expression", self.name)

    def infer(self, model: BehaviourModel, data: Callable[[], RewardedSteps]) -> Comparison:
        """Regression and search on the steps; `model` gave them their features."""
        steps = data()
        steps.check()
        if self.config is None:
            return compare_methods(steps)
        return estimate(steps, self.config)


def name_of(reward: Any) -> str:
    """What to call a reward."""
    with arguments.user_code("The reward cannot be named"):
        return getattr(reward, "__name__", "function") if callable(reward) else str(reward)


def is_dataset(reward: Any) -> bool:
    """Whether a reward is the name of an .npz file or of a Minari dataset."""
    name = str(reward) if isinstance(reward, str | Path) else ""
    return name.lower().endswith(".npz") or name.startswith(MINARI)


def is_of_steps(reward: Any) -> bool:
    """Whether a reward is one of steps even on the grid: the environment's own, a function or a dataset."""
    if callable(reward) or isinstance(reward, Path):
        return True
    return isinstance(reward, str) and (reward == ENV_REWARD or is_dataset(reward))


def to_task(
    compared: Comparison, method: str, name: str, env: str, prompt: TaskPrompt | None = None
) -> Task:
    """One method's estimate as a task; "best" is the method to trust."""
    if not isinstance(compared, Comparison):
        raise UserError(f"compared = {short_repr(compared)} is not what run.compare returns.")
    chosen = compared.best if arguments.text(method, "method") == "best" else method
    if chosen not in compared.estimates:
        known = ", ".join(["best", *compared.estimates])
        raise UserError(f"There is no method {method!r} for this reward; there are {known}.")
    found, r_squared = compared.estimates[chosen], compared.estimates[chosen].r_squared
    standard_error = found.standard_error
    if validation := compared.validations.get(chosen):
        r_squared = validation.r_squared
        standard_error = np.ptp(validation.interval, axis=0) / (2 * 1.645)  # 90 % of a normal
    return Task(
        name=name,
        env=env,
        w=found.w,
        method=found.method,
        r_squared=r_squared,
        condition_number=found.condition_number,
        standard_error=standard_error,
        num_steps=compared.num_steps,
        num_rewarded=compared.num_rewarded,
        prompt=prompt,
    )
