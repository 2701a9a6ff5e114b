"""SimPLe (Kaiser et al., 2020): PPO inside a model that predicts the next observation, and its settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from visr.config import RunConfig

PUBLISHED_STEPS = 100_000
"""Real steps for which the numbers of updates and of simulated steps are chosen."""


@dataclass(frozen=True)
class SimpleConfig:
    """The defaults are for MinAtar on one CPU core; docs/agents/simple.md has those of the paper."""

    num_iterations: int = 15
    """Times that real steps are collected, the model is trained and the policy is trained."""
    history: int = 4
    """Last observations that the model sees."""
    held_out: float = 0.05
    """Share of every iteration's real steps that measures the model and never trains it."""
    # the model
    widths: tuple[int, ...] = (32, 64)
    """Channels at full resolution, and after each halving of height and width."""
    num_bits: int = 16
    """Discrete latent bits of one step."""
    model_updates: int = 200
    """Updates of the model in one iteration."""
    first_updates: int = 5
    """The first iteration has so many times as many."""
    num_sequences: int = 32
    """Sequences of real steps in one update."""
    sequence_length: int = 3
    """Steps of a sequence; scheduled sampling replaces inputs from the second step on."""
    model_learning_rate: float = 3e-3
    # the policy
    num_simulated_envs: int = 64
    rollout_length: int = 50
    """Steps of a simulated episode, which starts in a real state."""
    num_rollouts: int = 8
    """Rollouts of all simulated environments, each followed by PPO's updates, in one iteration."""
    policy_learning_rate: float = 5e-4
    num_epochs: int = 4
    batch_size: int = 400


MINATAR = SimpleConfig()
ATARI = replace(MINATAR, widths=(32, 64, 64, 64, 64), num_bits=32)
"""Screens of 84 x 84: the lowest resolution is 6 x 6."""


def simple_config(config: RunConfig) -> SimpleConfig:
    """The settings of a run."""
    return scaled(ATARI if config.is_atari else MINATAR, config.training.num_steps)


def scaled(config: SimpleConfig, num_steps: int) -> SimpleConfig:
    """For short runs: fewer updates and simulated environments, in proportion to the real steps."""
    share = min(1.0, num_steps / PUBLISHED_STEPS)
    num_iterations = max(1, min(config.num_iterations, num_steps // _FEWEST_STEPS))
    work = share * config.num_iterations / num_iterations
    return replace(
        config,
        num_iterations=num_iterations,
        model_updates=max(1, round(config.model_updates * work)),
        num_rollouts=max(1, round(config.num_rollouts * work)),
        num_simulated_envs=max(8, round(config.num_simulated_envs * min(1.0, 8 * work))),
    )


_FEWEST_STEPS = 100
"""Real steps of an iteration, at least."""
