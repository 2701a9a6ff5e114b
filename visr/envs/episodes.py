"""Whole episodes in parallel environments: a fixed number, so that means are not biased to short ones."""

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
Bools = NDArray[np.bool_]


class TaskActor(Protocol):
    """Acts in N environments, each with a task: `EpsilonGreedyActor`, or a baseline's policy."""

    task_size: int

    def pursue(self, w: Tensor) -> None:
        """Set the tasks: [N, task size]."""
        ...

    def act(self, observation: NDArray, starts: Bools) -> NDArray[np.int64]:
        """Actions for observations [N, ...]; `starts` [N] marks those that begin an episode."""
        ...


class EpisodeSteps(NamedTuple):
    """One step of each of the n environments that are playing."""

    episode: NDArray[np.intp]
    """[n], the number of its episode."""
    observation: NDArray
    """[n, ...]"""
    action: NDArray[np.int64]
    """[n]"""
    next_observation: NDArray
    """[n, ...]"""
    reward: Floats
    """[n]"""
    terminated: Bools | None = None
    """[n], whether the episode ended with this step; None where that is not known."""


@dataclass
class Episode:
    """The task and the return of one episode."""

    w: Floats = field(repr=False)
    """[d], the task it began with."""
    score: float = 0.0
    """The sum of raw rewards."""
    num_steps: int = 0
    is_finished: bool = False
    """False if it was cut short."""
    asked_return: float = 0.0
    """The sum of the asked reward, where episodes are played for a task."""


@dataclass
class TaskSchedule:
    """Which tasks an episode pursues."""

    draw: Callable[[], Floats]
    """The next task, [d]."""
    period: int = 0
    """Steps until the next task is drawn; 0: one task for the whole episode."""


def play_episodes(
    actor: TaskActor,
    env: VectorEnv,
    schedule: TaskSchedule,
    num_episodes: int,
    *,
    seed: int,
    max_steps: int | None = None,
    max_episode_steps: int | None = None,
    on_step: Callable[[EpisodeSteps], None] | None = None,
) -> list[Episode]:
    """Play `num_episodes` episodes, or until `max_steps` in all; a free environment starts the next one.

    An episode is cut after `max_episode_steps`. Its environment is free again when its own episode ends, or
    when all are reset because all were cut.
    """
    slots = _Slots(env.num_envs, actor.task_size, schedule)
    observation, _ = env.reset(seed=seed)
    starts, ended = np.ones(env.num_envs, dtype=np.bool_), np.zeros(env.num_envs, dtype=np.bool_)
    num_steps = 0
    while max_steps is None or num_steps < max_steps:
        earlier = slots.w.copy()
        slots.start(starts, num_episodes)
        if len(slots.episodes) >= num_episodes and (slots.playing < 0).all():
            break
        if (slots.playing < 0).all() and not ended.any():  # all were cut
            observation, _ = env.reset(seed=seed + len(slots.episodes))
            starts, ended = np.ones_like(starts), np.zeros_like(ended)
            continue
        slots.renew()
        if num_steps == 0 or (slots.w != earlier).any():
            actor.pursue(torch.from_numpy(slots.w.copy()))
        action, before = actor.act(observation, starts), observation
        observation, reward, terminated, truncated, _ = env.step(action)
        # an environment that ended only resets in this step
        happened = ~ended & (slots.playing >= 0)
        steps = EpisodeSteps(
            slots.playing[happened],
            before[happened],
            action[happened],
            observation[happened],
            reward[happened],
            terminated[happened],
        )
        slots.add(steps)
        num_steps += len(steps.episode)
        if on_step and len(steps.episode):
            on_step(steps)
        starts, ended = ended, terminated | truncated
        slots.finish(ended & happened)
        if max_episode_steps is not None:
            slots.cut(max_episode_steps)
    return slots.episodes


class _Slots:
    """Which episode and which task each environment has."""

    def __init__(self, num_envs: int, task_size: int, schedule: TaskSchedule) -> None:
        self._schedule = schedule
        self.episodes: list[Episode] = []
        self.playing = np.full(num_envs, -1, dtype=np.intp)
        """[N], the episode of each environment; -1 for none."""
        self.w = np.zeros((num_envs, task_size), dtype=np.float32)

    def start(self, starts: Bools, num_episodes: int) -> None:
        """Start the next episodes in environments that are free."""
        for index in np.flatnonzero(starts & (self.playing < 0)):
            if len(self.episodes) < num_episodes:
                self.w[index] = self._schedule.draw()
                self.playing[index] = len(self.episodes)
                self.episodes.append(Episode(w=self.w[index].copy()))

    def renew(self) -> None:
        """Draw the next task where the period of the last one is over."""
        if not self._schedule.period:
            return
        for index in np.flatnonzero(self.playing >= 0):
            age = self.episodes[self.playing[index]].num_steps
            if age and age % self._schedule.period == 0:
                self.w[index] = self._schedule.draw()

    def add(self, steps: EpisodeSteps) -> None:
        for number, reward in zip(steps.episode, steps.reward, strict=True):
            self.episodes[number].score += float(reward)
            self.episodes[number].num_steps += 1

    def finish(self, ended: Bools) -> None:
        for index in np.flatnonzero(ended):
            self.episodes[self.playing[index]].is_finished = True
            self.playing[index] = -1

    def cut(self, max_episode_steps: int) -> None:
        for index in np.flatnonzero(self.playing >= 0):
            if self.episodes[self.playing[index]].num_steps >= max_episode_steps:
                self.playing[index] = -1


def finished(episodes: list[Episode]) -> list[Episode]:
    """Those that the step budget did not cut short; all of them if it cut every one."""
    return [episode for episode in episodes if episode.is_finished] or episodes


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
