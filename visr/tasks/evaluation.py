"""What a task's policy is truly worth on a grid world: no sampling, only linear algebra."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visr.agents.visr import Visr
from visr.envs.world import GridWorld
from visr.errors import UserError
from visr.tasks import exact, families
from visr.tasks.task import Task


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The exact value of a greedy policy, between the random policy's and the optimal one."""

    task: str
    fraction_of_optimal: float
    """(V - V_random) / (V_optimal - V_random)"""
    value: float
    """V, averaged over start states, for the true reward."""
    value_random: float
    value_optimal: float
    gamma: float
    gpi: bool
    policy: NDArray[np.int64]
    """[S], the action in every state."""
    values: NDArray[np.float64]
    """[S], the policy's exact value in every state."""
    represented_reward: NDArray[np.float64]
    """[S], phi . w: the reward as the agent sees it."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in vars(self).items()}


def evaluate(agent: Visr, world: GridWorld, task: Task, gamma: float, gpi: bool) -> Evaluation:
    """Act greedily for the task in every state, and value that policy for the true reward."""
    reward = _true_reward(task, world)
    policy = families.actions(agent, world, task.w[None], gpi)[0]
    values = exact.policy_values(world.transitions, policy, reward, gamma)
    fraction = exact.fraction_of_optimal(world.transitions, policy, reward, world.start, gamma)
    return Evaluation(
        task=task.name,
        fraction_of_optimal=float(fraction),
        value=float(values @ world.start),
        value_random=float(exact.random_values(world.transitions, reward, gamma) @ world.start),
        value_optimal=float(exact.optimal_values(world.transitions, reward, gamma) @ world.start),
        gamma=gamma,
        gpi=gpi,
        policy=policy,
        values=values,
        represented_reward=families.features(agent, world) @ task.w,
    )


def _true_reward(task: Task, world: GridWorld) -> NDArray[np.float64]:
    if task.reward is None:
        raise UserError(f"The task `{task.name}` does not carry its true reward; infer it anew.")
    if task.reward.shape != (world.num_states,):
        raise UserError(
            f"The task `{task.name}` has a reward over {len(task.reward)} states and this world has "
            f"{world.num_states}; infer it with this run."
        )
    return task.reward
