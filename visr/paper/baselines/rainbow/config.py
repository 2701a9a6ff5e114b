"""Rainbow's settings, as published."""

from __future__ import annotations

from dataclasses import dataclass, replace

from visr.config import RunConfig


@dataclass(frozen=True)
class Recipe:
    """Defaults: Table 1 of Hessel et al. (2018), frames there divided by 4 here."""

    n_step: int = 3
    memory_size: int = 1_000_000
    """Steps that are remembered, if they fit into memory."""
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
    """Units of both streams, or as many as the torso's own linear layer has if these are fewer."""
    sigma: float = 0.5
    """The noisy layers' deviation at first."""
    priority_exponent: float = 0.5
    priority_correction: float = 0.4
    """Beta at first; it grows linearly to 1."""
    num_atoms: int = 51
    largest_return: float = 10.0
    """Atoms reach from minus this to this."""
    longest_gradient: float = 10.0
    """As in Wang et al. (2016), where the two streams come from."""


HESSEL = Recipe()
DATA_EFFICIENT = Recipe(
    n_step=20,
    warm_up=1_600,
    update_every=1,
    learning_rate=1e-4,
    hidden_size=256,
    sigma=0.1,
)
"""Van Hasselt et al. (2019), for 100,000 steps; their smaller convolutions are not taken over."""
RECIPES = {"hessel": HESSEL, "data-efficient": DATA_EFFICIENT}


def of(config: RunConfig) -> Recipe:
    """The one that a run asks for."""
    return scaled(RECIPES[config.agent.rainbow_recipe], config.training.num_steps)


def scaled(recipe: Recipe, num_steps: int) -> Recipe:
    """For a short run: warm-up a twentieth of it at most, the target's period a fiftieth of its updates."""
    num_updates = num_steps // recipe.update_every
    return replace(
        recipe,
        warm_up=min(recipe.warm_up, num_steps // 20),
        target_period=min(recipe.target_period, max(num_updates // 50, 1)),
    )
