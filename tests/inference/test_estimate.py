"""Several methods from rewards to w: what each finds, and how it is validated."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from visr.config import InferenceConfig
from visr.errors import UserError
from visr.inference import explain
from visr.inference.prompts import Reward
from visr.inference.regression import Comparison, describe, estimate
from visr.inference.steps import RewardedSteps, TriedTasks
from visr.ops import regression

W = np.array([0.6, -0.48, 0.64, 0.0])
REGRESSIONS = {"least squares", "ridge", "centred", "centred ridge", "whitened"}


def features(num_steps: int = 400, d: int = 4, seed: int = 0) -> NDArray[np.float32]:
    phi = np.random.default_rng(seed).normal(size=(num_steps, d))
    return (phi / np.linalg.norm(phi, axis=1, keepdims=True)).astype(np.float32)


def steps(
    phi: NDArray[np.float32], reward: Any, steps_each: int = 20, tried: TriedTasks | None = None
) -> RewardedSteps:
    """Episodes of equal length."""
    episode = np.arange(len(phi)) // steps_each
    return RewardedSteps(phi, np.asarray(reward, dtype=np.float64), episode, tried)


def infer(steps: RewardedSteps) -> Comparison:
    """As the reward prompt does."""
    return Reward("a reward").infer(None, lambda: steps)  # pyright: ignore


def tasks(count: int = 8) -> TriedTasks:
    """Tasks and the returns of episodes that pursued them: the nearer to W, the better."""
    w = features(count, seed=3).astype(np.float64)
    return TriedTasks(w, 10 * w @ W)


def assert_defined(compared: Comparison) -> None:
    """Unit vectors, and never a NaN."""
    assert compared.best in compared.estimates
    assert compared.estimates.keys() == compared.validations.keys()
    for name, found in compared.estimates.items():
        validation = compared.validations[name]
        assert np.linalg.norm(found.w) == pytest.approx(1)
        assert not math.isnan(found.condition_number)
        assert math.isfinite(validation.r_squared)
        assert validation.interval.shape == (2, len(found.w))
        assert np.isfinite(validation.interval).all()
        assert (validation.interval[0] <= validation.interval[1]).all()
        assert -1 - 1e-6 <= validation.bootstrap_cosine <= 1 + 1e-6
    assert compared.words
    assert all("nan" not in sentence for sentence in compared.words)


# --- what is found


def test_every_regression_recovers_a_planted_task():
    phi = features()
    compared = infer(steps(phi, phi @ W))
    assert_defined(compared)
    assert set(compared.estimates) == REGRESSIONS
    for name, found in compared.estimates.items():
        assert found.w @ W > 0.999, name
        assert compared.validations[name].r_squared > 0.97
        assert compared.validations[name].bootstrap_cosine > 0.999
    exact = compared.validations["least squares"]
    assert np.allclose(compared.estimates["least squares"].w, W, atol=1e-6)
    assert exact.r_squared == pytest.approx(1)
    assert np.allclose(exact.interval, W, atol=1e-6)
    assert (compared.num_steps, compared.num_episodes, compared.num_rewarded) == (400, 20, 400)


def test_noise_widens_the_intervals_and_they_contain_the_true_w():
    phi, noise = features(4_000), np.random.default_rng(1).normal(size=4_000)
    quiet, loud = (
        infer(steps(phi, phi @ W + level * noise)).validations["least squares"]
        for level in (0.1, 1.0)
    )
    assert (np.ptp(loud.interval, axis=0) > 3 * np.ptp(quiet.interval, axis=0)).all()
    for validation in (quiet, loud):
        margin = np.ptp(validation.interval, axis=0)
        assert (validation.interval[0] - margin <= W).all()
        assert (validation.interval[1] + margin >= W).all()
    assert loud.bootstrap_cosine < quiet.bootstrap_cosine < 1


def test_centred_regression_ignores_an_offset_of_the_reward():
    phi = features()
    compared = infer(steps(phi, phi @ W + 3))
    assert compared.best.startswith("centred")
    assert compared.estimates["centred"].w @ W == pytest.approx(1, abs=1e-6)
    assert compared.validations["centred"].r_squared == pytest.approx(1)
    assert compared.validations["least squares"].r_squared < 0


def test_random_search_takes_the_task_of_the_best_episode():
    phi, tried = features(), tasks()
    compared = infer(steps(phi, phi @ W, tried=tried))
    assert_defined(compared)
    assert set(compared.estimates) == REGRESSIONS | {"random search"}
    best = tried.w[tried.returns.argmax()]
    found = compared.estimates["random search"]
    assert np.allclose(found.w, best)
    assert found.method == f"random search over 8 episodes, best return {tried.returns.max():g}"
    # phi . best, at its best scale, explains cos^2 of a reward whose features have no preferred direction
    explained = (best @ W) ** 2
    assert found.r_squared == pytest.approx(explained, abs=0.1)
    assert compared.validations["random search"].r_squared == pytest.approx(explained, abs=0.1)


def test_random_search_takes_the_best_single_episode_although_another_task_has_a_better_mean():
    # task 0 returned 5 and -5, task 1 returned 4 and 4
    tried = TriedTasks(np.eye(4)[[0, 1, 0, 1]], np.array([5.0, 4.0, -5.0, 4.0]))
    compared = estimate(steps(features(), features() @ W, tried=tried), InferenceConfig())
    assert compared.estimates["random search"].w.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("reward", [np.ones(160), np.random.default_rng(5).normal(size=160)])
def test_equal_returns_without_a_good_fit_recommend_no_method(reward: Any):
    tried = TriedTasks(tasks().w, np.full(8, 6.0))
    compared = infer(steps(features()[:160], reward, tried=tried))
    assert compared.best == "random search"
    (sentence,) = compared.words
    assert sentence.startswith(
        "Trust none of them: the 8 episodes that were tried returned the same"
    )


def test_resampling_random_search_finds_the_best_episode_only_when_it_is_drawn():
    # of 2 episodes, a resample lacks the better one in 1 of 4 cases
    tried = TriedTasks(np.eye(4)[[1, 0]], np.array([0.0, 1.0]))
    phi = features()
    compared = infer(steps(phi, phi @ W, tried=tried))
    cosine = compared.validations["random search"].bootstrap_cosine
    assert cosine == pytest.approx(0.75, abs=0.1)


def test_the_scale_of_rewards_changes_nothing():
    phi = features()
    noise = np.random.default_rng(1).normal(size=len(phi))
    small, large = (infer(steps(phi, k * (phi @ W + noise))) for k in (1.0, 1e6))
    assert small.best == large.best
    assert_same(small, large)


def assert_same(some: Comparison, other: Comparison) -> None:
    for name, found in some.estimates.items():
        assert np.allclose(found.w, other.estimates[name].w)
        mine, theirs = some.validations[name], other.validations[name]
        assert np.allclose(mine.interval, theirs.interval)
        assert mine.bootstrap_cosine == pytest.approx(theirs.bootstrap_cosine)
        assert mine.r_squared == pytest.approx(theirs.r_squared)


# --- one configured regression, as in the paper's second phase


@pytest.mark.parametrize(
    ("config", "method"),
    [
        (InferenceConfig(), "least squares"),
        (InferenceConfig(centred=True), "centred least squares"),
        (InferenceConfig(ridge=0.1), "ridge regression (0.1)"),
        (InferenceConfig(centred=True, whitened=True), "centred whitened least squares"),
    ],
)
def test_a_configured_regression_is_fit_task_on_all_steps(config: InferenceConfig, method: str):
    data = steps(features(), features() @ W + 1 + np.arange(400) % 3, tried=tasks())
    compared = estimate(data, config)
    assert list(compared.estimates) == ["least squares", "random search"]
    assert compared.best == "least squares"
    assert (compared.validations, compared.words) == ({}, [])
    fit, found = regression.fit_task(data.sums(), config), compared.estimates["least squares"]
    assert found.method == method == describe(config)
    assert np.array_equal(found.w, fit.w)
    assert np.array_equal(found.standard_error, fit.standard_error)
    assert (found.r_squared, found.condition_number) == (fit.r_squared, fit.condition_number)


def test_without_a_reward_or_without_features_only_search_remains():
    silent = estimate(steps(features(), np.zeros(400), tried=tasks()), InferenceConfig())
    bare = estimate(steps(features()[:, :0], np.ones(400), tried=tasks()), InferenceConfig())
    for compared in (silent, bare):
        assert list(compared.estimates) == [compared.best] == ["random search"]
        assert compared.estimates["random search"].r_squared == 0
        assert np.isinf(compared.estimates["random search"].standard_error).all()


# --- how it is validated


@pytest.mark.parametrize("seed", range(5))
def test_the_best_method_predicts_held_out_episodes_best(seed: int):
    random = np.random.default_rng(seed)
    phi = features(seed=seed)
    reward = phi @ W + random.normal(size=len(phi)) + random.choice([0.0, 2.0])
    compared = infer(steps(phi, reward, tried=tasks()))
    scores = {name: validation.r_squared for name, validation in compared.validations.items()}
    assert scores[compared.best] == max(scores.values())


def test_every_fourth_episode_is_held_out_and_the_others_are_fitted():
    phi = features()
    reward = phi @ W + np.random.default_rng(1).normal(size=len(phi))
    held = np.arange(len(phi)) // 20 % 4 == 3
    w, *_ = np.linalg.lstsq(phi[~held].astype(float), reward[~held])
    errors = reward[held] - phi[held] @ w
    expected = 1 - (errors**2).sum() / ((reward[held] - reward[held].mean()) ** 2).sum()
    validation = infer(steps(phi, reward)).validations["least squares"]
    assert validation.r_squared == pytest.approx(expected)


def test_noise_explains_nothing_on_held_out_episodes_though_it_does_in_sample():
    in_sample, held_out = [], []
    for seed in range(10):
        phi = features(80, d=24, seed=seed)
        noise = np.random.default_rng(100 + seed).normal(size=80)
        compared = infer(steps(phi, noise, 8))
        in_sample.append(compared.estimates["least squares"].r_squared)
        held_out.append(compared.validations["least squares"].r_squared)
    assert np.mean(in_sample) > 0.2
    assert np.mean(held_out) < 0
    assert max(held_out) < 0.3


def test_repeating_every_step_of_an_episode_adds_no_certainty():
    # the bootstrap draws episodes, and an episode of 50 copies is still one episode
    phi = features(120)
    reward = phi @ W + np.random.default_rng(1).normal(size=120)
    episode = np.arange(120) // 10
    once = infer(RewardedSteps(phi, reward, episode))
    phis, rewards = np.repeat(phi, 50, axis=0), np.repeat(reward, 50)
    assert_same(once, infer(RewardedSteps(phis, rewards, np.repeat(episode, 50))))
    # as episodes of their own, the copies would count
    separate = infer(RewardedSteps(phis, rewards, np.arange(6_000)))
    wide = np.ptp(once.validations["least squares"].interval, axis=0)
    narrow = np.ptp(separate.validations["least squares"].interval, axis=0)
    assert (narrow < wide / 3).all()


def test_the_numbers_of_episodes_and_the_order_of_steps_do_not_matter():
    phi = features(120)
    reward = phi @ W + np.random.default_rng(1).normal(size=120)
    episode = np.arange(120) // 10
    order = np.random.default_rng(2).permutation(120)
    plain = infer(RewardedSteps(phi, reward, episode))
    mixed = infer(RewardedSteps(phi[order], reward[order], 7 * episode[order] + 1_000))
    assert_same(plain, mixed)


def test_the_same_steps_give_the_same_estimates():
    phi = features(120)
    reward = phi @ W + np.random.default_rng(1).normal(size=120)
    first, again = (infer(steps(phi, reward, tried=tasks())) for _ in range(2))
    assert first.words == again.words
    for name, validation in first.validations.items():
        assert np.array_equal(validation.interval, again.validations[name].interval)


def test_hundreds_of_episodes_are_joined_in_blocks_and_all_of_them_count():
    phi = features(1_500)
    compared = infer(steps(phi, phi @ W, steps_each=2))
    assert (compared.num_episodes, compared.num_steps) == (750, 1_500)
    assert np.allclose(compared.estimates["least squares"].w, W, atol=1e-6)


# --- little data, and bad data


@pytest.mark.parametrize("tried", [None, tasks()])
def test_without_any_reward_there_is_nothing_to_infer(tried: Any):
    with pytest.raises(UserError, match=r"No reward was seen in 1,200 steps"):
        infer(steps(features(1_200), np.zeros(1_200), tried=tried))


def test_a_constant_reward_leaves_only_search():
    phi = features()
    with pytest.raises(UserError, match="The reward is 1 at every step"):
        infer(steps(phi, np.ones(400)))
    compared = infer(steps(phi, np.ones(400), tried=tasks()))
    assert_defined(compared)
    assert set(compared.estimates) == {"least squares", "random search"}
    assert compared.best == "random search"
    assert "the same at every step" in compared.words[0]


@pytest.mark.parametrize("step", [0, 70, 399])
@pytest.mark.parametrize("tried", [None, tasks()])
def test_a_single_rewarded_step_gives_an_estimate_and_a_warning(step: int, tried: Any):
    reward = np.zeros(400)
    reward[step] = 1
    compared = infer(steps(features(), reward, tried=tried))
    assert_defined(compared)
    assert compared.num_rewarded == 1
    assert "Only 1 steps had a reward, few for 4 features." in compared.words


@pytest.mark.parametrize("tried", [None, tasks(1)])
def test_a_single_episode_gives_an_estimate_and_a_warning(tried: Any):
    phi = features(30)
    compared = infer(steps(phi, phi @ W, steps_each=30, tried=tried))
    assert_defined(compared)
    assert compared.num_episodes == 1
    assert "Held-out R^2 is optimistic with so few episodes (1)." in compared.words


@pytest.mark.parametrize("num_episodes", [2, 3, 4, 5])
def test_a_few_episodes_give_an_estimate(num_episodes: int):
    phi = features(5 * num_episodes)
    assert_defined(infer(steps(phi, phi @ W, steps_each=5)))


def test_a_single_step_gives_an_estimate():
    tried = TriedTasks(W[None], np.array([2.0]))
    assert_defined(infer(steps(features(1), [2.0], tried=tried)))


def test_equal_features_in_all_steps_leave_uncentred_regression_or_nothing():
    phi = np.tile(features(1), (40, 1))
    reward = np.arange(40.0)
    compared = infer(steps(phi, reward, steps_each=5))
    assert_defined(compared)
    assert set(compared.estimates) == {"least squares", "ridge"}
    with pytest.raises(UserError, match=r"nothing in common with the features"):
        infer(steps(np.zeros_like(phi), reward))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.nan, "1 of 400 rewards are NaN or infinite"),
        (np.inf, "1 of 400 rewards are NaN or infinite"),
        (-np.inf, "1 of 400 rewards are NaN or infinite"),
        (1e13, r"larger than 1e\+12"),
    ],
)
def test_rewards_that_are_not_finite_or_too_large_are_refused(bad: float, words: str):
    reward = np.ones(400)
    reward[7] = bad
    with pytest.raises(UserError, match=words):
        infer(steps(features(), reward, tried=tasks()))


def test_features_that_are_not_finite_are_refused():
    phi = features()
    phi[3] = np.nan
    with pytest.raises(UserError, match="features phi are NaN"):
        infer(steps(phi, np.arange(400.0)))


def test_no_steps_at_all_are_refused():
    with pytest.raises(UserError, match="no steps"):
        infer(steps(np.empty((0, 4), np.float32), []))


def test_a_constant_feature_expresses_a_constant_reward():
    phi = np.concatenate([np.ones((400, 1), np.float32), features()], axis=1)
    asked = dataclasses.replace(steps(phi, -np.ones(400)), prefers_regression=True)
    compared = infer(asked)
    assert compared.best == "least squares"
    assert compared.words == [explain._EXPRESSED]


def test_many_features_take_few_decompositions(monkeypatch: pytest.MonkeyPatch):
    calls, eigh = [], np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda m: calls.append(len(m)) or eigh(m))
    phi = features(300, d=128)
    compared = infer(steps(phi, phi[:, 0] > 0.1))
    assert set(compared.estimates) >= REGRESSIONS
    assert calls.count(128) <= 120  # two of each of 50 resamples, and those of the ridge
