"""Check an environment: step it with random actions and report what visr needs to know."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from visr.config import RunConfig
from visr.envs import make_vec, space_codec
from visr.envs.gym import GymEnvs
from visr.envs.spaces import one_line

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
    problems: list[str] = field(default_factory=list)
    """Reasons not to train here."""
    remarks: list[str] = field(default_factory=list)
    """Other things worth knowing."""


def check_env(config: RunConfig, num_steps: int, seed: int = 0) -> EnvCheck:
    """Play `num_steps` random steps, then compare two short runs with the same seed."""
    env = make_vec(config, _COPIES)
    if isinstance(env, GymEnvs):
        env.allow_non_finite = True  # counted here, not refused
    codec = space_codec(config)
    space, count = env.single_observation_space, int(env.single_action_space.n)  # pyright: ignore
    seen = _play(env, max(num_steps // _COPIES, 1), seed)
    env.close()
    found = EnvCheck(
        env=config.env,
        own_observations=one_line(codec.own_space),
        seen_as=_described(space),
        own_actions=f"{count} of them" if codec.actions.ndim == 1 else f"{count} combinations",
        num_actions=count,
        num_steps=seen["num_steps"],
        steps_per_second=seen["num_steps"] / seen["seconds"],
        is_deterministic=_is_deterministic(config, seed),
        num_rewarded=seen["num_rewarded"],
        smallest_reward=seen["smallest_reward"],
        largest_reward=seen["largest_reward"],
        num_episodes=len(seen["lengths"]),
        num_truncated=seen["num_truncated"],
        mean_length=float(np.mean(seen["lengths"])) if seen["lengths"] else None,
        num_constant=_num_constant(space, seen["lowest"], seen["highest"]),
    )
    _judge(found, seen)
    return found


def _described(space: spaces.Space) -> str:
    if isinstance(space, spaces.Discrete):
        return f"a state out of {space.n}"
    assert isinstance(space, spaces.Box)
    if len(space.shape) == 3:
        return f"an image, {' x '.join(map(str, space.shape))} (channels, height, width)"
    return f"a vector of {space.shape[0]} numbers"


def _play(env: VectorEnv, num_steps: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    lowest, highest = (observation.astype(np.float64) for _ in range(2))
    age, ended = np.zeros(env.num_envs, dtype=np.int64), np.zeros(env.num_envs, dtype=np.bool_)
    lengths: list[int] = []
    rewards: list[NDArray] = []
    num_truncated, num_bad = 0, _num_bad(observation)
    count: int = env.single_action_space.n  # pyright: ignore
    start = time.perf_counter()
    for _ in range(num_steps):
        observation, reward, terminated, truncated, _ = env.step(
            random.integers(count, size=env.num_envs)
        )
        happened = ~ended
        age += happened
        rewards.append(reward[happened])
        ended = terminated | truncated
        lengths += age[ended].tolist()
        age[ended] = 0
        num_truncated += int((truncated & ~terminated).sum())
        num_bad += _num_bad(observation)
        np.minimum(lowest, observation, out=lowest)
        np.maximum(highest, observation, out=highest)
    seconds = time.perf_counter() - start
    reward = np.concatenate(rewards)
    return {
        "num_steps": len(reward),
        "seconds": max(seconds, 1e-9),
        "lengths": lengths,
        "num_truncated": num_truncated,
        "num_rewarded": int(np.count_nonzero(reward)),
        "smallest_reward": float(reward.min()),
        "largest_reward": float(reward.max()),
        "finite_rewards": bool(np.isfinite(reward).all()),
        "num_bad": num_bad,
        "lowest": lowest.min(axis=0),
        "highest": highest.max(axis=0),
    }


def _num_bad(observation: NDArray) -> int:
    is_float = observation.dtype.kind == "f"
    return int(np.count_nonzero(~np.isfinite(observation))) if is_float else 0


def _num_constant(space: spaces.Space, lowest: NDArray, highest: NDArray) -> int | None:
    is_vector = isinstance(space, spaces.Box) and len(space.shape) == 1
    return int(np.count_nonzero(lowest == highest)) if is_vector else None


def _is_deterministic(config: RunConfig, seed: int) -> bool:
    """Whether equal seeds and actions give equal steps, resets included."""
    first, second = (make_vec(config, 2) for _ in range(2))
    for env in (first, second):
        if isinstance(env, GymEnvs):
            env.allow_non_finite = True
    random = np.random.default_rng(seed)
    try:
        if not np.array_equal(
            first.reset(seed=seed)[0], second.reset(seed=seed)[0], equal_nan=True
        ):
            return False
        count: int = first.single_action_space.n  # pyright: ignore
        for _ in range(_COMPARED_STEPS):
            action = random.integers(count, size=2)
            for a, b in zip(first.step(action)[:4], second.step(action)[:4], strict=True):
                if not np.array_equal(a, b, equal_nan=True):
                    return False
        return True
    finally:
        first.close()
        second.close()


def _judge(found: EnvCheck, seen: dict[str, Any]) -> None:
    """Add problems and remarks for somebody who wants to train here."""
    if seen["num_bad"]:
        found.problems.append(f"{seen['num_bad']} numbers in observations were NaN or infinite.")
    if not seen["finite_rewards"]:
        found.problems.append("Some rewards were NaN or infinite.")
    if np.array_equal(seen["lowest"], seen["highest"]):
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
