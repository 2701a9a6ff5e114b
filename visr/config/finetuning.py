"""Settings of fine-tuning, their checks, and how they are read."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from visr.config.bounds import Count, CountFromOne, Fraction, Positive, Size
from visr.config.check import check_fields
from visr.config.load import plain, unknown_field
from visr.errors import UserError


@dataclass(frozen=True)
class FinetuneConfig:
    """`visr finetune`: RL on the true reward, from the pre-trained psi or from scratch."""

    num_steps: CountFromOne = 100_000
    """Total rewarded steps, rounded up to whole unrolls of all environments."""
    from_scratch: bool = False
    """Start with new weights instead of the run's: the same learner without pre-training."""
    num_envs: Size = 8
    """Number of parallel environments."""
    unroll_length: Size = 20
    """Steps per unroll."""
    batch_size: Size = 8
    """Unrolls per update, drawn from the replay buffer."""
    updates_per_round: CountFromOne = 32
    """Updates after each round, one unroll of every environment."""
    replay_steps: CountFromOne = 100_000
    """Capacity of the replay buffer, in steps."""
    n_step: CountFromOne = 3
    """Length of the n-step return."""
    learning_rate: Positive = 2.5e-4
    """Adam's learning rate."""
    target_period: CountFromOne = 200
    """Updates between copies into the target network."""
    epsilon: Fraction = 0.05
    """Probability of a uniformly random action."""
    sweep_steps: Count = 0
    """Initial steps that pursue random tasks as in pre-training, for varied experience."""
    gpi_steps: Count = 10_000
    """Initial steps that act by GPI over w and the run's saved tasks, with psi as pre-trained."""
    exploration_steps: Count = 10_000
    """From scratch: steps over which epsilon falls from 1."""
    free_steps: Count = 0
    """Extra reward-free steps of the pre-trained agent, labelled by a learned reward model (0: none)."""
    free_epsilon: Fraction = 0.9
    """Largest epsilon of the extra and the sweep steps; every round of unrolls draws its own."""
    free_share: Fraction = 0.5
    """Share of every batch that is extra steps."""
    free_updates: Count = 6_000
    """Updates on the extra steps only, after the first reward and before Q acts."""
    checkpoint_every: CountFromOne = 20_000
    """Steps between checkpoints; the last two are kept."""
    seed: Count = 0
    """Random seed; it fixes every random draw."""


def finetune_settings(fields: dict[str, Any]) -> FinetuneConfig:
    """Settings of fine-tuning with these fields changed, or a UserError that names the first misfit."""
    names = {f.name for f in dataclasses.fields(FinetuneConfig)}
    for name in fields:
        if name not in names:
            raise UserError(unknown_field(name, names, "finetune"))
    default = FinetuneConfig()
    settings = FinetuneConfig(**{k: plain(v, getattr(default, k)) for k, v in fields.items()})
    _check(settings)
    return settings


def _check(settings: FinetuneConfig) -> None:
    """Settings of fine-tuning: each one, then together."""
    check_fields(settings)
    is_new, is_free = settings.from_scratch, settings.free_steps > 0
    if settings.sweep_steps > (settings.num_steps if is_free else settings.num_steps - 1):
        raise UserError(
            f"sweep_steps = {settings.sweep_steps:,} leave nothing of num_steps = {settings.num_steps:,} to "
            "learn with; give fewer."
        )
    if is_free and settings.free_epsilon < settings.epsilon:
        raise UserError(
            f"free_epsilon = {settings.free_epsilon} is less than epsilon = {settings.epsilon}; give "
            "more."
        )
    without_effect = {
        "free_epsilon": (not is_free, "without free_steps"),
        "free_share": (not is_free, "without free_steps"),
        "free_updates": (not is_free, "without free_steps"),
        "sweep_steps": (is_new and not is_free, "with from_scratch and no free_steps"),
        "exploration_steps": (
            not is_new or is_free,
            "unless from_scratch is set and free_steps is 0",
        ),
        "gpi_steps": (is_new or is_free, "with from_scratch or free_steps"),
    }
    for name, (does_nothing, where) in without_effect.items():
        value = getattr(settings, name)
        if does_nothing and value != getattr(FinetuneConfig, name):
            raise UserError(f"{name} = {value} does nothing {where}; leave it out.")
