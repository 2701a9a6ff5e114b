"""The simulated environment: Gymnasium's rules, and PPO in a model that is right."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from torch import Tensor

from visr import config as configuration
from visr.config import presets
from visr.envs.grid.world import GridWorld
from visr.paper.baselines.simple import MINATAR
from visr.paper.baselines.simple.env import SimulatedEnv
from visr.paper.baselines.simple.model import LearnedModel, Prediction
from visr.paper.baselines.simple.policy import PolicyLearner

SIDE, GOAL = 4, 15
PLANE = Box(0, 1, (1, SIDE, SIDE), np.uint8)
WORLD = GridWorld(SIDE, SIDE)


def planes(states: Tensor) -> Tensor:
    """A plane with one cell set for each state: [...] -> [..., 1, SIDE, SIDE]"""
    found = torch.nn.functional.one_hot(states, SIDE * SIDE).to(torch.uint8)
    return found.view(*states.shape, 1, SIDE, SIDE)


class GridModel:
    """The grid itself as a perfect model: its transition table, and a reward of 1 at the goal."""

    def predict(self, history: Tensor, action: Tensor, rng: torch.Generator) -> Prediction:
        state = history[:, -1].flatten(1).argmax(dim=1)
        after = torch.from_numpy(WORLD.transitions)[state, action]
        return Prediction(planes(after), (after == GOAL).float(), after == GOAL)


def starts(count: int, rng: torch.Generator) -> Tensor:
    """Any cell but the goal, seen for the first time."""
    history = torch.zeros(count, 4, 1, SIDE, SIDE, dtype=torch.uint8)
    history[:, -1] = planes(torch.randint(GOAL, (count,), generator=rng))
    return history


def simulated(num_envs: int, rollout_length: int = 50, **options: Any) -> SimulatedEnv:
    return SimulatedEnv(GridModel(), starts, PLANE, 4, num_envs, rollout_length, **options)


class Single(gymnasium.Env):
    """One of a vector environment's environments, as Gymnasium's checker wants it."""

    def __init__(self, env: VectorEnv) -> None:
        self._env = env
        self.observation_space, self.action_space = (
            env.single_observation_space,
            env.single_action_space,
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return self._env.reset(seed=seed)[0][0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        observation, reward, terminated, truncated, _ = self._env.step(np.array([action]))
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}


def test_gymnasiums_checker_passes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*spec.*")
        check_env(Single(simulated(1)), skip_render_check=True)


def test_gymnasiums_checker_passes_with_a_learnt_model_of_stacked_screens():
    from visr.paper.baselines.simple.frame_distributions import Pixels
    from visr.paper.baselines.simple.network import WorldNetwork

    network = WorldNetwork((1, 12, 12), 3, Pixels(1), replace(MINATAR, widths=(4, 4), num_bits=4))
    env = SimulatedEnv(
        LearnedModel(network),
        lambda count, rng: torch.zeros(count, 4, 1, 12, 12, dtype=torch.uint8),
        Box(0, 255, (4, 12, 12), np.uint8),
        3,
        num_envs=1,
        rollout_length=5,
        stacked=True,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*spec.*")
        check_env(Single(env), skip_render_check=True)


def test_an_episode_ends_after_its_steps_and_the_next_step_starts_another():
    env = simulated(2, rollout_length=2)
    env.reset(seed=0)
    up = np.array([0, 0])
    assert env.step(up)[3].tolist() == [False, False]
    assert env.step(up)[3].tolist() == [True, True]
    observation, reward, terminated, truncated, _ = env.step(up)
    assert (reward.tolist(), terminated.any(), truncated.any()) == ([0.0, 0.0], False, False)
    assert observation.sum(axis=(1, 2, 3)).tolist() == [1, 1]
    assert env.step(up)[3].tolist() == [False, False]
    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP


def test_a_mask_resets_only_its_environments():
    env = simulated(3)
    before, _ = env.reset(seed=4)
    after, _ = env.reset(options={"reset_mask": np.array([False, True, False])})
    assert (after[[0, 2]] == before[[0, 2]]).all()


def test_the_seed_determines_an_episode():
    def play(seed: int) -> list[list[float]]:
        env = simulated(5, rollout_length=4)
        env.reset(seed=seed)
        return [env.step(np.arange(5) % 4)[0].ravel().tolist() for _ in range(12)]

    assert play(1) == play(1)
    assert play(1) != play(2)


def test_actions_before_a_reset_are_refused():
    with pytest.raises(gymnasium.error.ResetNeeded):
        simulated(1).step(np.array([0]))


class GridPlanes(gymnasium.Env):
    """The grid itself, step by step."""

    observation_space = PLANE
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self._state, self._age = int(self.np_random.integers(GOAL)), 0
        return planes(torch.tensor(self._state)).numpy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self._state, self._age = int(WORLD.transitions[self._state, action]), self._age + 1
        ended = self._state == GOAL
        seen = planes(torch.tensor(self._state)).numpy()
        return seen, float(ended), ended, self._age >= 50 and not ended, {}


def shortest_share(learner: PolicyLearner) -> float:
    """The share of cells from which the most likely actions take a shortest way to the goal."""
    cells = planes(torch.arange(SIDE * SIDE)).numpy()
    actions, _ = learner.ppo.predict(cells, deterministic=True)
    found = 0
    for start in range(GOAL):
        state, steps = start, 0
        while state != GOAL and steps < 2 * SIDE:
            state, steps = int(WORLD.transitions[state, actions[state]]), steps + 1
        shortest = (SIDE - 1 - start // SIDE) + (SIDE - 1 - start % SIDE)
        found += state == GOAL and steps == shortest
    return found / GOAL


def test_ppo_in_a_perfect_model_learns_as_in_the_grid_itself():
    settings = replace(MINATAR, num_simulated_envs=16, batch_size=200)
    config = configuration.replace(presets.get("minatar"), gamma=0.9)
    shares = []
    grid = SyncVectorEnv([GridPlanes] * 16, autoreset_mode=AutoresetMode.DISABLED)
    for env in (simulated(16), grid):
        learner = PolicyLearner(env, config, settings)
        assert shortest_share(learner) < 0.9
        for index in range(14):
            learner.learn(seed=index, is_first=index == 0)
        assert (learner.num_steps, learner.num_updates) == (14 * 800, 14 * 4 * 4)
        shares.append(shortest_share(learner))
    assert min(shares) >= 0.9
