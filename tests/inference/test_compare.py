"""Several ways from rewards to w: what each finds, and how honestly it is judged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from visr.errors import UserError
from visr.inference import compare
from visr.inference.compare import Comparison, Rewards
from visr.ops import regression
from visr.ops.regression import RewardSums

W = np.array([0.6, -0.48, 0.64, 0.0])
REGRESSIONS = {"least squares", "ridge", "centred", "centred ridge", "whitened"}


def features(num_steps: int = 400, d: int = 4, seed: int = 0) -> NDArray[np.float32]:
    phi = np.random.default_rng(seed).normal(size=(num_steps, d))
    return (phi / np.linalg.norm(phi, axis=1, keepdims=True)).astype(np.float32)


def rewards(
    phi: NDArray[np.float32], reward: Any, steps_each: int = 20, tried: Any = ()
) -> Rewards:
    """Episodes of equal length."""
    return Rewards(
        phi, np.asarray(reward, dtype=np.float64), np.arange(len(phi)) // steps_each, list(tried)
    )


def tasks(count: int = 8) -> list[tuple[NDArray[np.float64], float]]:
    """Tasks and the returns of episodes that pursued them: the nearer to W, the better."""
    return [(w, float(10 * w @ W)) for w in features(count, seed=3).astype(np.float64)]


def assert_defined(compared: Comparison) -> None:
    """Unit vectors, and never a NaN."""
    assert compared.best in compared.answers
    for answer in compared.answers.values():
        assert np.linalg.norm(answer.w) == pytest.approx(1)
        assert math.isfinite(answer.r_squared)
        assert not math.isnan(answer.condition_number)
        assert answer.interval.shape == (2, len(answer.w))
        assert np.isfinite(answer.interval).all()
        assert (answer.interval[0] <= answer.interval[1]).all()
        assert -1 - 1e-6 <= answer.steadiness <= 1 + 1e-6
    assert compared.words
    assert all("nan" not in sentence for sentence in compared.words)


# --- what is found


def test_every_regression_recovers_a_planted_task():
    phi = features()
    compared = compare.compare(rewards(phi, phi @ W))
    assert_defined(compared)
    assert set(compared.answers) == REGRESSIONS
    for answer in compared.answers.values():
        assert answer.w @ W > 0.999, answer.method
        assert answer.r_squared > 0.97
        assert answer.steadiness > 0.999
    exact = compared.answers["least squares"]
    assert np.allclose(exact.w, W, atol=1e-6)
    assert exact.r_squared == pytest.approx(1)
    assert np.allclose(exact.interval, W, atol=1e-6)
    assert (compared.num_steps, compared.num_episodes, compared.num_rewarded) == (400, 20, 400)


def test_noise_widens_the_intervals_and_they_hold_the_truth():
    phi, noise = features(4_000), np.random.default_rng(1).normal(size=4_000)
    quiet, loud = (
        compare.compare(rewards(phi, phi @ W + level * noise)).answers["least squares"]
        for level in (0.1, 1.0)
    )
    assert (np.ptp(loud.interval, axis=0) > 3 * np.ptp(quiet.interval, axis=0)).all()
    for answer in (quiet, loud):
        margin = np.ptp(answer.interval, axis=0)
        assert (answer.interval[0] - margin <= W).all()
        assert (answer.interval[1] + margin >= W).all()
    assert loud.steadiness < quiet.steadiness < 1


def test_an_offset_of_the_reward_is_a_matter_for_centring():
    phi = features()
    compared = compare.compare(rewards(phi, phi @ W + 3))
    assert compared.best.startswith("centred")
    assert compared.answers["centred"].w @ W == pytest.approx(1, abs=1e-6)
    assert compared.answers["centred"].r_squared == pytest.approx(1)
    assert compared.answers["least squares"].r_squared < 0


def test_random_search_takes_the_task_of_the_best_episode():
    phi, tried = features(), tasks()
    compared = compare.compare(rewards(phi, phi @ W, tried=tried))
    assert_defined(compared)
    assert set(compared.answers) == REGRESSIONS | {"random search"}
    best, _ = max(tried, key=lambda episode: episode[1])
    search = compared.answers["random search"]
    assert np.allclose(search.w, best)
    assert search.method == "random search over 8 episodes"
    # phi . best, at its best scale, explains cos^2 of a reward in all directions alike
    assert search.r_squared == pytest.approx((best @ W) ** 2, abs=0.1)


@pytest.mark.parametrize("reward", [np.ones(160), np.random.default_rng(5).normal(size=160)])
def test_episodes_that_all_returned_the_same_recommend_nobody(reward: Any):
    tried = [(w, 6.0) for w, _ in tasks()]
    compared = compare.compare(rewards(features()[:160], reward, tried=tried))
    assert compared.best == "random search"
    (sentence,) = compared.words
    assert sentence.startswith(
        "Trust none of them: the 8 episodes that were tried returned the same"
    )


def test_one_episode_far_ahead_makes_random_search_certain_only_as_often_as_it_is_drawn():
    # with 2 episodes a resample lacks the better one in 1 of 4 cases
    better, worse = np.eye(4)[0], np.eye(4)[1]
    phi = features()
    compared = compare.compare(rewards(phi, phi @ W, tried=[(worse, 0.0), (better, 1.0)]))
    assert compared.answers["random search"].steadiness == pytest.approx(0.75, abs=0.1)


def test_the_scale_of_rewards_changes_nothing():
    phi = features()
    noise = np.random.default_rng(1).normal(size=len(phi))
    small, large = (compare.compare(rewards(phi, k * (phi @ W + noise))) for k in (1.0, 1e6))
    assert small.best == large.best
    for name, answer in small.answers.items():
        other = large.answers[name]
        assert np.allclose(answer.w, other.w)
        assert np.allclose(answer.interval, other.interval)
        assert answer.r_squared == pytest.approx(other.r_squared)


# --- how it is judged


@pytest.mark.parametrize("seed", range(5))
def test_the_best_method_predicts_held_out_episodes_best(seed: int):
    random = np.random.default_rng(seed)
    phi = features(seed=seed)
    reward = phi @ W + random.normal(size=len(phi)) + random.choice([0.0, 2.0])
    compared = compare.compare(rewards(phi, reward, tried=tasks()))
    scores = {name: answer.r_squared for name, answer in compared.answers.items()}
    assert scores[compared.best] == max(scores.values())


def test_held_out_means_every_fourth_episode_as_fitted_on_the_others():
    phi = features()
    reward = phi @ W + np.random.default_rng(1).normal(size=len(phi))
    held = np.arange(len(phi)) // 20 % 4 == 3
    w, *_ = np.linalg.lstsq(phi[~held].astype(float), reward[~held])
    errors = reward[held] - phi[held] @ w
    expected = 1 - (errors**2).sum() / ((reward[held] - reward[held].mean()) ** 2).sum()
    answer = compare.compare(rewards(phi, reward)).answers["least squares"]
    assert answer.r_squared == pytest.approx(expected)


def test_noise_explains_nothing_that_was_held_out_though_it_seems_to_in_sample():
    in_sample, held_out = [], []
    for seed in range(10):
        phi = features(80, d=24, seed=seed)
        noise = np.random.default_rng(100 + seed).normal(size=80)
        sums = RewardSums(24)
        sums.add(phi, noise)
        in_sample.append(regression.solve(sums).r_squared)
        held_out.append(compare.compare(rewards(phi, noise, 8)).answers["least squares"].r_squared)
    assert np.mean(in_sample) > 0.2
    assert np.mean(held_out) < 0
    assert max(held_out) < 0.3


def test_steps_told_fifty_times_over_tell_nothing_new():
    # resampling draws episodes, and an episode that says everything 50 times is still one episode
    phi = features(120)
    reward = phi @ W + np.random.default_rng(1).normal(size=120)
    episode = np.arange(120) // 10
    once = compare.compare(Rewards(phi, reward, episode, []))
    phis, told, numbers = (np.repeat(x, 50, axis=0) for x in (phi, reward, episode))
    often = compare.compare(Rewards(phis, told, numbers, []))  # pyright: ignore
    for name, answer in once.answers.items():
        other = often.answers[name]
        assert np.allclose(answer.w, other.w)
        assert np.allclose(answer.interval, other.interval)
        assert answer.steadiness == pytest.approx(other.steadiness)
        assert answer.r_squared == pytest.approx(other.r_squared)
    # as episodes of their own they would be believed
    believed = Rewards(phis, told, np.arange(6_000), [])  # pyright: ignore
    wide = np.ptp(once.answers["least squares"].interval, axis=0)
    narrow = np.ptp(compare.compare(believed).answers["least squares"].interval, axis=0)
    assert (narrow < wide / 3).all()


def test_the_names_of_episodes_and_the_order_of_steps_do_not_matter():
    phi = features(120)
    reward = phi @ W + np.random.default_rng(1).normal(size=120)
    episode = np.arange(120) // 10
    order = np.random.default_rng(2).permutation(120)
    plain = compare.compare(Rewards(phi, reward, episode, []))
    mixed = compare.compare(Rewards(phi[order], reward[order], 7 * episode[order] + 1_000, []))
    for name, answer in plain.answers.items():
        assert np.allclose(answer.w, mixed.answers[name].w)
        assert np.allclose(answer.interval, mixed.answers[name].interval)


def test_answers_are_the_same_every_time():
    phi = features(120)
    reward = phi @ W + np.random.default_rng(1).normal(size=120)
    first, again = (compare.compare(rewards(phi, reward, tried=tasks())) for _ in range(2))
    assert first.words == again.words
    for name, answer in first.answers.items():
        assert np.array_equal(answer.interval, again.answers[name].interval)


def test_thousands_of_episodes_are_joined_in_blocks_and_all_of_them_count():
    phi = features(1_500)
    compared = compare.compare(rewards(phi, phi @ W, steps_each=2))
    assert (compared.num_episodes, compared.num_steps) == (750, 1_500)
    assert np.allclose(compared.answers["least squares"].w, W, atol=1e-6)


# --- what has no good answer


@pytest.mark.parametrize("tried", [[], tasks()])
def test_without_any_reward_there_is_nothing_to_infer(tried: Any):
    with pytest.raises(UserError, match=r"No reward was seen in 1,200 steps"):
        compare.compare(rewards(features(1_200), np.zeros(1_200), tried=tried))


def test_a_constant_reward_leaves_only_the_returns_to_go_by():
    phi = features()
    with pytest.raises(UserError, match="The reward is 1 at every step"):
        compare.compare(rewards(phi, np.ones(400)))
    compared = compare.compare(rewards(phi, np.ones(400), tried=tasks()))
    assert_defined(compared)
    assert set(compared.answers) == {"least squares", "random search"}
    assert compared.best == "random search"
    assert "the same at every step" in compared.words[0]


@pytest.mark.parametrize("step", [0, 70, 399])
@pytest.mark.parametrize("tried", [[], tasks()])
def test_a_single_rewarded_step_has_an_answer_and_a_warning(step: int, tried: Any):
    reward = np.zeros(400)
    reward[step] = 1
    compared = compare.compare(rewards(features(), reward, tried=tried))
    assert_defined(compared)
    assert compared.num_rewarded == 1
    assert "Only 1 steps had a reward, few for 4 features." in compared.words


@pytest.mark.parametrize("tried", [[], tasks(1)])
def test_a_single_episode_has_an_answer_and_a_warning(tried: Any):
    phi = features(30)
    compared = compare.compare(rewards(phi, phi @ W, steps_each=30, tried=tried))
    assert_defined(compared)
    assert compared.num_episodes == 1
    assert any("So few episodes (1)" in sentence for sentence in compared.words)


@pytest.mark.parametrize("num_episodes", [2, 3, 4, 5])
def test_a_few_episodes_have_an_answer(num_episodes: int):
    phi = features(5 * num_episodes)
    assert_defined(compare.compare(rewards(phi, phi @ W, steps_each=5)))


def test_a_single_step_has_an_answer():
    phi = features(1)
    assert_defined(compare.compare(rewards(phi, [2.0], tried=[(W, 2.0)])))


def test_features_that_are_all_alike_have_an_answer_or_a_sentence():
    phi = np.tile(features(1), (40, 1))
    reward = np.arange(40.0)
    compared = compare.compare(rewards(phi, reward, steps_each=5))
    assert_defined(compared)
    assert set(compared.answers) == {"least squares", "ridge"}  # nothing varies about the mean
    with pytest.raises(UserError, match=r"nothing in common with the features"):
        compare.compare(rewards(np.zeros_like(phi), reward))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.nan, "1 of 400 rewards are NaN or infinite"),
        (np.inf, "1 of 400 rewards are NaN or infinite"),
        (-np.inf, "1 of 400 rewards are NaN or infinite"),
        (1e13, r"larger than 1e\+12"),
    ],
)
def test_rewards_that_are_no_numbers_are_refused(bad: float, words: str):
    reward = np.ones(400)
    reward[7] = bad
    with pytest.raises(UserError, match=words):
        compare.compare(rewards(features(), reward, tried=tasks()))


def test_features_that_are_no_numbers_are_refused():
    phi = features()
    phi[3] = np.nan
    with pytest.raises(UserError, match="features phi are NaN"):
        compare.compare(rewards(phi, np.arange(400.0)))


def test_no_steps_at_all_are_refused():
    with pytest.raises(UserError, match="no steps"):
        compare.compare(rewards(np.empty((0, 4), np.float32), []))
