"""Returns of the asked reward in whole episodes, compared with a plain loop over the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import visr as library
from tests.conftest import tiny
from visr import pretraining
from visr.errors import UserError
from visr.storage.records.episodes import EpisodeEvaluation, Returns


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> library.Run:
    fields: dict[str, Any] = {
        "hidden_sizes": (8, 8),
        "num_features": 3,
        "unroll_length": 8,
        "recorded_steps": 400,
        "num_envs": 4,
        "num_actor_groups": 1,
        "batch_size": 2,
        "num_steps": 32,
        "gpi": False,
    }
    path = tmp_path_factory.mktemp("episodes") / "run"
    return library.Run(pretraining.start(path, tiny(env="CartPole-v1", **fields)))


def rolled_out(policy: Any, reward: Any, num_episodes: int = 50) -> np.ndarray:
    """Asked and own returns of a policy, by Gymnasium alone: [episodes, 2]."""
    env, returns = gymnasium.make("CartPole-v1"), []
    for seed in range(num_episodes):
        observation, _ = env.reset(seed=10_000 + seed)
        sums, is_over = np.zeros(2), False
        while not is_over:
            observation, own, terminated, truncated, _ = env.step(int(policy(observation)))
            sums += reward(observation), float(own)
            is_over = terminated or truncated
        returns.append(sums)
    env.close()
    return np.array(returns)


def assert_same_mean(found: Any, expected: np.ndarray) -> None:
    """Within four standard errors of the difference."""
    error = np.hypot(found.standard_error, expected.std() / np.sqrt(len(expected)))
    assert abs(found.mean - expected.mean()) < 4 * error + 1e-6


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("position < -0.02", lambda x: float(x[0] < -0.02)),
        ("-abs(angle)", lambda x: -abs(float(x[2]))),
    ],
)
def test_asked_returns_are_those_of_an_independent_roll_out(
    run: library.Run, text: str, reward: Any
):
    task = run.infer(text)
    found = run.evaluate_episodes(task, num_episodes=50, epsilon=0.0)
    mine = rolled_out(run.policy(task), reward)
    assert_same_mean(found.asked, mine[:, 0])
    assert_same_mean(found.environment, mine[:, 1])
    rng = np.random.default_rng(0)
    chance = rolled_out(lambda _: rng.integers(2), reward)
    random, constant = found.policies[1:]
    assert random.policy == "random policy"
    assert_same_mean(random.asked, chance[:, 0])
    assert_same_mean(random.environment, chance[:, 1])
    always = [rolled_out(lambda _, a=a: a, reward) for a in (0, 1)]
    chosen = ["always left", "always right"].index(constant.policy)
    assert_same_mean(constant.asked, always[chosen][:, 0])
    means = [one[:, 0].mean() for one in always]
    assert means[chosen] >= max(means) - 0.3  # three episodes choose it


def test_an_evaluation_survives_its_file_and_keeps_earlier_keys(run: library.Run, tmp_path: Path):
    from visr.storage.files import write_json

    found = run.evaluate(run.infer("angle"), num_episodes=3)
    assert isinstance(found, EpisodeEvaluation)
    write_json(tmp_path / "one.json", found.to_dict())
    assert EpisodeEvaluation.load(tmp_path / "one.json") == found
    content = found.to_dict()
    assert content["mean"] == found.environment.mean
    assert content["scores"] == list(found.environment.returns)
    write_json(tmp_path / "old.json", {"mean": 1.0, "scores": [1.0]})
    assert EpisodeEvaluation.load(tmp_path / "old.json") is None


def test_playing_returns_the_asked_reward_too(run: library.Run):
    task = run.infer("position < 0")
    played = run.play(task, num_episodes=20, epsilon=0.0)
    expected = rolled_out(run.policy(task), lambda x: float(x[0] < 0))
    assert_same_mean(Returns.of([one.asked_return for one in played]), expected[:, 0])
    assert_same_mean(Returns.of([one.score for one in played]), expected[:, 1])


def test_gamma_is_for_exact_values(run: library.Run):
    with pytest.raises(UserError, match=r"gamma = 0\.9 is for exact values"):
        run.evaluate(run.skill(0), gamma=0.9)


@pytest.mark.parametrize(
    ("count", "words"), [(0, "does not lie between 1 and"), (1.5, "is not a whole number")]
)
def test_a_wrong_number_of_episodes_is_refused_by_its_name(
    run: library.Run, count: Any, words: str
):
    with pytest.raises(UserError, match=f"num_episodes = {count} {words}"):
        run.evaluate(run.skill(0), num_episodes=count)
    with pytest.raises(UserError, match=f"num_episodes = {count}"):
        run.evaluate_task(run.skill(0), num_episodes=count)
