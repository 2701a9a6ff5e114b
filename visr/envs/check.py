"""Check an environment: step it with random actions and report what visr needs to know."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from visr.config import RunConfig
from visr.envs import make_vec, space_codec
from visr.envs.gym import GymEnvs
from visr.errors import short_repr

_COPIES = 8
_COMPARED_STEPS = 200


@dataclass
class EnvCheck:
    """Facts about an environment, problems and remarks."""

    env: str
    own_observations: str
    seen_as: str
    own_actions: str
    num_actions: int
    num_steps: int
    steps_per_second: float
    is_deterministic: bool
    num_rewarded: int
    smallest_reward: float
    largest_reward: float
    num_episodes: int
    num_truncated: int
    mean_length: float | None
    num_constant: int | None
    """Numbers of the observation that never changed; None for images and states."""
    num_inputs: int | None = None
    """Numbers of the observation; None for images and states."""
    problems: list[str] = field(default_factory=list)
    """Reasons not to train here."""
    remarks: list[str] = field(default_factory=list)
    """Other facts that the user should know."""


def check_env(config: RunConfig, num_steps: int, seed: int = 0) -> EnvCheck:
    """Play `num_steps` random steps, then compare two short runs with the same seed."""
    codec = space_codec(config)
    with contextlib.closing(_make(config, _COPIES)) as env:
        space, count = env.single_observation_space, _num_actions(env)
        played = _play(env, max(num_steps // _COPIES, 1), seed)
        advice = env.warnings if isinstance(env, GymEnvs) else []
    reward, lengths = played.reward, played.lengths
    is_vector = isinstance(space, spaces.Box) and len(space.shape) == 1
    found = EnvCheck(
        env=config.env,
        own_observations=short_repr(codec.own_space),
        seen_as=_described(space),
        own_actions=f"{count} of them" if codec.actions.ndim == 1 else f"{count} combinations",
        num_actions=count,
        num_steps=len(reward),
        steps_per_second=len(reward) / played.seconds,
        is_deterministic=_is_deterministic(config, seed),
        num_rewarded=int(np.count_nonzero(reward)),
        smallest_reward=float(reward.min()),
        largest_reward=float(reward.max()),
        num_episodes=len(lengths),
        num_truncated=played.num_truncated,
        mean_length=float(np.mean(lengths)) if lengths else None,
        num_constant=int((played.lowest == played.highest).sum()) if is_vector else None,
        num_inputs=int(np.prod(space.shape or ())) if is_vector else None,
    )
    _judge(found, played)
    if advice:
        found.remarks.append(
            "Gymnasium's checker advises, and visr works without it: "
            f"{'; '.join(text.rstrip('.') for text in advice)}."
        )
    return found


def _make(config: RunConfig, num_envs: int) -> VectorEnv:
    env = make_vec(config, num_envs)
    if isinstance(env, GymEnvs):
        env.allow_non_finite = True  # counted here, not refused
    return env


def _num_actions(env: VectorEnv) -> int:
    return int(env.single_action_space.n)  # pyright: ignore[reportAttributeAccessIssue]


def _described(space: spaces.Space) -> str:
    if isinstance(space, spaces.Discrete):
        return f"a state out of {space.n}"
    assert isinstance(space, spaces.Box)
    if len(space.shape) == 3:
        return f"an image, {' x '.join(map(str, space.shape))} (channels, height, width)"
    return f"a vector of {space.shape[0]} numbers"


class Played(NamedTuple):
    """Statistics of the random steps."""

    seconds: float
    reward: NDArray
    """[steps]"""
    lengths: list[int]
    """Steps of each episode that ended."""
    num_truncated: int
    num_bad: int
    """NaN and infinite numbers in observations."""
    lowest: NDArray
    """The smallest value of each number of the observation."""
    highest: NDArray


def _play(env: VectorEnv, num_steps: int, seed: int) -> Played:
    random, count = np.random.default_rng(seed), _num_actions(env)
    observation, _ = env.reset(seed=seed)
    lowest, highest = (observation.astype(np.float64) for _ in range(2))
    age, ended = np.zeros(env.num_envs, dtype=np.int64), np.zeros(env.num_envs, dtype=np.bool_)
    lengths: list[int] = []
    rewards: list[NDArray] = []
    num_truncated, num_bad = 0, int((~np.isfinite(observation)).sum())
    start = time.perf_counter()
    for _ in range(num_steps):
        observation, reward, terminated, truncated, _ = env.step(
            random.integers(count, size=env.num_envs)
        )
        age += ~ended  # an environment that ended only resets in this step
        rewards.append(reward[~ended])
        ended = terminated | truncated
        lengths += age[ended].tolist()
        age[ended] = 0
        num_truncated += int((truncated & ~terminated).sum())
        num_bad += int((~np.isfinite(observation)).sum())
        np.minimum(lowest, observation, out=lowest)
        np.maximum(highest, observation, out=highest)
    seconds = max(time.perf_counter() - start, 1e-9)
    extremes = lowest.min(axis=0), highest.max(axis=0)
    return Played(seconds, np.concatenate(rewards), lengths, num_truncated, num_bad, *extremes)


def _is_deterministic(config: RunConfig, seed: int) -> bool:
    """Whether equal seeds and actions give equal steps, resets included."""

    def same(first: Iterable[NDArray], second: Iterable[NDArray]) -> bool:
        return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))

    random = np.random.default_rng(seed)
    with contextlib.closing(_make(config, 2)) as one, contextlib.closing(_make(config, 2)) as two:
        if not same(one.reset(seed=seed)[:1], two.reset(seed=seed)[:1]):
            return False
        actions = random.integers(_num_actions(one), size=(_COMPARED_STEPS, 2))
        return all(same(one.step(action)[:4], two.step(action)[:4]) for action in actions)


def _judge(found: EnvCheck, played: Played) -> None:
    """Add reasons not to train here, and other remarks."""
    if played.num_bad:
        found.problems.append(f"{played.num_bad} numbers in observations were NaN or infinite.")
    if not np.isfinite(played.reward).all():
        found.problems.append("Some rewards were NaN or infinite.")
    if np.array_equal(played.lowest, played.highest):
        found.problems.append("The observation never changed, so there is nothing to learn.")
    if found.num_actions < 2:
        found.problems.append("There is only one action, so there is nothing to choose.")
    if not found.is_deterministic:
        found.remarks.append(
            "Equal seeds gave different steps: runs here cannot be repeated bit by bit."
        )
    if not found.num_rewarded:
        found.remarks.append(
            "Random actions reached no reward: pre-training needs none, but inferring a task from the "
            "environment's own reward does; describe the reward by a function or an expression instead."
        )
    elif found.smallest_reward == found.largest_reward:
        found.remarks.append(
            f"The reward is {found.largest_reward:g} at every step: only how long episodes last matters."
        )
    if not found.num_episodes:
        found.remarks.append("No episode ended in so many steps.")
    if found.num_constant:
        found.remarks.append(f"{found.num_constant} numbers of the observation never changed.")
