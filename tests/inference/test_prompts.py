"""Steps from the environment, prompts, and tasks from estimates."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from visr import envs
from visr.agents.visr import Visr
from visr.config import InferenceConfig, RunConfig
from visr.envs.grid.env import GridVectorEnv
from visr.envs.grid.world import GridWorld
from visr.errors import UserError
from visr.inference import collect, grid_rewards, prompts
from visr.inference.prompts import Prompt, Reward
from visr.inference.steps import RewardedSteps, TriedTasks
from visr.inference.task_inference import TaskInference
from visr.storage.run_dir import RunDir
from visr.training.loop import new_agent
from visr.types import EnvSpec

PHI = np.eye(3, dtype=np.float32)


@pytest.fixture
def config(tiny: Any) -> RunConfig:
    return tiny(height=4, width=4, hidden_sizes=(8, 8), num_features=3)


@pytest.fixture
def agent(config: RunConfig) -> Visr:
    world = GridWorld.from_config(config.grid)
    agent = new_agent(config, EnvSpec(GridVectorEnv(world).single_observation_space, 4))
    assert isinstance(agent, Visr)
    return agent


def test_clipping_changes_rewards_and_leaves_returns():
    tried = TriedTasks(np.eye(3)[:1], np.array([7.0]))
    steps = RewardedSteps(PHI, np.array([5, -3, 0.5]), np.zeros(3, int), tried)
    assert steps.clipped().reward.tolist() == [1, -1, 0.5]
    assert steps.clipped().tried is tried
    assert steps.reward.tolist() == [5, -3, 0.5]


def test_blocks_of_episodes_add_up_to_the_sums_of_all_steps():
    random = np.random.default_rng(0)
    steps = RewardedSteps(
        random.normal(size=(50, 3)), random.normal(size=50), random.integers(7, size=50)
    )
    blocks = steps.blocks()
    assert len(blocks) == 7
    np.testing.assert_allclose(sum(b.moments for b in blocks), steps.sums().moments)


def test_blocks_of_many_steps_take_hardly_more_memory():
    def peak(num_steps: int) -> int:
        features = np.ones((num_steps, 3), np.float32)
        steps = RewardedSteps(features, np.ones(num_steps), np.arange(num_steps)[::-1] // 100)
        tracemalloc.start()
        assert len(steps.blocks()) == 200
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(400_000) - peak(100_000) < 3 * 300_000  # an argsort takes 16 bytes a step


def test_features_of_many_observations_equal_those_of_few(
    agent: Visr, monkeypatch: pytest.MonkeyPatch
):
    states = np.arange(16)
    at_once = collect.features(agent, states)
    monkeypatch.setattr(collect, "_BATCH", 5)
    np.testing.assert_allclose(collect.features(agent, states), at_once, atol=1e-6)
    with torch.inference_mode():
        np.testing.assert_allclose(at_once, agent.phi(torch.arange(16)).numpy(), atol=1e-6)
    assert collect.features(agent, states[:0]).shape == (0, 3)


def test_an_agent_draws_its_own_tasks_uniformly_and_by_seed(agent: Visr):
    draw, same, other = (collect.own_tasks(agent, seed) for seed in (0, 0, 1))
    drawn = np.stack([draw() for _ in range(2000)])
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.05)
    assert np.array_equal(same(), drawn[0])
    assert not np.array_equal(other(), drawn[0])


def test_cells_of_a_grid_are_steps_with_an_episode_each(
    config: RunConfig, agent: Visr, tmp_path: Path
):
    inference = TaskInference(agent, config, envs.space_codec(config), RunDir(tmp_path), 0)
    world = inference.world
    assert world is not None
    wanted = grid_rewards.of_cells("row", world)
    steps = inference._cells(wanted.values)
    assert steps.num_steps == steps.num_episodes == world.free.sum() == 16
    np.testing.assert_array_equal(steps.reward, np.arange(16) // 4)
    np.testing.assert_array_equal(steps.features, collect.features(agent, np.arange(16)))


def test_the_reward_prompt_finds_the_models_planted_task(agent: Visr):
    prompt: Prompt = Reward("planted")
    w = np.array([0.6, 0.0, -0.8])
    phi = collect.features(agent, np.arange(16))
    steps = RewardedSteps(phi, phi.astype(np.float64) @ w, np.arange(16))
    compared = prompt.infer(agent, lambda: steps)
    task = prompts.to_task(compared, "least squares", prompt.name, "a world")
    assert (task.name, task.env, task.method) == ("planted", "a world", "least squares")
    np.testing.assert_allclose(task.w, w, atol=1e-5)


def test_a_task_carries_the_validation_or_else_the_fit():
    random = np.random.default_rng(0)
    steps = RewardedSteps(random.normal(size=(90, 3)), random.normal(size=90), np.arange(90) // 10)
    compared = Reward("x").infer(None, lambda: steps)  # pyright: ignore
    task = prompts.to_task(compared, "ridge", "mine", "CartPole-v1")
    found, validation = compared.estimates["ridge"], compared.validations["ridge"]
    assert (task.method, task.num_steps, task.num_rewarded) == (found.method, 90, 90)
    assert np.array_equal(task.w, found.w)
    assert task.r_squared == validation.r_squared
    # 90 % of a normal distribution lie within 1.645 deviations
    np.testing.assert_allclose(task.standard_error * 2 * 1.645, np.ptp(validation.interval, axis=0))
    fitted = Reward("x", InferenceConfig()).infer(None, lambda: steps)  # pyright: ignore
    task = prompts.to_task(fitted, "best", "mine", "CartPole-v1")
    found = fitted.estimates["least squares"]
    assert task.r_squared == found.r_squared
    assert np.array_equal(task.standard_error, found.standard_error)


def test_an_unknown_method_is_refused_with_the_known_ones():
    steps = RewardedSteps(PHI, np.array([1.0, 2, 3]), np.arange(3))
    compared = Reward("x", InferenceConfig()).infer(None, lambda: steps)  # pyright: ignore
    with pytest.raises(UserError, match=r"no method 'guess' .* there are best, least squares"):
        prompts.to_task(compared, "guess", "x", "y")


@pytest.mark.parametrize(
    ("reward", "is_of_steps"),
    [("env", True), ("DATA.NPZ", True), (len, True), ("row > 2", False), ([[1, 2]], False)],
)
def test_rewards_of_steps_differ_from_rewards_of_cells(reward: Any, is_of_steps: bool):
    assert prompts.is_of_steps(reward) == is_of_steps


def test_collecting_needs_an_episode_and_a_step(agent: Visr, config: RunConfig):
    wrong: list[dict[str, Any]] = [{"num_episodes": 0}, {"num_steps": 0}]
    for counts in wrong:
        with pytest.raises(UserError, match=r"must be at least 1|does not lie between 1 and"):
            collect.collect_rewarded(agent, config, **counts)
