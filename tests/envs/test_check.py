"""`visr doctor`: what it finds in environments that fit, and in some that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.test_cli import visr
from visr.config import RunConfig
from visr.envs import check
from visr.envs.check import EnvCheck


class Odd(gymnasium.Env):
    """Two numbers, or 150 with the fault "long"; all but the first are 3.

    Episodes have five steps; `fault` says what is wrong with it.
    """

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.size = 150 if fault == "long" else 2
        self.observation_space = spaces.Box(-np.inf, np.inf, (self.size,), np.float32)
        self.action_space = spaces.Discrete(1 if fault == "one action" else 3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(5, np.float32) if self.fault == "shape" else self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.time += 1
        if self.fault == "a mistake":
            raise KeyError("of\nmine")
        reward = {"NaN reward": np.nan, "no reward": 0.0}.get(self.fault, float(self.time))
        return self._seen(), reward, False, self.time == 5 and self.fault != "endless", {}

    def _seen(self) -> np.ndarray:
        first = float(self.time)
        if self.fault == "NaN":
            first = np.nan
        if self.fault == "NaN at first" and self.time == 0:
            first = np.nan
        if self.fault == "unrepeatable":
            first = np.random.default_rng().normal()
        if self.fault == "still":
            first = 0.0
        return np.array([first, *[3.0] * (self.size - 1)], dtype=np.float32)


Make = Callable[[str], str]


@pytest.fixture
def odd() -> Iterator[Make]:
    """A function: a fault -> the id of an environment that has it."""

    def make(fault: str) -> str:
        gymnasium.register("Odd-v0", entry_point=lambda **_: Odd(fault), disable_env_checker=True)
        return "Odd-v0"

    yield make
    gymnasium.registry.pop("Odd-v0", None)


def examined(id: str, num_steps: int = 240) -> EnvCheck:
    return check.check_env(RunConfig(env=id), num_steps)


def test_cart_pole_fits_and_its_reward_says_only_how_long_episodes_last():
    found = examined("CartPole-v1", 800)
    assert found.problems == []
    assert found.remarks == ["The reward is 1 at every step: only how long episodes last matters."]
    assert found.seen_as == "a vector of 4 numbers"
    assert (found.num_actions, found.num_constant, found.is_deterministic) == (2, 0, True)
    # the steps that only reset are no steps, and every one that is had a reward
    assert 700 < found.num_steps == found.num_rewarded < 800
    assert (found.smallest_reward, found.largest_reward) == (1, 1)
    assert found.mean_length is not None
    assert 10 < found.mean_length < 40
    assert found.num_truncated == 0
    assert found.steps_per_second > 0


def test_episodes_and_rewards_are_counted(odd: Make):
    # 8 copies, 30 steps each: 5 steps and one that resets, so 5 episodes and 25 steps in each
    found = examined(odd("nothing"))
    assert (found.num_episodes, found.num_truncated, found.num_steps) == (40, 40, 200)
    assert (found.mean_length, found.smallest_reward, found.largest_reward) == (5, 1, 5)
    assert (found.num_rewarded, found.num_constant) == (200, 1)
    assert found.problems == []
    assert found.remarks == ["1 numbers of the observation never changed."]


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        # each of the 8 copies shows 31 observations, with one such number each; or 5 first ones
        ("NaN", "248 numbers in observations were NaN or infinite."),
        ("NaN at first", "48 numbers in observations were NaN or infinite."),
        ("NaN reward", "Some rewards were NaN or infinite."),
        ("one action", "There is only one action, so there is nothing to choose."),
        ("still", "The observation never changed, so there is nothing to learn."),
    ],
)
def test_faults_that_prevent_learning_are_problems(odd: Make, fault: str, problem: str):
    found = examined(odd(fault))
    assert found.problems == [problem]
    assert found.is_deterministic  # NaN equals NaN here


@pytest.mark.parametrize(
    ("fault", "remark"),
    [
        ("unrepeatable", "Equal seeds gave different steps"),
        ("no reward", "Random actions reached no reward"),
        ("endless", "No episode ended in so many steps."),
    ],
)
def test_faults_that_do_not_prevent_training_are_remarks(odd: Make, fault: str, remark: str):
    found = examined(odd(fault))
    assert found.problems == []
    assert sum(text.startswith(remark) for text in found.remarks) == 1
    assert found.is_deterministic == (fault != "unrepeatable")


@pytest.mark.parametrize(
    ("id", "seen_as"),
    [("FrozenLake-v1", "a state out of 16"), ("visr/Grid-v0", "a state out of 100")],
)
def test_observations_are_described(id: str, seen_as: str):
    assert examined(id).seen_as == seen_as


def test_planes_of_minatar_are_an_image():
    pytest.importorskip("minatar")
    found = examined("MinAtar/Breakout-v1")
    assert found.seen_as == "an image, 4 x 10 x 10 (channels, height, width)"
    assert (found.num_constant, found.is_deterministic, found.problems) == (None, True, [])


# --- visr doctor


def test_the_doctor_prints_its_findings():
    answer = visr("doctor", "CartPole-v1", "--steps", "200")
    assert answer.code == 0
    for words in ("a vector of 4 numbers", "2 of them", "100 % of steps, 1 to 1"):
        assert words in answer.out
    assert "It fits. Next: visr pretrain CartPole-v1 --algorithm replay" in answer.err


def test_the_doctors_json_is_what_it_found():
    content = visr("doctor", "CartPole-v1", "--steps", "200", "--seed", "3", "--json").json
    found = check.check_env(RunConfig(env="CartPole-v1"), 200, seed=3)
    assert content["num_steps"] == found.num_steps
    assert content["remarks"] == found.remarks
    assert content["num_actions"] == 2


def test_the_doctor_takes_the_settings_of_environments():
    answer = visr("doctor", "MountainCarContinuous-v0", "--steps", "80")
    assert answer.code == 2
    assert "--discretise 3" in answer.err
    settings = ("--discretise", "3", "--steps", "80", "--json")
    assert visr("doctor", "MountainCarContinuous-v0", *settings).json["num_actions"] == 3


def test_the_doctor_advises_enough_features_for_long_vectors(odd: Make):
    advice = "--algorithm replay --num-features 254"
    answer = visr("doctor", odd("long"), "--steps", "40")
    assert answer.err.strip().endswith(f"visr pretrain Odd-v0 {advice}")
    assert visr("pretrain", "Odd-v0", "--num-steps", "100").err == (
        "visr: num_features = 104 is too small for observations of 150 numbers; give at least 153.\n"
    )


def test_an_environment_that_does_not_fit_ends_with_2_and_still_shows_all(odd: Make):
    answer = visr("doctor", odd("NaN"), "--steps", "40")
    assert answer.code == 2
    assert "a vector of 2 numbers" in answer.out
    assert "visr: Odd-v0 does not fit: 48 numbers in observations were NaN" in answer.err
    assert "It fits" not in answer.err
    answer = visr("doctor", "Odd-v0", "--steps", "40", "--json")
    assert answer.code == 2
    assert answer.out.count("\n") == 1
    assert "does not fit" in answer.out + answer.err


@pytest.mark.parametrize(
    ("fault", "words"), [("a mistake", "KeyError: 'of"), ("shape", "ValueError: ")]
)
def test_an_environment_that_raises_is_one_sentence(odd: Make, fault: str, words: str):
    answer = visr("doctor", odd(fault), "--steps", "40")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert f"visr: The environment Odd-v0 failed with {words}" in answer.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("CartPol-v1",), "CartPole-v1"),
        (("CartPole-v1", "--steps", "0"), "steps = 0"),
        (("CartPole-v1", "--seed", "-1"), "seed = -1"),
        (("no.such.module:CartPole-v1",), "could not be imported"),
    ],
)
def test_bad_input_to_the_doctor_is_one_sentence(arguments: tuple[str, ...], words: str):
    answer = visr("doctor", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert words in answer.err
