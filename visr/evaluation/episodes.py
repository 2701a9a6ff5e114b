"""Returns of whole episodes under the asked reward, beside the random policy and the best constant action."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from visr import arguments, envs
from visr.agents.base import Agent
from visr.config import RunConfig
from visr.envs.episodes import EpisodeSteps, TaskActor, TaskSchedule
from visr.evaluation import two_phase
from visr.evaluation.two_phase import NUM_TRIALS
from visr.inference.asked_reward import AskedReward
from visr.inference.collect import NUM_ENVS
from visr.storage.records.episodes import EpisodeEvaluation, PolicyReturns, Returns
from visr.storage.records.task import Task
from visr.storage.records.two_phase import Condition

RANDOM = "random policy"
_NUM_CHOOSING = 3
"""Episodes of each constant action, to choose the best one; it is then played with other seeds."""
_MOST_ACTIONS = 64
"""With more actions, constant ones are not tried."""


class ConstantActor:
    """Always takes the same action."""

    def __init__(self, action: int, num_envs: int, task_size: int) -> None:
        self.task_size, self._actions = task_size, np.full(num_envs, action)

    def pursue(self, w: Tensor) -> None:
        """No task changes what it does."""

    def act(self, observation: NDArray, starts: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The action, for every environment."""
        return self._actions


class _AskedReturns:
    """Sums of the asked reward by episode."""

    def __init__(self, asked: AskedReward, num_episodes: int) -> None:
        self._asked, self.returns = asked, np.zeros(num_episodes)

    def add(self, steps: EpisodeSteps) -> None:
        np.add.at(self.returns, steps.episode, self._asked.of(steps))


@arguments.checked
def evaluate(
    agent: Agent,
    config: RunConfig,
    task: Task,
    asked: AskedReward,
    *,
    num_episodes: int = NUM_TRIALS,
    epsilon: float | None = None,
    gpi: bool | None = None,
    seed: int = 1,
    compare: bool = True,
) -> EpisodeEvaluation:
    """Play the task; with `compare` also the random policy and the best constant action."""
    arguments.count(num_episodes, "num_episodes")
    shared = {"num_episodes": num_episodes, "seed": seed}

    def played(task: Task, name: str, epsilon: float | None) -> tuple[PolicyReturns, Condition]:
        sums = _AskedReturns(asked, num_episodes)
        found = two_phase.evaluate_task(
            agent, config, task, name=name, epsilon=epsilon, gpi=gpi, on_step=sums.add, **shared
        )
        return _returns(name, sums, found), found

    first, condition = played(task, task.name, epsilon)
    policies = [first]
    if compare:
        policies.append(played(task, RANDOM, 1.0)[0])
        policies += _best_constant(agent, config, asked, num_episodes, seed)
    return EpisodeEvaluation(
        task=task.name,
        env=config.env,
        reward=asked.words,
        reward_kind=asked.kind,
        policies=tuple(policies),
        human_normalised=condition.human_normalised,
    )


def _returns(name: str, sums: _AskedReturns, found: Condition) -> PolicyReturns:
    own = Returns.of(found.scores)
    asked = Returns.of(sums.returns.tolist())
    return PolicyReturns(name, asked, own, found.num_steps, found.num_cut)


def _best_constant(
    agent: Agent, config: RunConfig, asked: AskedReward, num_episodes: int, seed: int
) -> Sequence[PolicyReturns]:
    """The action that returns most in a few episodes when repeated, played again; none with many actions."""
    names = envs.space_codec(config).action_names
    if len(names) > _MOST_ACTIONS:
        return ()

    def play(action: int, count: int, seed: int) -> PolicyReturns:
        env = envs.make_vec(config, min(NUM_ENVS, count))
        actor: TaskActor = ConstantActor(action, env.num_envs, agent.task_size)
        sums, name = _AskedReturns(asked, count), f"always {names[action]}"
        schedule = TaskSchedule(lambda: np.zeros(agent.task_size, dtype=np.float32))
        found = two_phase.score(actor, env, config, name, schedule, count, seed, None, sums.add)
        env.close()
        return _returns(name, sums, found)

    few = min(_NUM_CHOOSING, num_episodes)
    means = [play(action, few, seed + 1_000).asked.mean for action in range(len(names))]
    return (play(int(np.argmax(means)), num_episodes, seed),)
