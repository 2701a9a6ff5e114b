"""Values of policies as recorded steps tell them, and n-step returns."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
import torch

from visr.finetuning.offline_steps import OfflineSteps
from visr.finetuning.policy_value import POLICIES, FittedEvaluation, PolicyValue, is_better, n_step
from visr.finetuning.tabular_q import TableEvaluation, TableModel
from visr.networks.residual_values import ResidualValues
from visr.types import EnvSpec


def steps_of(states: list[int], actions: list[int], ends: list[bool], size: int) -> OfflineSteps:
    """A walk through one-hot vectors."""
    count = len(actions)
    observation = torch.eye(size)[torch.tensor(states)]
    terminated = torch.tensor(ends)
    follows = torch.arange(count) < count - 1
    return OfflineSteps(
        observation=observation,
        before=torch.arange(count),
        after=torch.arange(count) + 1,
        action=torch.tensor(actions),
        terminated=terminated,
        continues=follows & ~terminated,
        episode=torch.cumsum(terminated.long(), 0) - terminated.long(),
        space=gym.spaces.Box(0, 1, (size,), np.float32),
        source="a test",
    )


def test_two_step_returns_stop_where_they_must():
    # step      0   1   2   3
    # r         1   2   4   8
    # continues .   no  .   no     step 1 ended the episode
    # G_0 = 1 + .5 * 2 = 2, nothing follows     G_1 = 2     G_2 = 4 + .5 * 8 = 8, .25 V     G_3 = 8, .5 V
    steps = steps_of([0, 1, 2, 3, 4], [0, 0, 0, 0], [False, True, False, False], 5)
    reward = torch.tensor([1.0, 2.0, 4.0, 8.0])
    total, discount, rows = n_step(steps, reward, 0.5, 2, steps.continues)
    assert total.tolist() == [2, 2, 8, 8]
    assert discount.tolist() == [0, 0, 0.25, 0.5]
    assert rows.tolist() == [2, 2, 4, 4]


def test_gains_have_the_standard_error_of_episode_means():
    episode = torch.arange(12).repeat_interleave(2)
    gain = torch.arange(12.0).repeat_interleave(2)
    mean, error = PolicyValue(gain, episode).gain_over(PolicyValue(torch.zeros(24), episode))
    assert mean == pytest.approx(5.5)
    assert error == pytest.approx(np.std(np.arange(12), ddof=1) / 12**0.5)


def test_a_policy_is_better_by_more_than_the_error_or_where_no_state_loses():
    episode = torch.arange(12).repeat_interleave(2)
    nothing = PolicyValue(torch.ones(24), episode)
    gain = torch.zeros(24)
    gain[0] = 0.1  # one episode of twelve: the gain is as large as its error
    assert is_better(PolicyValue(1 + gain, episode), nothing)
    gain[2] = -0.05
    assert not is_better(PolicyValue(1 + gain, episode), nothing)
    assert is_better(PolicyValue(1.1 + gain, episode), nothing)
    assert not is_better(nothing, nothing)


def chain(rng: np.random.Generator, count: int, size: int = 5) -> tuple[OfflineSteps, torch.Tensor]:
    """A random walk: action 1 goes right, 0 left; the reward is 1 in the last state."""
    actions = rng.integers(2, size=count)
    states = [2]
    for action in actions:
        states.append(int(np.clip(states[-1] + 2 * action - 1, 0, size - 1)))
    steps = steps_of(states, actions.tolist(), [False] * count, size)
    return steps, (torch.tensor(states[1:]) == size - 1).float()


@pytest.mark.parametrize("kind", ["table", "network"])
def test_the_values_of_fixed_policies_are_estimated(kind: str):
    # gamma .5, 1 - gamma = .5: always right is worth 1, .5, .25, .125 times 1 from the states 3, 2, 1, 0;
    # always left is worth 0 from the states 0 to 3, and 0 from 4 as well, as it leaves the reward.
    steps, reward = chain(np.random.default_rng(0), 2_000)
    assert isinstance(steps.observation, torch.Tensor)
    states = steps.observation.argmax(dim=1)
    right = torch.tensor([0.5**3, 0.5**2, 0.5, 1, 1])[states[steps.before]].mean()
    if kind == "table":
        numbered = dataclasses.replace(steps, observation=states, space=gym.spaces.Discrete(5))
        evaluation = TableEvaluation(numbered, reward, 0.5, 2)
    else:
        torch.manual_seed(0)
        spec = EnvSpec(steps.space, 2)
        evaluation = FittedEvaluation(
            *(steps, reward, 0.5, ResidualValues(spec, len(POLICIES))),
            lambda rows: torch.zeros(len(rows), 2),
            torch.Generator().manual_seed(0),
        )
    always = torch.ones(len(evaluation.rows), dtype=torch.int64)
    policies = {"given": 0 * always, "best": always, "candidate": always}
    evaluation.update(500, policies)
    assert evaluation.value("best", always).mean == pytest.approx(float(right), abs=0.05)
    assert evaluation.value("given", 0 * always).mean == pytest.approx(0, abs=0.05)
    gain, error = evaluation.value("best", always).gain_over(evaluation.value("given", 0 * always))
    assert gain > 10 * error


def test_actions_that_held_out_steps_lack_are_judged_by_the_other_steps():
    # gamma .5: always right from the state 3 is worth 1 / .5 = 2, times 1 - gamma: 1
    steps, reward = chain(np.random.default_rng(0), 2_000)
    assert isinstance(steps.observation, torch.Tensor)
    states = steps.observation.argmax(dim=1)
    numbered = dataclasses.replace(steps, observation=states, space=gym.spaces.Discrete(5))
    kept = (states[steps.before] != 3) | (steps.action == 0)  # never right from the state 3
    held, paid = numbered.subset(kept), reward[kept]
    always = torch.ones(5, dtype=torch.int64)
    found = {}
    for others in (None, TableModel(numbered, reward, 0.5, 2)):
        evaluation = TableEvaluation(held, paid, 0.5, 2, others)
        evaluation.update(500, {"best": always})
        value = evaluation.value("best", always).by_state
        found[others is None] = float(value[states[held.before] == 3].mean())
    assert found[True] == pytest.approx(0, abs=1e-3)  # the worst reward for ever
    assert found[False] == pytest.approx(1, abs=1e-3)
