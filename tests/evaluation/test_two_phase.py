"""The second phase: rewards are met, a task is inferred, scores are kept."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from visr import config as configuration
from visr import envs
from visr.agents.visr import Visr
from visr.config import RunConfig
from visr.envs.episodes import Episode
from visr.envs.grid.env import GridVectorEnv
from visr.envs.grid.world import GridWorld
from visr.errors import UserError
from visr.evaluation import two_phase
from visr.evaluation.two_phase import Rewarded, Scores
from visr.inference import compare, dataset
from visr.storage.records.two_phase import UNADAPTED, UNTRAINED
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
    """A function: rewards on arrival [S] -> nothing, but the environment pays them from now on."""

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


def seen(reward: Any, scores: Any = (0.0,), cut: Any = ()) -> Rewarded:
    """Steps whose features are the unit vectors in turn, and episodes with these scores, some cut short."""
    reward = np.asarray(reward, dtype=np.float32)
    phi = np.eye(3, dtype=np.float32)[np.arange(len(reward)) % 3]
    episodes = [
        Episode(w=np.eye(3, dtype=np.float32)[i % 3], score=s, is_finished=i not in cut)
        for i, s in enumerate(scores)
    ]
    return Rewarded(episodes, phi, reward, np.zeros(len(reward), dtype=np.intp))


# --- meeting rewards


def test_every_step_of_every_episode_is_written_down(agent: Visr, config: RunConfig, pay: Any):
    # 12 episodes of 9 steps, ten at a time and all of them resetting at once
    pay(2.5)
    met = two_phase.meet_rewards(agent, config, num_episodes=12)
    assert [e.num_steps for e in met.episodes] == [STEPS] * 12
    assert [e.score for e in met.episodes] == [2.5 * STEPS] * 12
    assert np.bincount(met.episode).tolist() == [STEPS] * 12
    assert met.reward.tolist() == [2.5] * 12 * STEPS  # raw
    np.testing.assert_allclose(np.linalg.norm(met.phi, axis=1), 1, rtol=1e-5)


def test_steps_belong_to_their_episodes(agent: Visr, config: RunConfig, pay: Any):
    pay(np.random.default_rng(0).normal(size=16))
    met = two_phase.meet_rewards(agent, config, num_episodes=12)
    sums = np.bincount(met.episode, weights=met.reward)
    np.testing.assert_allclose(sums, [e.score for e in met.episodes], atol=1e-5)
    assert len(set(sums.round(3))) > 6


def test_every_episode_has_a_task_of_its_own(agent: Visr, config: RunConfig, pay: Any):
    pay(0.0)
    met = two_phase.meet_rewards(agent, config, num_episodes=12)
    tasks = np.stack([e.w for e in met.episodes])
    np.testing.assert_allclose(np.linalg.norm(tasks, axis=1), 1, rtol=1e-5)
    assert len(np.unique(tasks, axis=0)) == 12


def test_steps_may_run_out_before_episodes_do(agent: Visr, config: RunConfig, pay: Any):
    pay(1.0)
    met = two_phase.meet_rewards(agent, config, num_episodes=12, num_steps=40)
    assert len(met.reward) == 40
    assert [e.num_steps for e in met.episodes] == [4] * 10


def test_the_seed_decides_what_is_met(agent: Visr, config: RunConfig, pay: Any):
    pay(planted(agent))
    some, same, other = (
        two_phase.meet_rewards(agent, config, num_episodes=5, seed=s) for s in (3, 3, 4)
    )
    assert np.array_equal(some.phi, same.phi)
    assert not np.array_equal(some.phi, other.phi)


def test_no_weight_changes(agent: Visr, config: RunConfig, pay: Any):
    before = {name: tensor.clone() for name, tensor in agent.state_dict().items()}
    pay(planted(agent))
    task = two_phase.by_regression(two_phase.meet_rewards(agent, config, num_episodes=5), config)
    list(two_phase.judge(agent, config, {"t": task}, num_episodes=2))
    assert all(torch.equal(tensor, before[name]) for name, tensor in agent.state_dict().items())


# --- by regression


def test_a_planted_task_is_found(agent: Visr, config: RunConfig, pay: Any):
    # Only if phi is of the state that the step reached: the reward is paid on arrival.
    pay(planted(agent))
    met = two_phase.meet_rewards(agent, config, num_episodes=12)
    task = two_phase.by_regression(met, config)
    np.testing.assert_allclose(task.w, W, atol=1e-4)
    assert task.r_squared == pytest.approx(1, abs=1e-6)
    assert task.num_steps == 12 * STEPS


def test_rewards_are_clipped_unless_told_otherwise(config: RunConfig):
    # phi = e1, e2, e3 and r = 4, -1/2, 0: w is r itself, as far as it is believed
    met = seen([4, -0.5, 0])
    clipped, raw = np.array([1, -0.5, 0]), np.array([4, -0.5, 0])
    unclipped = configuration.replace(config, clip_rewards=False)
    for w, task in (
        (clipped, two_phase.by_regression(met, config)),
        (clipped, two_phase.by_regression(met, unclipped, clip=True)),
        (raw, two_phase.by_regression(met, config, clip=False)),
        (raw, two_phase.by_regression(met, unclipped)),
    ):
        np.testing.assert_allclose(task.w, w / np.linalg.norm(w), atol=1e-12)
        assert task.num_rewarded == 2
    assert met.reward.tolist() == [4, -0.5, 0]


def test_scores_are_never_clipped(agent: Visr, config: RunConfig, pay: Any):
    pay(-7.0)
    scores = two_phase.try_task(
        agent, config, "x", two_phase.always(search(config)), num_episodes=3
    )
    assert scores.scores == [-7.0 * STEPS] * 3


def test_without_any_reward_there_is_nothing_to_infer(agent: Visr, config: RunConfig, pay: Any):
    pay(0.0)
    met = two_phase.meet_rewards(agent, config, num_episodes=2)
    with pytest.raises(UserError, match=r"^No reward was seen in 18 steps.*--episodes.*\.$"):
        two_phase.by_regression(met, config)


# --- by search


def search(config: RunConfig) -> Any:
    return two_phase.by_search(seen([1, 0, 0], scores=(0.0, 2.0)), config)


def best_of_comparison(met: Rewarded, _: RunConfig) -> Any:
    return compare.compare(dataset.from_environment(met, clip=True)).answers["random search"]


def test_search_takes_the_task_of_the_best_episode(config: RunConfig):
    task = two_phase.by_search(seen([0, 3, 0], scores=(-5.0, 3.0, 2.0)), config)
    assert task.w.tolist() == [0, 1, 0]
    assert task.r_squared == pytest.approx(1)  # r is 3 e2 . phi
    assert (task.num_steps, task.num_rewarded) == (3, 1)
    assert "3 episodes, best return 3" in task.method


@pytest.mark.parametrize("search", [two_phase.by_search, best_of_comparison])
def test_an_episode_that_was_cut_short_wins_nothing(config: RunConfig, search: Any):
    """Where every step costs something, it would."""
    met = seen([-1, -1, -1], scores=(-200.0, -150.0, -3.0), cut=[2])
    assert search(met, config).w.tolist() == [0, 1, 0]
    nobody_ended = seen([-1, -1, -1], scores=(-5.0, -4.0, -3.0), cut=[0, 1, 2])
    assert search(nobody_ended, config).w.tolist() == [0, 0, 1]


def test_search_looks_at_scores_and_not_at_regression(agent: Visr, config: RunConfig, pay: Any):
    pay(np.arange(16.0))
    met = two_phase.meet_rewards(agent, config, num_episodes=12)
    best = max(range(12), key=lambda i: met.reward[met.episode == i].sum())
    task = two_phase.by_search(met, config)
    np.testing.assert_allclose(task.w, met.episodes[best].w, atol=1e-6)
    assert np.linalg.norm(task.w) == pytest.approx(1, abs=1e-12)


def test_search_needs_no_reward(config: RunConfig):
    assert two_phase.by_search(seen([0, 0, 0], scores=(0.0, 0.0)), config).r_squared == 0


# --- scores


def test_the_arithmetic_of_scores():
    # mean 12 / 4 = 3; squares 4 + 1 + 0 + 9 = 14, variance 14 / 3, standard error sqrt(14 / 3 / 4)
    scores = Scores("x", [1.0, 2.0, 3.0, 6.0], [1, 1, 1, 1], None)
    assert scores.mean == 3
    assert scores.standard_error == pytest.approx(math.sqrt(14 / 12))


def test_one_episode_has_no_standard_error():
    scores = Scores("x", [5.0], [1], None)
    assert scores.mean == 5
    assert math.isnan(scores.standard_error)


def test_scores_of_games_are_normalised_and_others_are_not(
    agent: Visr, config: RunConfig, pay: Any
):
    # Boxing: random 0.1, human 12.1; nine steps worth 1 are 100 (9 - 0.1) / 12
    pay(1.0)
    boxing = configuration.replace(config, env="ALE/Boxing-v5")
    always = two_phase.always(search(config))
    game, grid = (
        two_phase.try_task(agent, c, "x", always, num_episodes=2) for c in (boxing, config)
    )
    assert game.human_normalised == pytest.approx(100 * 8.9 / 12)
    assert grid.human_normalised is None
    assert game.num_steps == [STEPS, STEPS]


def test_tasks_are_judged_beside_no_adaptation_and_random_actions(
    agent: Visr, config: RunConfig, pay: Any
):
    pay(planted(agent))
    tasks = {"a": search(config), "b": search(config)}
    judged = list(two_phase.judge(agent, config, tasks, num_episodes=11))
    assert [s.name for s in judged] == ["a", "b", UNADAPTED, UNTRAINED]
    assert all(len(s.scores) == 11 for s in judged)
    assert judged[0].scores == judged[1].scores  # the same task, the same seed
    assert len({tuple(s.scores) for s in judged}) == 3


def test_a_task_is_pursued_greedily_when_asked(agent: Visr, config: RunConfig, pay: Any):
    # epsilon = 0 without GPI: from one start there is one path, so equal starts score alike
    pay(np.arange(16.0))
    always = two_phase.always(search(config))
    twice = [
        two_phase.try_task(
            agent, config, "x", always, num_episodes=10, epsilon=0.0, gpi=False, seed=5
        )
        for _ in range(2)
    ]
    assert twice[0].scores == twice[1].scores
    random = two_phase.try_task(agent, config, "x", always, num_episodes=10, epsilon=1.0, seed=5)
    assert random.scores != twice[0].scores


def test_uniform_tasks_are_unit_vectors_and_follow_the_seed():
    draw, same, other = (two_phase.uniform_tasks(3, seed) for seed in (0, 0, 1))
    drawn = np.stack([draw() for _ in range(2000)])
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.05)
    assert np.array_equal(same(), drawn[0])
    assert not np.array_equal(other(), drawn[0])


def test_evaluation_plays_other_games_than_those_that_were_learnt_from(
    agent: Visr, config: RunConfig, pay: Any, monkeypatch: pytest.MonkeyPatch
):
    """Nor do any two share the draws of tasks, neighbours and random actions."""
    pay(planted(agent))
    seeds, play = [], two_phase.play
    random: list[bytes] = []

    def watched(actor: Any, *arguments: Any, seed: int, **others: Any) -> Any:
        seeds.append(seed)
        random.append(actor._random.get_state().numpy().tobytes())
        return play(actor, *arguments, seed=seed, **others)

    monkeypatch.setattr(two_phase, "play", watched)
    two_phase.meet_rewards(agent, config, num_episodes=9, num_steps=999, seed=0)
    for seed in (1, 2):  # as the command line and plans judge, and the next run's
        two_phase.try_task(
            agent, config, "w", two_phase.Choice(lambda: W), num_episodes=1, seed=seed
        )
    assert len(seeds) == len(set(seeds)) == len(set(random)) == 3


def test_tasks_and_actions_share_no_draws(agent: Visr, config: RunConfig, pay: Any):
    actions = torch.Generator().manual_seed(two_phase.derived(0, two_phase.ACTIONS))
    tasks = two_phase.own_tasks(agent, 0)
    assert not np.allclose(tasks(), agent.sample_tasks(1, actions)[0].numpy())
