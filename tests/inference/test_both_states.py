"""Rewards of the state left and of the state reached, and the task of forward-backward agents."""

import numpy as np
import pytest

from visr.inference.compare_methods import BOTH, compare_methods, task_of_both
from visr.inference.steps import LeftStates, RewardedSteps, TriedTasks

GAMMA = 0.9


def steps_of(reward_of, by_mean: bool = False, noise: float = 0.0) -> RewardedSteps:
    """2,000 steps through random features; `reward_of` gets chi(s) and chi(s')."""
    random = np.random.default_rng(0)
    chi = random.normal(size=(2_001, 3))
    reward = reward_of(chi[:-1], chi[1:]) + noise * random.normal(size=2_000)
    left = None if by_mean else LeftStates(chi[:-1], GAMMA)
    return RewardedSteps(chi[1:], reward, np.arange(2_000) // 50, None, left, by_mean)


def test_the_task_of_both_states_is_gamma_u_plus_v():
    # [u, v] = [3, 0, 0, 0, 4, 0] / 5: gamma u + v = [.54, .8, 0], of length .9652
    both = np.array([0.6, 0, 0, 0, 0.8, 0])
    expected = np.array([0.54, 0.8, 0]) / np.hypot(0.54, 0.8)
    np.testing.assert_allclose(task_of_both(both, GAMMA), expected)


def test_a_reward_of_the_state_left_is_found():
    found = compare_methods(steps_of(lambda left, reached: left[:, 0] + 2 * reached[:, 1]))
    assert found.best == BOTH
    assert found.validations[BOTH].r_squared > 0.99
    expected = np.array([GAMMA, 2, 0]) / np.hypot(GAMMA, 2)
    np.testing.assert_allclose(found.estimates[BOTH].w, expected, atol=0.02)


def test_a_reward_of_the_state_reached_alone_needs_no_second_state():
    found = compare_methods(steps_of(lambda left, reached: reached[:, 2], noise=0.5))
    np.testing.assert_allclose(found.estimates[BOTH].w, [0, 0, 1], atol=0.1)
    assert found.estimates[BOTH].standard_error.max() < 0.1


def test_a_reward_that_sums_to_a_constant_gives_no_task():
    # r = gamma chi(s') - chi(s), scaled: potential-based shaping leaves every policy as good as before.
    found = compare_methods(
        steps_of(lambda left, reached: GAMMA * left[:, 0] * -1 + GAMMA**2 * reached[:, 0])
    )
    assert BOTH not in found.estimates


def test_steps_without_left_states_are_regressed_as_before():
    steps = steps_of(lambda left, reached: reached[:, 0])
    plain = RewardedSteps(steps.features, steps.reward, steps.episode)
    assert BOTH not in compare_methods(plain).estimates


def test_forward_backward_takes_the_mean_of_r_times_b():
    steps = steps_of(lambda left, reached: reached @ np.array([1.0, 2.0, 0.0]), by_mean=True)
    found = compare_methods(steps)
    assert list(found.estimates) == ["mean of r B"] == [found.best]
    mean = (steps.features * steps.reward[:, None]).mean(axis=0)
    np.testing.assert_allclose(found.estimates["mean of r B"].w, mean / np.linalg.norm(mean))
    assert found.validations["mean of r B"].r_squared == pytest.approx(1, abs=0.05)


def test_forward_backward_trusts_the_mean_for_a_constant_reward_too():
    random = np.random.default_rng(0)
    features = random.normal(size=(400, 3)) + np.array([2.0, 0, 0])
    tried = TriedTasks(random.normal(size=(8, 3)), random.normal(size=8))
    steps = RewardedSteps(
        features,
        np.ones(400),
        np.arange(400) // 50,
        tried,
        by_mean=True,
        prefers_regression=True,
    )
    assert compare_methods(steps).best == "mean of r B"
