"""The reward that a task was asked for, as a function of steps: what its policy is judged by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visr import arguments
from visr.agents.base import Agent
from visr.envs import step_fields
from visr.envs.episodes import EpisodeSteps
from visr.envs.spaces import SpaceCodec
from visr.errors import UserError
from visr.inference import expression
from visr.inference.collect import step_features
from visr.storage.records.task import RewardFunction, Task, TaskPrompt

Floats = NDArray[np.float64]
ENV_TASKS = ("env", "env-regression", "env-search")
"""Names of tasks for the environment's own reward."""


@dataclass(frozen=True, eq=False)
class AskedReward:
    """A reward of steps, and how it is known."""

    text: str
    """What was asked for."""
    kind: Literal["env", "cells", "expression", "function", "goal", "fitted", "features"]
    of: Callable[[EpisodeSteps], Floats]
    """Steps -> rewards, [n]."""

    @property
    def words(self) -> str:
        """What the return sums."""
        return {
            "env": "the environment's own reward",
            "goal": f"closeness to the goal {self.text.removeprefix('goal ')}, from 0 to 1 per step",
            "fitted": f"the reward of {self.text}, as the fit predicts it",
            "features": "phi . w, the reward as the agent represents it",
        }.get(self.kind, f"the asked reward {self.text}")


def asked_reward(task: Task, agent: Agent, codec: SpaceCodec) -> AskedReward:
    """The reward behind a task; phi . w if it is a direction, or known only to the agent."""
    prompt = _prompt(task, codec)
    if prompt.kind == "env":
        return AskedReward("env", "env", lambda steps: steps.reward.astype(np.float64))
    if task.reward is not None:
        cells = task.reward
        return AskedReward(task.name, "cells", lambda steps: cells[steps.next_observation])
    if prompt.kind == "expression":
        text = prompt.text
        return AskedReward(text, "expression", lambda steps: of_expression(text, steps, codec))
    if prompt.kind == "function" and (function := prompt.function) is not None:
        return AskedReward(prompt.text, "function", lambda steps: of_function(function, steps))
    if prompt.kind == "goal" and "columns" in prompt.data:
        return AskedReward(prompt.text, "goal", lambda steps: closeness(prompt, steps))
    w, fit = task.w.astype(np.float32), prompt.data.get("fit", np.array([1.0, 0.0]))

    def represented(steps: EpisodeSteps) -> Floats:
        return fit[0] * (step_features(agent, steps) @ w).astype(np.float64) + fit[1]

    return AskedReward(
        prompt.text or task.name, "fitted" if "fit" in prompt.data else "features", represented
    )


def _prompt(task: Task, codec: SpaceCodec) -> TaskPrompt:
    """The task's prompt; in files of older versions the name holds the reward's words."""
    if task.prompt is not None:
        return task.prompt
    if task.name in ENV_TASKS:
        return TaskPrompt("env")
    one = np.zeros((1, *(codec.space.shape or ())), codec.space.dtype)
    try:
        names = step_fields.scope(codec, one, np.zeros(1, np.int64), one)
        expression.check(task.name, names)
    except UserError:
        return TaskPrompt("demonstration", task.name)
    return TaskPrompt("expression", task.name)


def of_expression(text: str, steps: EpisodeSteps, codec: SpaceCodec) -> Floats:
    """The value of an expression over the fields of each step, [n]."""
    names = step_fields.scope(codec, steps.observation, steps.action, steps.next_observation)
    return expression.evaluate(text, names)


def of_function(function: RewardFunction, steps: EpisodeSteps) -> Floats:
    """What a user's function returns for the steps, [n]."""
    with arguments.user_code("The reward function failed on a batch of steps"):
        found = function(steps.observation, steps.action, steps.next_observation)
        reward = arguments.array(found, "The reward function's result").astype(np.float64)
    if reward.shape != steps.action.shape:
        raise UserError(
            f"The reward function gave shape {reward.shape} for {len(steps.action):,} steps; it takes "
            "arrays of all steps at once and returns one reward for each."
        )
    return reward


def closeness(goal: TaskPrompt, steps: EpisodeSteps) -> Floats:
    """1 / (1 + mean((x - g)^2 / width^2)) over the numbers that the goal names: 1 at the goal."""
    columns = goal.data["columns"].astype(np.intp)
    table = steps.next_observation.reshape(len(steps.action), -1)[:, columns]
    distance = (table - goal.data["observation"]) / goal.data["width"]
    return 1 / (1 + np.square(distance).mean(axis=1))
