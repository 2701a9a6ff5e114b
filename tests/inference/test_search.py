"""Search among tried tasks: returns of nearby tasks, and what they choose."""

from __future__ import annotations

import numpy as np
import pytest

from visr.inference import compare_methods, search, smoothed_search
from visr.inference.regression import Comparison
from visr.inference.steps import RewardedSteps, TriedTasks

GOOD = np.array([0.0, 0.6, -0.8])


def episodes(count: int, noise: float, seed: int = 0) -> TriedTasks:
    """Returns 10 w . GOOD plus noise."""
    random = np.random.default_rng(seed)
    w = random.normal(size=(count, 3))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    return TriedTasks(w, 10 * w @ GOOD + noise * random.normal(size=count))


def compared(tried: TriedTasks) -> Comparison:
    """Five steps per episode, whose features and rewards are noise."""
    random = np.random.default_rng(1)
    phi = random.normal(size=(5 * len(tried.w), 3)).astype(np.float32)
    episode = np.repeat(np.arange(len(tried.w)), 5)
    return compare_methods.compare_methods(
        RewardedSteps(phi, random.normal(size=len(phi)), episode, tried)
    )


def test_the_expected_return_weighs_tasks_by_their_nearness():
    # w = (1, 0); w . w_i = 1, 0; kappa = ln 3: weights 1 and 1/3; (1 * 4 + 1/3 * 8) / (4/3) = 5
    tried = TriedTasks(np.eye(2), np.array([4.0, 8.0]))
    expected = smoothed_search.expected_return(tried, np.array([1.0, 0.0]), kappa=np.log(3))
    assert expected == pytest.approx(5)


def test_every_fourth_episode_is_held_out():
    others, held_out = search.split(TriedTasks(np.zeros((8, 2)), np.arange(8.0)))
    assert held_out.returns.tolist() == [3, 7]
    assert others.returns.tolist() == [0, 1, 2, 4, 5, 6]


def test_the_kernel_is_wide_for_noisy_returns_and_narrow_for_many_exact_ones():
    noisy, exact = episodes(300, noise=30), episodes(3_000, noise=0.1)
    assert smoothed_search.best_kappa(noisy) < smoothed_search.best_kappa(exact)


def test_smoothed_search_ignores_one_lucky_episode():
    tried = episodes(1_000, noise=3)
    lucky = int(np.argmin(tried.w @ GOOD))
    tried.returns[lucky] = 1_000
    tried.returns[:] = np.minimum(tried.returns, 40)
    found = compared(tried).estimates
    assert found["random search"].w @ GOOD == pytest.approx(tried.w[lucky] @ GOOD)
    assert found["smoothed search"].w @ GOOD > 0.7


def test_the_best_method_is_the_one_with_the_highest_expected_return():
    found = compared(episodes(1_000, noise=3))
    expected = {name: v.expected_return for name, v in found.validations.items()}
    assert None not in expected.values()
    assert found.best == max(expected, key=lambda name: expected[name] or 0)
    assert found.estimates[found.best].w @ GOOD > 0.7
    assert "held-out episodes that pursued tasks near its w" in found.words[-1]


def test_smoothed_search_wins_where_held_out_returns_are_all_equal():
    # as in MountainCar: three episodes of a thousand reach the hill, and none of them is held out
    tried = episodes(1_000, noise=0)
    near = [i for i in np.argsort(-(tried.w @ GOOD)) if i % search.HELD_OUT != 3][:3]
    tried.returns[:] = -200.0
    tried.returns[near] = -150.0
    found = compared(tried)
    assert found.best == compare_methods.SMOOTHED
    assert found.estimates[found.best].w @ GOOD > 0.9


def test_held_out_episodes_take_no_part_in_the_choice_they_validate():
    tried = episodes(400, noise=1)
    before = search.best_episode(tried).w_of_others
    _, held_out = search.split(tried)
    tried.returns[search.HELD_OUT - 1 :: search.HELD_OUT] = 100 + held_out.returns
    found = search.best_episode(tried)
    np.testing.assert_array_equal(before, found.w_of_others)
    assert not np.array_equal(before, found.w)


def test_expected_returns_need_enough_episodes():
    found = compared(episodes(smoothed_search.ENOUGH - 1, noise=1))
    assert "smoothed search" not in found.estimates
    assert {v.expected_return for v in found.validations.values()} == {None}
