"""The paper's second phase: collect rewards for a short time, infer a task, play it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from visr import arguments, atari_games, envs
from visr.agents.base import Agent
from visr.agents.diayn import Diayn
from visr.agents.epsilon_greedy_actor import EpsilonGreedyActor
from visr.config import MINATAR, RunConfig
from visr.envs.episodes import EpisodeSteps, TaskActor, TaskSchedule, play_episodes
from visr.inference import prompts
from visr.inference.collect import (
    ACTIONS,
    NUM_ENVS,
    NUM_EPISODES,
    NUM_STEPS,
    collect_rewarded,
    own_tasks,
)
from visr.inference.regression import LEAST_SQUARES, SEARCH, estimate
from visr.inference.steps import RewardedSteps
from visr.ops import derived_seed
from visr.storage import schema
from visr.storage.files import write_json
from visr.storage.records.task import Task, TaskPrompt
from visr.storage.records.two_phase import AS_TRAINED, UNADAPTED, UNTRAINED, Condition, TwoPhase
from visr.storage.run_dir import RunDir
from visr.training import devices

LONGEST_EPISODE = 10_000
"""Steps of an evaluated episode, where the environment has no time limit."""
NUM_TRIALS = 30
"""Episodes that evaluate a task; the paper's number."""
_DRAWS = 3
"""Derives the seeds of further draws of the rewarded phase."""
_TASK_NAMES = {LEAST_SQUARES: "env-regression", SEARCH: "env-search"}


@dataclass(frozen=True, eq=False)
class PhaseTwo:
    """The inferred tasks, and the scores of each."""

    tasks: dict[str, Task]
    record: TwoPhase

    def save(self, run_dir: RunDir) -> None:
        """Write phase_two.json and the tasks into the run."""
        for name, task in self.tasks.items():
            task.save(run_dir.task(name))
        write_json(run_dir.phase_two, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The content of phase_two.json."""
        return schema.to_dict(self.record)


@arguments.checked
def run(
    agent: Agent,
    config: RunConfig,
    pretrained_steps: int,
    *,
    num_episodes: int = NUM_EPISODES,
    num_steps: int = NUM_STEPS,
    num_trials: int = NUM_TRIALS,
    num_draws: int = 1,
    seed: int = 0,
    note: Callable[[str], None] = lambda text: None,
) -> PhaseTwo:
    """Collect rewards, infer tasks, and play each beside the unadapted agent and random actions.

    Every rewarded episode has its own task. With several draws all but the last two policies are inferred
    and played again from other rewarded steps; the tasks and the counts of steps are the first draw's.
    """
    steps, tasks = None, {}
    found: dict[str, list[Condition]] = {}
    for draw in range(num_draws if agent.adapts else 0):
        note(f"collecting rewards: {num_episodes} episodes or {num_steps:,} steps")
        at = derived_seed(seed, _DRAWS, draw) if draw else seed
        drawn = collect_rewarded(
            agent,
            config,
            num_episodes=num_episodes,
            num_steps=num_steps,
            seed=at,
            schedule=_schedule(agent),
        )
        inferred = infer_tasks(drawn, config)
        if draw == 0:
            steps, tasks = drawn, inferred
        for name, task in inferred.items():
            found.setdefault(name, []).append(
                evaluate_task(agent, config, task, name=name, num_episodes=num_trials, seed=at + 1)
            )
    # Regression comes first also where only a later draw brought a reward.
    conditions = [Condition.of_draws(found[n]) for n in _TASK_NAMES.values() if n in found]
    conditions += evaluate(agent, config, {}, num_episodes=num_trials, seed=seed + 1)
    for condition in conditions:
        note(f"{condition.name}: {condition.mean:,.1f} over {len(condition.scores)} episodes")
    return PhaseTwo(tasks, to_record(config, pretrained_steps, conditions, steps))


def infer_tasks(steps: RewardedSteps, config: RunConfig) -> dict[str, Task]:
    """Regression and random search on the same steps.

    Without a reward there is no regression; DIAYN, which has no features, searches among its skills.
    """
    if config.inference.clip_rewards:
        steps = steps.clipped()
    compared = estimate(steps, config.inference)
    return {
        name: prompts.to_task(compared, method, name, config.env, TaskPrompt("env", name))
        for method, name in _TASK_NAMES.items()
        if method in compared.estimates
    }


def evaluate(
    agent: Agent,
    config: RunConfig,
    tasks: dict[str, Task],
    *,
    num_episodes: int = NUM_TRIALS,
    seed: int = 1,
) -> Iterator[Condition]:
    """Play every task, then the agent without adaptation, then uniformly random actions."""
    for name, task in tasks.items():
        yield evaluate_task(agent, config, task, name=name, num_episodes=num_episodes, seed=seed)
    if config.agent.algorithm != "uniform":
        name = UNADAPTED if agent.task_size > 1 else AS_TRAINED
        schedule = TaskSchedule(own_tasks(agent, seed), config.training.unroll_length)
        yield _play(agent, config, name, schedule, num_episodes=num_episodes, seed=seed)
    schedule = TaskSchedule(own_tasks(agent, seed))
    yield _play(
        agent, config, UNTRAINED, schedule, num_episodes=num_episodes, seed=seed, epsilon=1.0
    )


def evaluate_task(
    agent: Agent,
    config: RunConfig,
    task: Task,
    *,
    name: str | None = None,
    num_episodes: int = NUM_TRIALS,
    epsilon: float | None = None,
    gpi: bool | None = None,
    seed: int = 1,
    on_step: Callable[[EpisodeSteps], None] | None = None,
) -> Condition:
    """Raw scores of whole episodes that pursue the task."""
    arguments.count(num_episodes, "num_episodes")
    w = task.w.astype(np.float32)
    return _play(
        agent,
        config,
        name or task.name,
        TaskSchedule(lambda: w),
        num_episodes=num_episodes,
        epsilon=epsilon,
        gpi=gpi,
        seed=seed,
        r_squared=task.r_squared,
        on_step=on_step,
    )


def _play(
    agent: Agent,
    config: RunConfig,
    name: str,
    schedule: TaskSchedule,
    *,
    num_episodes: int,
    seed: int,
    epsilon: float | None = None,
    gpi: bool | None = None,
    r_squared: float | None = None,
    on_step: Callable[[EpisodeSteps], None] | None = None,
) -> Condition:
    epsilon = config.agent.exploration if epsilon is None else epsilon
    env = envs.make_vec(config, min(NUM_ENVS, num_episodes))
    random = torch.Generator().manual_seed(derived_seed(seed, ACTIONS))
    actor = EpsilonGreedyActor(agent, env.num_envs, epsilon=epsilon, gpi=gpi, random=random)
    condition = score(actor, env, config, name, schedule, num_episodes, seed, r_squared, on_step)
    env.close()
    return condition


def score(
    actor: TaskActor,
    env: VectorEnv,
    config: RunConfig,
    name: str,
    schedule: TaskSchedule,
    num_episodes: int,
    seed: int,
    r_squared: float | None = None,
    on_step: Callable[[EpisodeSteps], None] | None = None,
) -> Condition:
    """Raw scores of whole episodes of any actor."""
    with devices.threads(config.training):
        limit = _episode_limit(config, env)
        episodes = play_episodes(
            actor, env, schedule, num_episodes, seed=seed, max_episode_steps=limit, on_step=on_step
        )
    scores = [episode.score for episode in episodes]
    game = atari_games.by_id(config.env)
    normalised = atari_games.human_normalised(float(np.mean(scores)), game) if game else None
    num_steps = [episode.num_steps for episode in episodes]
    num_cut = sum(not episode.is_finished for episode in episodes)
    return Condition.from_scores(name, scores, num_steps, normalised, r_squared, num_cut)


def _episode_limit(config: RunConfig, env: VectorEnv) -> int | None:
    """Steps after which an evaluation cuts an episode; None where the environment has a time limit."""
    if config.is_atari or config.env.startswith(MINATAR):
        return None
    return None if getattr(env, "max_episode_steps", 0) else LONGEST_EPISODE


def to_record(
    config: RunConfig,
    pretrained_steps: int,
    conditions: list[Condition],
    steps: RewardedSteps | None = None,
) -> TwoPhase:
    """What phase_two.json holds; `steps` is None for agents that do not adapt."""
    game = atari_games.by_id(config.env)
    return TwoPhase(
        env=config.env,
        num_steps=pretrained_steps,
        num_rewarded_steps=steps.num_steps if steps else 0,
        num_rewarded_episodes=steps.num_episodes if steps else 0,
        num_seen=steps.num_rewarded if steps else 0,
        num_trials=len(conditions[-1].scores),
        epsilon=config.agent.exploration,
        clip_rewards=config.inference.clip_rewards,
        random_score=game.random if game else None,
        human_score=game.human if game else None,
        conditions=tuple(conditions),
    )


def _schedule(agent: Agent) -> TaskSchedule | None:
    """DIAYN's skills take turns; None is a new task for every episode."""
    if not isinstance(agent, Diayn):
        return None
    skills = itertools.cycle(np.eye(agent.task_size, dtype=np.float32))
    return TaskSchedule(lambda: next(skills))
