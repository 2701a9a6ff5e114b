"""The paper's second phase: meet rewards for a little while, infer a task, play it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from visr import atari_games, envs
from visr.agents.base import Agent
from visr.agents.epsilon_greedy_actor import EpsilonGreedyActor
from visr.agents.visr import Visr
from visr.config import RunConfig
from visr.envs.episodes import Choice, Episode, Moment, Player, play, whole
from visr.errors import UserError
from visr.inference import regression
from visr.ops import sphere
from visr.ops.regression import RewardSums, explained
from visr.ops.rng import derived
from visr.storage.records.task import Task
from visr.storage.records.two_phase import AS_TRAINED, UNADAPTED, UNTRAINED
from visr.types import Transitions

NUM_EPISODES, NUM_STEPS, NUM_TRIALS = 50, 100_000, 30
"""The paper's: episodes or steps with rewards, whichever comes first; episodes that judge a task."""
_SIDE_BY_SIDE = 10
ACTIONS = 1
"""Derives the seed of actions, so that tasks, actions and games share no random draws."""


@dataclass(frozen=True, eq=False)
class Rewarded:
    """What was seen with rewards on: 50 episodes, each with a task of its own; nothing without adaptation."""

    episodes: list[Episode]
    phi: NDArray[np.float32]
    """[N, d], of the state that each step reached; d = 0 for agents without features."""
    reward: NDArray[np.float32]
    """[N], raw."""
    episode: NDArray[np.intp]
    """[N], which episode the step belongs to."""


@dataclass(frozen=True)
class Scores:
    """How well one way to act did, in raw scores of whole episodes."""

    name: str
    scores: list[float]
    num_steps: list[int]
    human_normalised: float | None
    """100 * (mean - random) / (human - random) with the published scores, for Atari games."""

    @property
    def mean(self) -> float:
        """The mean score."""
        return float(np.mean(self.scores))

    @property
    def standard_error(self) -> float:
        """Of the mean, over episodes."""
        count = len(self.scores)
        return float(np.std(self.scores, ddof=1) / math.sqrt(count)) if count > 1 else math.nan


NOTHING = Rewarded([], np.empty((0, 0), np.float32), np.empty(0, np.float32), np.empty(0, np.intp))


@torch.inference_mode()
def meet_rewards(
    agent: Agent,
    config: RunConfig,
    *,
    num_episodes: int = NUM_EPISODES,
    num_steps: int = NUM_STEPS,
    seed: int = 0,
    choice: Choice | None = None,
) -> Rewarded:
    """Play with a task per episode, drawn as in training, and keep phi(s') and r of every step."""
    for name, value in (("num_episodes", num_episodes), ("num_steps", num_steps)):
        if value < 1:
            raise UserError(f"{name} = {value} must be at least 1.")
    choice = choice or Choice(own_tasks(agent, seed))
    env = envs.make_vec(config, min(_SIDE_BY_SIDE, num_episodes))
    random = torch.Generator().manual_seed(derived(seed, ACTIONS))
    actor = EpsilonGreedyActor(agent, env.num_envs, epsilon=config.agent.epsilon, random=random)
    phi, reward, which = [], [], []

    def watch(moment: Moment) -> None:
        if len(moment.episode):
            phi.append(_features(agent, moment.reached))
            reward.append(np.asarray(moment.reward, dtype=np.float32))
            which.append(moment.episode.copy())

    episodes = play(actor, env, choice, num_episodes, seed=seed, max_steps=num_steps, watch=watch)
    env.close()
    return Rewarded(episodes, np.concatenate(phi), np.concatenate(reward), np.concatenate(which))


def _features(agent: Agent, observations: NDArray) -> NDArray[np.float32]:
    if not isinstance(agent, Visr):
        return np.empty((len(observations), 0), np.float32)
    reached = torch.as_tensor(observations, device=agent.device)
    return agent.cumulant(Transitions(reached)).cpu().numpy()


def by_regression(seen: Rewarded, config: RunConfig, clip: bool | None = None) -> Task:
    """Least squares on all steps; rewards clipped to [-1, 1] unless told otherwise."""
    clip = config.inference.clip_rewards if clip is None else clip
    reward = np.clip(seen.reward, -1, 1) if clip else seen.reward
    if not reward.any():
        raise UserError(
            f"No reward was seen in {len(reward):,} steps, so there is nothing to infer a task from; "
            "give it more episodes (--episodes, --steps) or train longer."
        )
    return regression.by_regression(
        seen.phi,
        reward.astype(np.float64),
        config.inference,
        name="env-regression",
        env=config.env,
    )


def by_search(seen: Rewarded, config: RunConfig) -> Task:
    """The task whose episodes had the highest mean return; mostly it has only one.

    Episodes that the budget of steps cut short are left out: where rewards are costs, they would win.
    """
    returns: dict[bytes, list[Episode]] = {}
    judged = whole(seen.episodes)
    for episode in judged:
        returns.setdefault(episode.w.tobytes(), []).append(episode)
    means = {key: float(np.mean([e.score for e in those])) for key, those in returns.items()}
    best = max(means, key=lambda key: means[key])
    w = returns[best][0].w.astype(np.float64)
    num_tasks, num_episodes = len(means), len(judged)
    if num_tasks == num_episodes:
        method = f"random search over {num_episodes} episodes, best return {means[best]:g}"
    else:
        method = f"search over {num_tasks} tasks in {num_episodes} episodes, best mean return {means[best]:g}"
    return Task(
        name="env-search",
        env=config.env,
        w=w / np.linalg.norm(w),
        method=method,
        r_squared=_explained(seen, w),
        condition_number=math.inf,
        standard_error=np.full(len(w), math.inf),
        num_steps=len(seen.reward),
        num_rewarded=int(np.count_nonzero(seen.reward)),
    )


def _explained(seen: Rewarded, w: NDArray[np.float64]) -> float:
    """The share of the rewards' variance along w; none where there are no features."""
    if seen.phi.shape[1] != len(w):
        return 0.0
    sums = RewardSums(len(w))
    sums.add(seen.phi, seen.reward.astype(np.float64))
    return explained(sums, w)


def try_task(
    agent: Agent,
    config: RunConfig,
    name: str,
    choice: Choice,
    *,
    num_episodes: int = NUM_TRIALS,
    epsilon: float | None = None,
    gpi: bool | None = None,
    seed: int = 1,
) -> Scores:
    """Play whole episodes and keep their raw scores."""
    epsilon = config.agent.exploration if epsilon is None else epsilon
    env: VectorEnv = envs.make_vec(config, min(_SIDE_BY_SIDE, num_episodes))
    random = torch.Generator().manual_seed(derived(seed, ACTIONS))
    actor = EpsilonGreedyActor(agent, env.num_envs, epsilon=epsilon, gpi=gpi, random=random)
    scores = score(actor, env, config, name, choice, num_episodes, seed)
    env.close()
    return scores


def score(
    player: Player,
    env: VectorEnv,
    config: RunConfig,
    name: str,
    choice: Choice,
    num_episodes: int,
    seed: int,
) -> Scores:
    """What any player's whole episodes come to."""
    episodes = play(player, env, choice, num_episodes, seed=seed)
    scores = [episode.score for episode in episodes]
    game = atari_games.by_id(config.env)
    normalised = atari_games.human_normalised(float(np.mean(scores)), game) if game else None
    return Scores(name, scores, [episode.num_steps for episode in episodes], normalised)


def judge(
    agent: Agent,
    config: RunConfig,
    tasks: dict[str, Task],
    *,
    num_episodes: int = NUM_TRIALS,
    seed: int = 1,
) -> Iterator[Scores]:
    """Each task for 30 episodes; then no adaptation at all, and uniformly random actions."""
    unadapted = Choice(own_tasks(agent, seed), config.training.unroll_length)
    ways: list[tuple[str, Choice, float | None]]
    ways = [(name, always(task), None) for name, task in tasks.items()]
    if config.agent.algorithm != "uniform":
        ways.append((UNADAPTED if agent.task_size > 1 else AS_TRAINED, unadapted, None))
    ways.append((UNTRAINED, Choice(own_tasks(agent, seed)), 1.0))
    for name, choice, epsilon in ways:
        yield try_task(
            agent, config, name, choice, num_episodes=num_episodes, epsilon=epsilon, seed=seed
        )


def always(task: Task) -> Choice:
    """One task for every episode."""
    w = task.w.astype(np.float32)
    return Choice(lambda: w)


def own_tasks(agent: Agent, seed: int) -> Callable[[], NDArray[np.float32]]:
    """Tasks as an agent draws them in training, one at a time."""
    random = torch.Generator().manual_seed(seed)
    return lambda: agent.sample_tasks(1, random)[0].numpy()


def uniform_tasks(d: int, seed: int) -> Callable[[], NDArray[np.float32]]:
    """Tasks drawn uniformly from the sphere, one at a time."""
    random = torch.Generator().manual_seed(seed)
    return lambda: sphere.uniform(1, d=d, generator=random)[0].numpy()
