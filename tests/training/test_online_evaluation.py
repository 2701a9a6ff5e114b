"""The online evaluation: raw scores of whole games, and a task from what is remembered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from visr import envs
from visr.agents.visr import Visr
from visr.config import RunConfig
from visr.envs.grid.env import GridVectorEnv
from visr.envs.grid.world import GridWorld
from visr.training.loop import new_agent
from visr.training.online_evaluation import OnlineEvaluation
from visr.types import EnvSpec, Unroll


class RewardedGrid(GridVectorEnv):
    """A grid whose rewards, collected on arrival, a test may change at any time."""

    def __init__(self, config: RunConfig, num_envs: int) -> None:
        world = GridWorld.from_config(config.grid)
        steps = config.grid.max_episode_steps
        super().__init__(
            world, num_envs, max_episode_steps=steps, reward=np.zeros(world.num_states)
        )

    def pay(self, reward: Any) -> None:
        """[S], or one for all."""
        assert self._reward is not None
        self._reward[:] = reward


@pytest.fixture(autouse=True)
def _rewarded_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envs, "make_vec", RewardedGrid)


@pytest.fixture
def online(tiny: Any) -> Any:
    """A function: (config fields) -> the evaluation, its environment, its agent."""

    def make(**fields: Any) -> tuple[OnlineEvaluation, RewardedGrid, Visr]:
        fields = {"height": 4, "width": 4, "max_episode_steps": 7, "unroll_length": 10, **fields}
        fields = {"num_rewarded_envs": 2, "rewarded_window": 100, "epsilon": 0.5, **fields}
        config = tiny(**fields)
        env = RewardedGrid(config, 1)
        agent = new_agent(config, EnvSpec(env.single_observation_space, 4))
        evaluation = OnlineEvaluation(config, agent)
        assert isinstance(evaluation.actor.env, RewardedGrid)
        assert isinstance(agent, Visr)
        return evaluation, evaluation.actor.env, agent

    return make


@torch.no_grad()
def planted(agent: Visr, w: Tensor) -> Any:
    """The reward phi(s') . w of every state."""
    return (agent.phi(torch.arange(16)) @ w).numpy()


def direction(seed: int) -> Tensor:
    w = torch.randn(5, generator=torch.Generator().manual_seed(seed))
    return w / w.norm()


def collected(evaluation: OnlineEvaluation, monkeypatch: pytest.MonkeyPatch) -> list[Unroll]:
    """Everything that will be played from now on."""
    unrolls: list[Unroll] = []
    original = evaluation.actor.collect

    def collect(task: Tensor | None = None) -> Unroll:
        unrolls.append(original(task))
        return unrolls[-1]

    monkeypatch.setattr(evaluation.actor, "collect", collect)
    return unrolls


# --- scores


def test_returns_are_raw_sums_over_whole_episodes(online: Any):
    # Games of 7 steps worth 2.5 each, then a reset step: 17.5, whatever is clipped for regression.
    # Unrolls of 10 steps: resets at t = 7; 15; 23; (31, 39) count games 1; 2; 3; 4 and 5 of both.
    evaluation, env, agent = online()
    env.pay(2.5)
    assert evaluation.row() == {}
    for num_games in (1, 1, 1, 2):
        evaluation.play(agent)
        row = evaluation.row()
        assert row["num_episodes"] == 2 * num_games
        assert row["mean_return"] == 17.5
        assert evaluation.row() == {}  # rows are returned once


def test_a_row_is_the_mean_over_episodes_since_the_last_row(online: Any):
    # The first game is worth 7, the second 14, of both environments alike.
    evaluation, env, agent = online(unroll_length=8)
    for reward in (1.0, 2.0):
        env.pay(reward)
        evaluation.play(agent)
    row = evaluation.row()
    assert row["num_episodes"] == 4
    assert row["mean_return"] == (7 + 7 + 14 + 14) / 4


def test_running_returns_are_part_of_the_saved_state(online: Any):
    evaluation, env, agent = online(unroll_length=5)
    env.pay(1.0)
    evaluation.play(agent)
    twin, same, _ = online(unroll_length=5)
    twin.load_state({k: v.clone() for k, v in evaluation.state().items()}, num_steps=0)
    same.pay(1.0)
    for each in (evaluation, twin):
        for _ in range(3):
            each.play(agent)
    assert evaluation.row() == twin.row() != {}
    a, b = evaluation.state(), twin.state()
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


# --- the task


def test_there_is_no_task_before_the_first_reward(online: Any, monkeypatch: pytest.MonkeyPatch):
    evaluation, env, agent = online()
    unrolls = collected(evaluation, monkeypatch)
    assert evaluation.task() is None
    evaluation.play(agent)
    assert evaluation.task() is None
    evaluation.play(agent)
    drawn = torch.cat([unroll.w for unroll in unrolls])
    assert len({tuple(w) for w in drawn.tolist()}) == 4  # so each environment pursues its own
    env.pay(1.0)
    evaluation.play(agent)
    assert evaluation.task() is not None


def test_the_task_is_the_least_squares_solution_of_the_stored_steps(
    online: Any, monkeypatch: pytest.MonkeyPatch
):
    evaluation, env, agent = online(clip_rewards=False)
    unrolls = collected(evaluation, monkeypatch)
    env.pay(np.random.default_rng(0).normal(size=16) * 3)
    for _ in range(3):
        evaluation.play(agent)
    happened = torch.cat([~u.is_reset for u in unrolls])
    reached = torch.cat([u.observation[1:] for u in unrolls])[happened]
    reward = torch.cat([u.reward for u in unrolls])[happened]
    with torch.no_grad():
        phi = agent.phi(reached)
    w = np.linalg.lstsq(phi.numpy().astype(np.float64), reward.numpy().astype(np.float64))[0]
    expected = torch.as_tensor(w / np.linalg.norm(w), dtype=torch.float32)
    torch.testing.assert_close(evaluation.task(), expected, rtol=1e-3, atol=1e-3)


def test_a_reward_phi_w_gives_the_task_w_in_all_environments(
    online: Any, monkeypatch: pytest.MonkeyPatch
):
    evaluation, env, agent = online()
    w = direction(1)
    env.pay(0.7 * planted(agent, w))  # never beyond 1: nothing to clip; any scale is the same task
    for _ in range(3):
        evaluation.play(agent)
    torch.testing.assert_close(evaluation.task(), w, rtol=0, atol=1e-3)
    unrolls = collected(evaluation, monkeypatch)
    evaluation.play(agent)
    torch.testing.assert_close(unrolls[0].w, w.expand(2, 5), rtol=0, atol=1e-3)
    row = evaluation.row()
    assert row["r_squared"] == pytest.approx(1, abs=1e-5)
    assert row["num_rewarded"] == 3 * 20 - 2 * 3  # as of the last task; three resets of each


def test_rewards_are_clipped_unless_configured_otherwise(online: Any):
    w = direction(1)
    found = {}
    for clip in (None, False):
        evaluation, env, agent = online(**({} if clip is None else {"clip_rewards": clip}))
        reward = 30 * planted(agent, w)
        env.pay(reward)
        for _ in range(4):
            evaluation.play(agent)
        found[clip] = evaluation.task()
        signs, sign_env, _ = online()
        sign_env.pay(np.clip(reward, -1, 1))
        for _ in range(4):
            signs.play(agent)
        if clip is None:
            torch.testing.assert_close(found[clip], signs.task())
    torch.testing.assert_close(found[False], w, rtol=0, atol=1e-3)
    assert (found[None] - w).norm() > 0.05


@pytest.mark.parametrize("window", [13, 32, 39])
def test_only_the_newest_steps_are_stored(online: Any, window: int):
    # Each play is 20 steps less resets: after three of them nothing of the first task is in the window;
    # 13 is less than one play brings.
    evaluation, env, agent = online(rewarded_window=window)
    old, new = direction(1), direction(2)
    env.pay(planted(agent, old))
    for _ in range(3):
        evaluation.play(agent)
    torch.testing.assert_close(evaluation.task(), old, rtol=0, atol=1e-2)
    env.pay(planted(agent, new))
    evaluation.play(agent)
    if window > 20:
        assert (evaluation.task() - new).norm() > 0.05  # some of the old steps are left
    evaluation.play(agent)
    evaluation.play(agent)
    torch.testing.assert_close(evaluation.task(), new, rtol=0, atol=1e-2)


def test_rewards_outside_the_window_have_no_effect(online: Any):
    evaluation, env, agent = online(rewarded_window=30)
    env.pay(1.0)
    evaluation.play(agent)
    assert evaluation.task() is not None
    env.pay(0.0)
    for _ in range(2):
        evaluation.play(agent)
    assert evaluation.task() is None


def test_each_step_keeps_the_phi_it_had_when_it_was_played(online: Any):
    evaluation, env, agent = online()
    w = direction(1)
    env.pay(planted(agent, w))
    for _ in range(3):
        evaluation.play(agent)
    with torch.no_grad():
        for parameter in agent.phi.parameters():
            parameter.normal_()
    torch.testing.assert_close(evaluation.task(), w, rtol=0, atol=1e-3)


def test_the_actor_uses_the_learners_weights(online: Any):
    evaluation, _, agent = online()
    with torch.no_grad():
        agent.psi.readout.weight.add_(1.0)
    evaluation.play(agent)
    assert torch.equal(evaluation.actor.psi.readout.weight, agent.psi.readout.weight)
