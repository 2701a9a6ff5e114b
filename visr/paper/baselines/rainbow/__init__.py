"""Rainbow (Hessel et al., 2018) and its published settings.

It is our own, because no maintained library that has it fits beside ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from visr.config import RunConfig


@dataclass(frozen=True)
class RainbowConfig:
    """The defaults are Table 1 of Hessel et al. (2018), with frames divided by 4."""

    n_step: int = 3
    replay_steps: int = 1_000_000
    """Steps in the replay buffer, if they fit into memory."""
    warm_up: int = 20_000
    """Steps of random actions before the first update."""
    update_every: int = 4
    """Steps per update."""
    target_period: int = 2_000
    """Updates between copies into the target network."""
    batch_size: int = 32
    learning_rate: float = 6.25e-5
    adam_epsilon: float = 1.5e-4
    hidden_size: int = 512
    """Units of both streams; at most the size of the torso's own linear layer."""
    sigma: float = 0.5
    """Initial standard deviation of the noisy layers."""
    priority_exponent: float = 0.5
    priority_correction: float = 0.4
    """Initial beta; it grows linearly to 1."""
    num_atoms: int = 51
    largest_return: float = 10.0
    """Atoms range from minus this to this."""
    max_gradient_norm: float = 10.0
    """As in Wang et al. (2016), who introduced the two streams."""


HESSEL = RainbowConfig()
DATA_EFFICIENT = RainbowConfig(
    n_step=20,
    warm_up=1_600,
    update_every=1,
    learning_rate=1e-4,
    hidden_size=256,
    sigma=0.1,
)
"""Van Hasselt et al. (2019), for 100,000 steps; without their smaller convolutions."""
_PUBLISHED = {"hessel": HESSEL, "data-efficient": DATA_EFFICIENT}


def rainbow_config(config: RunConfig) -> RainbowConfig:
    """The settings that a run asks for."""
    return scaled(_PUBLISHED[config.agent.rainbow_recipe], config.training.num_steps)


def scaled(config: RainbowConfig, num_steps: int) -> RainbowConfig:
    """For short runs: warm up for at most 1/20 of the steps, and copy the target at least 50 times."""
    num_updates = num_steps // config.update_every
    return replace(
        config,
        warm_up=min(config.warm_up, num_steps // 20),
        target_period=min(config.target_period, max(num_updates // 50, 1)),
    )
