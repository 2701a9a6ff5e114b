"""Returns of nearby tasks: what they predict, and whom they believe."""

from __future__ import annotations

import numpy as np
import pytest

from visr.inference import compare, kernel_return
from visr.inference.compare import Rewards
from visr.inference.kernel_return import Neighbours

GOOD = np.array([0.0, 0.6, -0.8])


def episodes(count: int, noise: float, seed: int = 0) -> Neighbours:
    """Return 10 w . GOOD, and luck."""
    random = np.random.default_rng(seed)
    w = random.normal(size=(count, 3))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    return Neighbours(w, 10 * w @ GOOD + noise * random.normal(size=count))


def compared(seen: Neighbours) -> compare.Comparison:
    """Five steps an episode, whose features and rewards are noise."""
    random = np.random.default_rng(1)
    phi = random.normal(size=(5 * len(seen.w), 3)).astype(np.float32)
    tried = list(zip(seen.w, seen.returns.tolist(), strict=True))
    which = np.repeat(np.arange(len(seen.w)), 5)
    return compare.compare(Rewards(phi, random.normal(size=len(phi)), which, tried))


def test_two_neighbours_weigh_by_their_nearness():
    # w = (1, 0); w . w_i = 1, 0; kappa = ln 3: weights 1 and 1/3; (1 * 4 + 1/3 * 8) / (4/3) = 5
    seen = Neighbours(np.eye(2), np.array([4.0, 8.0]))
    assert seen.expected(np.array([1.0, 0.0]), kappa=np.log(3)) == pytest.approx(5)


def test_every_fourth_episode_judges():
    mine, judges = Neighbours(np.zeros((8, 2)), np.arange(8.0)).split()
    assert judges.returns.tolist() == [3, 7]
    assert mine.returns.tolist() == [0, 1, 2, 4, 5, 6]


def test_a_wide_kernel_is_for_noise_and_a_narrow_one_for_plenty():
    assert episodes(300, noise=30).best_kappa() < episodes(3_000, noise=0.1).best_kappa()


def test_smoothed_search_is_not_fooled_by_one_lucky_episode():
    seen = episodes(1_000, noise=3)
    lucky = int(np.argmin(seen.w @ GOOD))
    seen.returns[lucky] = 1_000
    seen.returns[:] = np.minimum(seen.returns, 40)
    answers = compared(seen).answers
    assert answers["random search"].w @ GOOD == pytest.approx(seen.w[lucky] @ GOOD)
    assert answers["smoothed search"].w @ GOOD > 0.7


def test_the_best_method_is_the_one_whose_neighbours_returned_most():
    found = compared(episodes(1_000, noise=3))
    expected = {name: answer.expected_return for name, answer in found.answers.items()}
    assert None not in expected.values()
    assert found.best == max(expected, key=lambda name: expected[name] or 0)
    assert found.answers[found.best].w @ GOOD > 0.7
    assert "held-out episodes that pursued tasks near its w" in found.words[-1]


def test_where_judges_tell_no_difference_all_episodes_together_decide():
    # as in MountainCar: three episodes of a thousand reach the hill, and none of them is held out
    seen = episodes(1_000, noise=0)
    near = [i for i in np.argsort(-(seen.w @ GOOD)) if i % kernel_return.HELD_OUT != 3][:3]
    seen.returns[:] = -200.0
    seen.returns[near] = -150.0
    found = compared(seen)
    assert found.best == compare.SMOOTHED
    assert found.answers[found.best].w @ GOOD > 0.9


def test_the_judges_took_no_part_in_the_choice():
    seen = episodes(400, noise=1)
    before = compared(seen).answers
    _, judges = seen.split()
    seen.returns[kernel_return.HELD_OUT - 1 :: kernel_return.HELD_OUT] = judges.returns[::-1]
    after = compared(seen).answers
    for name in ("least squares", "centred", "random search"):
        np.testing.assert_array_equal(before[name].w_of_others, after[name].w_of_others)


def test_few_episodes_are_not_asked():
    found = compared(episodes(kernel_return.ENOUGH - 1, noise=1))
    assert "smoothed search" not in found.answers
    assert {answer.expected_return for answer in found.answers.values()} == {None}
