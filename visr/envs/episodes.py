"""Whole episodes, many environments side by side; as many as asked for, none preferred for being short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float32]


class Player(Protocol):
    """Whoever can play: `visr.agents.epsilon_greedy_actor.EpsilonGreedyActor`, or somebody else's policy."""

    task_size: int

    def pursue(self, w: Tensor) -> None:
        """The tasks from now on: [N, task size]."""
        ...

    def act(self, observation: NDArray, starts: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Actions for observations [N, ...]; `starts` tells which of them begin an episode."""
        ...


class Moment(NamedTuple):
    """One step of the environments that are playing."""

    episode: NDArray[np.intp]
    """[n], whose step it was."""
    before: NDArray
    """[n, ...], the observations that were left."""
    action: NDArray[np.int64]
    reached: NDArray
    """[n, ...], the observations that followed."""
    reward: Floats


Watch = Callable[[Moment], None]


@dataclass
class Episode:
    """What one episode came to."""

    w: Floats
    """[d], the task it began with."""
    score: float = 0.0
    """The sum of raw rewards."""
    num_steps: int = 0
    is_finished: bool = False
    """False if the budget of steps ran out first."""


@dataclass
class Choice:
    """Which task an episode pursues, and for how long."""

    draw: Callable[[], Floats]
    """The next task, [d]."""
    lasts: int = 0
    """Steps before another is drawn; 0: the whole episode."""


@dataclass
class _Stage:
    """Who plays which episode."""

    episodes: list[Episode] = field(default_factory=list)
    playing: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """[N], the episode of each environment; -1 for one that only waits for the others."""


def play(
    player: Player,
    env: VectorEnv,
    choice: Choice,
    num_episodes: int,
    *,
    seed: int,
    max_steps: int | None = None,
    watch: Watch | None = None,
) -> list[Episode]:
    """Play exactly `num_episodes`, each in whichever environment is free, or until `max_steps` in all."""
    stage = _Stage(playing=np.full(env.num_envs, -1, dtype=np.intp))
    tasks = np.zeros((env.num_envs, player.task_size), dtype=np.float32)
    observation, _ = env.reset(seed=seed)
    starts, ended = np.ones(env.num_envs, dtype=np.bool_), np.zeros(env.num_envs, dtype=np.bool_)
    num_steps = 0
    while max_steps is None or num_steps < max_steps:
        earlier = tasks.copy()
        _begin(stage, tasks, choice, starts, num_episodes)
        if len(stage.episodes) >= num_episodes and (stage.playing < 0).all():
            break
        _renew(stage, tasks, choice)
        if num_steps == 0 or (tasks != earlier).any():
            player.pursue(torch.from_numpy(tasks.copy()))
        action = player.act(observation, starts)
        before = observation
        observation, reward, terminated, truncated, _ = env.step(action)
        happened = ~ended & (stage.playing >= 0)
        for index in np.flatnonzero(happened):
            episode = stage.episodes[stage.playing[index]]
            episode.score += float(reward[index])
            episode.num_steps += 1
        num_steps += int(happened.sum())
        if watch:
            watch(
                Moment(
                    stage.playing[happened],
                    before[happened],
                    action[happened],
                    observation[happened],
                    reward[happened],
                )
            )
        starts, ended = ended, terminated | truncated
        for index in np.flatnonzero(ended & happened):
            stage.episodes[stage.playing[index]].is_finished = True
            stage.playing[index] = -1
    return stage.episodes


class EpisodeReturns:
    """Returns of N environments, summed from raw rewards."""

    def __init__(self, num_envs: int, dtype: torch.dtype = torch.float32) -> None:
        self.running = torch.zeros(num_envs, dtype=dtype)
        """[N], of the episodes that have not ended."""

    def add(self, reward: Tensor, is_reset: Tensor) -> list[float]:
        """Add T steps, [T, N] each; the returns of the episodes that ended before a step that only resets."""
        finished: list[float] = []
        for rewards, resets in zip(reward, is_reset, strict=True):
            finished += self.running[resets].tolist()
            self.running = torch.where(resets, 0.0, self.running + rewards)
        return finished

    def clear(self) -> None:
        """Start all returns at 0."""
        self.running = torch.zeros_like(self.running)


def whole(episodes: list[Episode]) -> list[Episode]:
    """Those whose score is of a whole episode; where none is, all of them are as good as one another."""
    return [episode for episode in episodes if episode.is_finished] or episodes


def _begin(
    stage: _Stage, tasks: Floats, choice: Choice, starts: NDArray[np.bool_], num_episodes: int
) -> None:
    """Give environments that stand at an episode's start the next one, while there are any."""
    for index in np.flatnonzero(starts & (stage.playing < 0)):
        if len(stage.episodes) < num_episodes:
            tasks[index] = choice.draw()
            stage.playing[index] = len(stage.episodes)
            stage.episodes.append(Episode(w=tasks[index].copy()))


def _renew(stage: _Stage, tasks: Floats, choice: Choice) -> None:
    """Draw another task where one has lasted long enough."""
    if not choice.lasts:
        return
    for index in np.flatnonzero(stage.playing >= 0):
        age = stage.episodes[stage.playing[index]].num_steps
        if age and age % choice.lasts == 0:
            tasks[index] = choice.draw()
