"""Whole episodes: exactly as many as asked for, each played to its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from visr.envs import episodes
from visr.envs.episodes import Episode, EpisodeSteps, TaskSchedule

ON_RESET = 999.0
"""What a step that only resets pays here, so that counting it would show."""


class Clockwork(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Every environment has episodes of its own length; the step that reaches age k pays k.

    An observation is (how many episodes began here before, age).
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, *lengths: int, truncates: bool = False) -> None:
        self.num_envs, self._lengths, self._truncates = len(lengths), np.array(lengths), truncates

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._age, self._number = np.zeros((2, self.num_envs), dtype=np.int64)
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        return self._observe(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        fresh = self._ended
        self._age = np.where(fresh, 0, self._age + 1)
        self._number = self._number + fresh
        self._ended = self._age == self._lengths
        reward = np.where(fresh, ON_RESET, self._age).astype(np.float32)
        never = np.zeros_like(self._ended)
        ends = (never, self._ended) if self._truncates else (self._ended, never)
        return self._observe(), reward, *ends, {}

    def _observe(self) -> NDArray[np.int64]:
        return np.stack([self._number, self._age], axis=1)


@dataclass
class Passenger:
    """An actor that records its observations and tasks and always takes action 0."""

    task_size: int = 2
    tasks: list[list[float]] = field(default_factory=list)
    """The first component of each environment's task, at every step."""
    starts: list[list[bool]] = field(default_factory=list)
    seen: list[NDArray[np.int64]] = field(default_factory=list)
    num_pursued: int = 0

    def pursue(self, w: torch.Tensor) -> None:
        self._w, self.num_pursued = w.clone(), self.num_pursued + 1

    def act(self, observation: NDArray[np.int64], starts: NDArray[np.bool_]) -> NDArray[np.int64]:
        self.tasks.append(self._w[:, 0].tolist())
        self.starts.append(starts.tolist())
        self.seen.append(observation)
        return np.zeros(len(observation), dtype=np.int64)


def numbered(period: int = 0) -> TaskSchedule:
    """Tasks (1, 0), (2, 0), ... in the order they are drawn."""
    count = iter(range(1, 1000))
    return TaskSchedule(lambda: np.array([next(count), 0], dtype=np.float32), period)


def play(
    env: Clockwork, num_episodes: int, schedule: TaskSchedule | None = None, **rest: Any
) -> Any:
    """Episodes, and the passenger's notes."""
    player: Any = Passenger()
    return episodes.play_episodes(
        player, env, schedule or numbered(), num_episodes, seed=0, **rest
    ), player


def lengths(played: list[Episode]) -> list[int]:
    return [episode.num_steps for episode in played]


@pytest.mark.parametrize("num_episodes", [0, 1, 2, 3, 4, 7, 20])
@pytest.mark.parametrize("env", [(3,), (3, 3), (4, 4, 4), (2, 9), (1, 2, 3, 5), (1, 1)])
@pytest.mark.parametrize("truncates", [False, True])
def test_exactly_as_many_as_asked_are_played_to_their_end(
    env: tuple[int, ...], num_episodes: int, truncates: bool
):
    # Also where all environments end, and so reset, at the same step.
    played, _ = play(Clockwork(*env, truncates=truncates), num_episodes)
    assert len(played) == num_episodes
    assert all(episode.is_finished for episode in played)


def test_short_episodes_are_not_preferred():
    # Environment 0 begins at t = 0, 3, 6, 9, 12, ..., environment 1 at 0, 10, ...: taking the first seven
    # to *end* would be 2, 2, 2, 2, 9, 2, 2; the first seven to *begin* are
    played, _ = play(Clockwork(2, 9), 7)
    assert lengths(played) == [2, 9, 2, 2, 2, 9, 2]


def test_the_last_episode_is_played_to_its_end():
    played, _ = play(Clockwork(2, 50), 2)
    assert lengths(played) == [2, 50]


def test_scores_are_sums_across_auto_resets():
    # 1 + 2 = 3, 1 + ... + 9 = 45; the 999 of a reset must not count
    played, _ = play(Clockwork(2, 9), 7)
    assert [episode.score for episode in played] == [3, 45, 3, 3, 3, 45, 3]


def test_idle_environments_are_not_counted():
    # One episode is asked of three environments, then four: the others' steps do not count.
    for num_episodes, expected in ((1, [5]), (4, [5, 2, 3, 2])):
        watched: list[tuple[list[int], list[list[int]], list[float]]] = []

        def watch(steps: EpisodeSteps, log: Any = watched) -> None:
            playing, reached, reward = steps.episode, steps.next_observation, steps.reward
            log.append((playing.tolist(), reached.tolist(), reward.tolist()))

        played, _ = play(Clockwork(5, 2, 3), num_episodes, on_step=watch)
        assert lengths(played) == expected
        steps = [
            (n, age, gained)
            for playing, reached, reward in watched
            for n, (_, age), gained in zip(playing, reached, reward, strict=True)
        ]
        assert len(steps) == sum(expected)
        for number, length in enumerate(expected):
            mine = [(age, gained) for n, age, gained in steps if n == number]
            assert mine == [(age, float(age)) for age in range(1, length + 1)]


def test_the_actor_knows_where_episodes_start():
    _, player = play(Clockwork(2, 5, 3), 9)
    for starts, seen in zip(player.starts, player.seen, strict=True):
        assert starts == (seen[:, 1] == 0).tolist()


def test_a_task_lasts_for_its_whole_episode():
    played, player = play(Clockwork(2, 9), 5)
    assert [episode.w[0] for episode in played] == [1, 2, 3, 4, 5]
    # t           0  1  .  3  4  .  6  7  .  9 10
    # env 0       1  1  .  3  3  .  4  4  .  5  5     a dot is a step that only resets
    # env 1       2  2  2  2  2  2  2  2  2
    first, second = zip(*player.tasks, strict=True)
    assert [first[t] for t in (0, 1, 3, 4, 6, 7, 9, 10)] == [1, 1, 3, 3, 4, 4, 5, 5]
    assert list(second[:9]) == [2] * 9
    assert player.num_pursued == 4  # at t = 0, 3, 6 and 9: readouts are folded only for new tasks


def test_a_task_can_last_for_a_number_of_steps():
    # t           0  1  2  3  4  5  6  .  8  9 10 11 ...
    # age         0  1  2  3  4  5  6     0  1  2  3
    played, player = play(Clockwork(7), 2, numbered(period=3))
    tasks = [task for (task,) in player.tasks]
    assert tasks[:7] == [1, 1, 1, 2, 2, 2, 3]
    assert tasks[8:] == [4, 4, 4, 5, 5, 5, 6]
    assert [episode.w[0] for episode in played] == [1, 4]  # what each began with


def test_a_budget_of_steps_stops_in_the_middle():
    # Two environments: six steps are three of each.
    played, player = play(Clockwork(9, 9), 5, max_steps=6)
    assert lengths(played) == [3, 3]
    assert [episode.score for episode in played] == [6, 6]
    assert not any(episode.is_finished for episode in played)
    assert len(player.seen) == 3


def test_a_budget_counts_only_steps_that_happened():
    # Resets and idle environments are free: 2 + 2 + 1 in five steps of one environment, t = 0 to 6.
    played, player = play(Clockwork(2), 5, max_steps=5)
    assert lengths(played) == [2, 2, 1]
    assert [episode.is_finished for episode in played] == [True, True, False]
    assert len(player.seen) == 7


def test_a_large_budget_does_not_change_the_episodes():
    with_budget, without = (play(Clockwork(2, 5), 6, max_steps=m)[0] for m in (10**6, None))
    assert lengths(with_budget) == lengths(without)


def test_episodes_without_an_end_are_cut_and_the_next_ones_start_anew():
    played, player = play(Clockwork(10**9, 10**9), 5, max_episode_steps=4)
    assert lengths(played) == [4] * 5
    assert [episode.score for episode in played] == [10] * 5
    assert not any(episode.is_finished for episode in played)
    assert [all(starts) for starts in player.starts] == [True, False, False, False] * 3


def test_an_environment_whose_episode_was_cut_starts_the_next_one_at_its_own_reset():
    played, _ = play(Clockwork(2, 6), 6, max_episode_steps=4)
    assert lengths(played) == [2, 4, 2, 2, 4, 2]
    assert [episode.is_finished for episode in played] == [True, False, True, True, False, True]
