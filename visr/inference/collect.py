"""Rewarded steps from the environment: the agent plays, rewards are kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visr import arguments, envs
from visr.agents.base import Agent, BehaviourModel
from visr.agents.epsilon_greedy_actor import EpsilonGreedyActor
from visr.config import RunConfig
from visr.envs.episodes import EpisodeSteps, TaskSchedule, finished, play_episodes
from visr.errors import UserError
from visr.inference.steps import LeftStates, RewardedSteps, TriedTasks
from visr.ops import derived_seed
from visr.training import devices
from visr.types import Transitions

NUM_EPISODES, NUM_STEPS = 50, 100_000
"""The paper's rewarded phase: so many episodes or steps, whichever comes first."""
NUM_ENVS = 10
ACTIONS = 1
"""Derives the seed of actions, so that tasks, actions and games share no random draws."""
_BATCH = 1024


@torch.inference_mode()
@arguments.checked
def collect_rewarded(
    agent: Agent,
    config: RunConfig,
    *,
    num_episodes: int = NUM_EPISODES,
    num_steps: int = NUM_STEPS,
    seed: int = 0,
    schedule: TaskSchedule | None = None,
    on_step: Callable[[EpisodeSteps], None] | None = None,
) -> RewardedSteps:
    """Play episodes with one task each, drawn as in training; keep phi(s') and the raw r of every step.

    `on_step` sees every step with its observations.
    """
    if num_steps < 1:
        raise UserError(f"num_steps = {num_steps} must be at least 1.")
    schedule = schedule or TaskSchedule(own_tasks(agent, seed))
    env = envs.make_vec(config, min(NUM_ENVS, num_episodes))
    random = torch.Generator().manual_seed(derived_seed(seed, ACTIONS))
    actor = EpsilonGreedyActor(agent, env.num_envs, epsilon=config.agent.epsilon, random=random)
    kept: list[tuple[NDArray, NDArray, NDArray]] = []
    left: list[NDArray] = []

    def keep(steps: EpisodeSteps) -> None:
        reward = np.asarray(steps.reward, dtype=np.float64)
        kept.append((step_features(agent, steps), reward, steps.episode))
        if _has_states(agent):
            left.append(features(agent, steps.observation))
        if on_step is not None:
            on_step(steps)

    with devices.threads(config.training):
        played = play_episodes(
            actor, env, schedule, num_episodes, seed=seed, max_steps=num_steps, on_step=keep
        )
    episodes = finished(played)
    env.close()
    tried = TriedTasks(
        np.array([episode.w for episode in episodes], dtype=np.float64),
        np.array([episode.score for episode in episodes]),
    )
    phi, reward, episode = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    before = LeftStates(np.concatenate(left), agent.config.gamma) if left else None
    return _with_inference(RewardedSteps(phi, reward, episode, tried, before), agent)


def of_agent(steps: RewardedSteps, agent: Agent, before: NDArray | None = None) -> RewardedSteps:
    """The steps with what else this agent infers from: the states `before` [N, ...] that they leave."""
    left = None
    if before is not None and _has_states(agent):
        left = LeftStates(features(agent, before), agent.config.gamma)
    return _with_inference(dataclasses.replace(steps, left=left), agent)


def _has_states(agent: Agent) -> bool:
    return isinstance(agent, BehaviourModel) and agent.features_of_states


def _with_inference(steps: RewardedSteps, agent: Agent) -> RewardedSteps:
    """The steps with how this agent's tasks are inferred."""
    if not isinstance(agent, BehaviourModel):
        return steps
    chosen = {"by_mean": agent.infers_by_mean, "prefers_regression": agent.prefers_regression}
    return dataclasses.replace(steps, **chosen)


def own_tasks(agent: Agent, seed: int) -> Callable[[], NDArray[np.float32]]:
    """A function that draws the agent's own tasks as in training, one at a time."""
    random = torch.Generator().manual_seed(seed)
    return lambda: agent.sample_tasks(1, random)[0].numpy()


def step_features(agent: Agent, steps: EpisodeSteps) -> NDArray[np.float32]:
    """phi of steps: [N, d]; d = 0 for agents without features."""
    return features(agent, steps.next_observation, steps.observation, steps.terminated)


@torch.inference_mode()
def features(
    agent: Agent,
    reached: NDArray,
    before: NDArray | None = None,
    terminated: NDArray[np.bool_] | None = None,
) -> NDArray[np.float32]:
    """phi of the steps that reach these observations: [N, ...] -> [N, d]; d = 0 without features."""
    if not isinstance(agent, BehaviourModel):
        return np.empty((len(reached), 0), np.float32)

    def part(array: NDArray | None, start: int) -> Tensor | None:
        if array is None:
            return None
        return torch.as_tensor(array[start : start + _BATCH], device=agent.device)

    parts = [np.empty((0, agent.task_size), np.float32)]
    for start in range(0, len(reached), _BATCH):
        observation = torch.as_tensor(reached[start : start + _BATCH], device=agent.device)
        steps = Transitions(observation, part(before, start), None, part(terminated, start))
        parts.append(agent.cumulant(steps).cpu().numpy())
    return np.concatenate(parts)
