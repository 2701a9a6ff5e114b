"""The second phase: rewards are collected, tasks are inferred, episodes are scored."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from visr import config as configuration
from visr import envs
from visr.agents.visr import Visr
from visr.config import RunConfig
from visr.envs.grid.env import GridVectorEnv
from visr.envs.grid.world import GridWorld
from visr.evaluation import two_phase
from visr.inference import collect
from visr.inference.collect import ACTIONS, collect_rewarded, own_tasks
from visr.inference.steps import RewardedSteps, TriedTasks
from visr.ops import derived_seed
from visr.storage.records.task import Task
from visr.storage.records.two_phase import UNADAPTED, UNTRAINED, Condition, TwoPhase
from visr.storage.run_dir import RunDir
from visr.training.loop import new_agent
from visr.types import EnvSpec

STEPS = 9
"""Of every episode."""


@pytest.fixture
def config(tiny: Any) -> RunConfig:
    return tiny(height=4, width=4, max_episode_steps=STEPS, hidden_sizes=(16, 16), num_features=3)


@pytest.fixture
def agent(config: RunConfig) -> Visr:
    world = GridWorld.from_config(config.grid)
    agent = new_agent(config, EnvSpec(GridVectorEnv(world).single_observation_space, 4))
    assert isinstance(agent, Visr)
    return agent


@pytest.fixture
def pay(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes the environment pay a reward [S] on arrival."""

    def rewarding(reward: Any) -> None:
        world = GridWorld.from_config(config.grid)

        def make_vec(_: RunConfig, num_envs: int) -> GridVectorEnv:
            paid = np.broadcast_to(reward, world.num_states)
            return GridVectorEnv(world, num_envs, max_episode_steps=STEPS, reward=paid)

        monkeypatch.setattr(envs, "make_vec", make_vec)

    return rewarding


W = np.array([0.6, -0.48, 0.64])


@torch.no_grad()
def planted(agent: Visr, scale: float = 1.0) -> NDArray[np.float64]:
    """The reward phi(s') . w of every state."""
    return agent.phi(torch.arange(16)).numpy() @ (scale * W)


def seen(reward: Any, returns: Any = (0.0,)) -> RewardedSteps:
    """Steps whose features are the unit vectors in turn, and episodes with these returns, likewise."""
    reward = np.asarray(reward, dtype=np.float64)
    phi = np.eye(3, dtype=np.float32)[np.arange(len(reward)) % 3]
    tried = TriedTasks(np.eye(3)[np.arange(len(returns)) % 3], np.asarray(returns, dtype=float))
    return RewardedSteps(phi, reward, np.zeros(len(reward), dtype=np.intp), tried)


def task(w: Any = (0, 1, 0)) -> Task:
    return Task("x", "visr/Grid-v0", np.asarray(w))


def lengths(steps: RewardedSteps) -> list[int]:
    return np.bincount(steps.episode).tolist()


# --- collecting rewards


def test_every_step_of_every_episode_is_kept(agent: Visr, config: RunConfig, pay: Any):
    # 12 episodes of 9 steps, ten at a time and all of them resetting at once
    pay(2.5)
    steps = collect_rewarded(agent, config, num_episodes=12)
    assert lengths(steps) == [STEPS] * 12
    assert steps.tried is not None
    assert steps.tried.returns.tolist() == [2.5 * STEPS] * 12
    assert steps.reward.tolist() == [2.5] * 12 * STEPS  # raw
    np.testing.assert_allclose(np.linalg.norm(steps.features, axis=1), 1, rtol=1e-5)


def test_the_rewards_of_an_episode_add_up_to_its_return(agent: Visr, config: RunConfig, pay: Any):
    pay(np.random.default_rng(0).normal(size=16))
    steps = collect_rewarded(agent, config, num_episodes=12)
    sums = np.bincount(steps.episode, weights=steps.reward)
    assert steps.tried is not None
    np.testing.assert_allclose(sums, steps.tried.returns, atol=1e-5)
    assert len(set(sums.round(3))) > 6


def test_every_episode_pursues_its_own_task(agent: Visr, config: RunConfig, pay: Any):
    pay(0.0)
    tried = collect_rewarded(agent, config, num_episodes=12).tried
    assert tried is not None
    np.testing.assert_allclose(np.linalg.norm(tried.w, axis=1), 1, rtol=1e-5)
    assert len(np.unique(tried.w, axis=0)) == 12


def test_steps_may_run_out_before_episodes_do(agent: Visr, config: RunConfig, pay: Any):
    pay(1.0)
    steps = collect_rewarded(agent, config, num_episodes=12, num_steps=40)
    assert steps.num_steps == 40
    assert lengths(steps) == [4] * 10


def test_the_seed_decides_the_steps(agent: Visr, config: RunConfig, pay: Any):
    pay(planted(agent))
    some, same, other = (collect_rewarded(agent, config, num_episodes=5, seed=s) for s in (3, 3, 4))
    assert np.array_equal(some.features, same.features)
    assert not np.array_equal(some.features, other.features)


def test_episodes_that_the_budget_cut_short_are_not_searched(
    agent: Visr, config: RunConfig, pay: Any
):
    # every step costs something, so an unfinished episode would have the best return
    pay(-1.0)
    steps = collect_rewarded(agent, config, num_episodes=12, num_steps=10 * STEPS + 6)
    assert lengths(steps) == [STEPS] * 10 + [3, 3]
    assert steps.tried is not None
    assert steps.tried.returns.tolist() == [-STEPS] * 10


def test_no_weight_changes(agent: Visr, config: RunConfig, pay: Any):
    before = {name: tensor.clone() for name, tensor in agent.state_dict().items()}
    pay(planted(agent))
    tasks = two_phase.infer_tasks(collect_rewarded(agent, config, num_episodes=5), config)
    assert len(list(two_phase.evaluate(agent, config, tasks, num_episodes=2))) == 4
    assert all(torch.equal(tensor, before[name]) for name, tensor in agent.state_dict().items())


# --- inferring


def test_regression_finds_a_planted_task(agent: Visr, config: RunConfig, pay: Any):
    # Only if phi is of the state that the step reached: the reward is paid on arrival.
    pay(planted(agent))
    steps = collect_rewarded(agent, config, num_episodes=12)
    found = two_phase.infer_tasks(steps, config)["env-regression"]
    np.testing.assert_allclose(found.w, W, atol=1e-4)
    assert found.r_squared == pytest.approx(1, abs=1e-6)
    assert found.num_steps == 12 * STEPS


def test_rewards_are_clipped_if_the_run_is_configured_so(config: RunConfig):
    # phi = e1, e2, e3 and r = 4, -1/2, 0: w is proportional to the rewards that are fitted
    steps = seen([4, -0.5, 0])
    unclipped = configuration.replace(config, clip_rewards=False)
    for fitted, settings in (([1, -0.5, 0], config), ([4, -0.5, 0], unclipped)):
        w = np.array(fitted)
        found = two_phase.infer_tasks(steps, settings)["env-regression"]
        np.testing.assert_allclose(found.w, w / np.linalg.norm(w), atol=1e-12)
        assert found.num_rewarded == 2


def test_search_takes_the_task_of_the_best_episode(config: RunConfig):
    found = two_phase.infer_tasks(seen([0, 1, 0], returns=(-5.0, 3.0, 2.0)), config)["env-search"]
    assert found.w.tolist() == [0, 1, 0]
    assert found.r_squared == pytest.approx(1)  # r = e2 . phi
    assert (found.num_steps, found.num_rewarded) == (3, 1)
    assert found.method == "random search over 3 episodes, best return 3"


def test_without_any_reward_only_search_remains(config: RunConfig):
    tasks = two_phase.infer_tasks(seen([0, 0, 0], returns=(0.0, 0.0)), config)
    assert list(tasks) == ["env-search"]
    assert tasks["env-search"].r_squared == 0


# --- evaluating


def test_the_arithmetic_of_scores():
    # mean 12 / 4 = 3; squares 4 + 1 + 0 + 9 = 14, variance 14 / 3, standard error sqrt(14 / 3 / 4)
    scores = Condition.from_scores("x", [1.0, 2.0, 3.0, 6.0], [1, 1, 1, 1], None, None)
    assert scores.mean == 3
    assert scores.standard_error == pytest.approx(math.sqrt(14 / 12))


def test_one_episode_has_no_standard_error():
    scores = Condition.from_scores("x", [5.0], [1], None, None)
    assert (scores.mean, scores.standard_error) == (5, None)


def test_scores_are_never_clipped(agent: Visr, config: RunConfig, pay: Any):
    pay(-7.0)
    played = two_phase.evaluate_task(agent, config, task(), num_episodes=3)
    assert played.scores == (-7.0 * STEPS,) * 3


def test_scores_of_atari_games_are_normalised_and_others_are_not(
    agent: Visr, config: RunConfig, pay: Any
):
    # Boxing: random 0.1, human 12.1; nine steps that pay 1 are 100 (9 - 0.1) / 12
    pay(1.0)
    boxing = configuration.replace(config, env="ALE/Boxing-v5")
    game, grid = (
        two_phase.evaluate_task(agent, c, task(), num_episodes=2) for c in (boxing, config)
    )
    assert game.human_normalised == pytest.approx(100 * 8.9 / 12)
    assert grid.human_normalised is None
    assert game.num_steps == (STEPS, STEPS)


def test_tasks_are_played_beside_no_adaptation_and_random_actions(
    agent: Visr, config: RunConfig, pay: Any
):
    pay(planted(agent))
    tasks = {"a": task(), "b": task()}
    played = list(two_phase.evaluate(agent, config, tasks, num_episodes=11))
    assert [c.name for c in played] == ["a", "b", UNADAPTED, UNTRAINED]
    assert [c.r_squared for c in played] == [0, 0, None, None]
    assert all(len(c.scores) == 11 for c in played)
    assert played[0].scores == played[1].scores  # the same task, the same seed
    assert len({c.scores for c in played}) == 3


def test_a_task_is_played_greedily_if_asked(agent: Visr, config: RunConfig, pay: Any):
    # epsilon = 0 without GPI: from one start there is one path, so equal starts score alike
    pay(np.arange(16.0))
    counts: dict[str, Any] = {"num_episodes": 10, "seed": 5}
    once, twice = (
        two_phase.evaluate_task(agent, config, task(), epsilon=0.0, gpi=False, **counts)
        for _ in range(2)
    )
    assert once.scores == twice.scores
    random = two_phase.evaluate_task(agent, config, task(), epsilon=1.0, **counts)
    assert random.scores != once.scores


def test_evaluation_shares_no_random_draws_with_the_collected_steps(
    agent: Visr, config: RunConfig, pay: Any, monkeypatch: pytest.MonkeyPatch
):
    pay(planted(agent))
    seeds: list[int] = []
    draws: list[bytes] = []

    for module in (two_phase, collect):
        play = module.play_episodes

        def watched(actor: Any, *arguments: Any, seed: int, play: Any = play, **others: Any) -> Any:
            seeds.append(seed)
            draws.append(actor._random.get_state().numpy().tobytes())
            return play(actor, *arguments, seed=seed, **others)

        monkeypatch.setattr(module, "play_episodes", watched)
    collect_rewarded(agent, config, num_episodes=9, num_steps=999, seed=0)
    for seed in (1, 2):  # the command line's, and the next run's
        two_phase.evaluate_task(agent, config, task(W), num_episodes=1, seed=seed)
    assert len(seeds) == len(set(seeds)) == len(set(draws)) == 3


def test_tasks_and_actions_share_no_random_draws(agent: Visr):
    actions = torch.Generator().manual_seed(derived_seed(0, ACTIONS))
    tasks = own_tasks(agent, 0)
    assert not np.allclose(tasks(), agent.sample_tasks(1, actions)[0].numpy())


# --- the whole phase


def test_the_phase_saves_its_tasks_and_its_record(
    agent: Visr, config: RunConfig, pay: Any, tmp_path: Path
):
    pay(planted(agent))
    run = RunDir(tmp_path)
    result = two_phase.run(agent, config, 77, num_episodes=5, num_trials=2)
    result.save(run)
    assert (
        set(result.tasks) == {"env-regression", "env-search"} == {p.stem for p in run.task_files()}
    )
    record = result.record
    assert TwoPhase.load(run.phase_two, config.env) == record
    assert (record.num_steps, record.num_rewarded_steps) == (77, 5 * STEPS)
    assert (record.num_rewarded_episodes, record.num_trials) == (5, 2)
    assert record.conditions[0].r_squared == result.tasks["env-regression"].r_squared


def test_scores_are_means_over_independent_draws(agent: Visr, config: RunConfig, pay: Any):
    pay(planted(agent))
    once = two_phase.run(agent, config, 0, num_episodes=5, num_trials=2)
    thrice = two_phase.run(agent, config, 0, num_episodes=5, num_trials=2, num_draws=3)
    assert set(thrice.tasks) == set(once.tasks)
    for name, task in once.tasks.items():  # the first draw is the same
        assert np.array_equal(thrice.tasks[name].w, task.w)
    *inferred, unadapted, random = thrice.record.conditions
    for condition, first in zip(inferred, once.record.conditions[:2], strict=True):
        assert len(condition.draws) == 3
        assert len(condition.scores) == 6
        assert condition.draws[0] == first.mean
        assert condition.mean == pytest.approx(np.mean(condition.draws))
        error = np.std(condition.draws, ddof=1) / math.sqrt(3)
        assert condition.standard_error == pytest.approx(error)
    assert (unadapted, random) == once.record.conditions[-2:]
    assert thrice.record.num_trials == 2
