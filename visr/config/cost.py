"""What training with a configuration costs, before anything is built: its author may be unknown.

The estimates are rough: multiplications and numbers in memory, for one core. They tell hours from years.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from visr.config.fields import REPLAY_LEARNERS, RunConfig
from visr.config.finetuning import FinetuneConfig
from visr.config.replay import LEARNED_FEATURES
from visr.errors import UserError

MOST_BYTES = 8e9
MOST_SECONDS = 365 * 86_400.0
"""Costlier trainings ask for consent when they are resumed; all presets are cheaper."""
MOST_SAMPLES, MOST_LAYERS = 1_000, 64
"""The same for `gpi_samples` and for the number of hidden layers."""
_ACTIONS = 18
"""Of the largest set of Atari."""
_FEATURE_UPDATE = 1e8
"""Multiplications for one update of learned features of a step."""
_SCREEN = 2e7
"""Multiplications for one screen, in the largest of our networks."""
_SCREEN_BYTES = 7_100.0
"""Of one screen in a replay buffer."""
_PER_SECOND = 5e9
"""Multiplications of one core."""
_STEP_SECONDS = 1e-5
"""The least time for one step of an environment."""
_LAYER_SECONDS, _LAYER_BYTES = 2e-5, 3e4
"""For one call of a layer, and for its objects in Python."""


@dataclass(frozen=True)
class Cost:
    """An estimate."""

    num_bytes: dict[str, float]
    """By the settings that decide them."""
    seconds: float

    @property
    def total_bytes(self) -> float:
        """All of the memory."""
        return sum(self.num_bytes.values())

    def __str__(self) -> str:
        """In words."""
        memory, time = _memory(self.total_bytes), _duration(self.seconds)
        return f"about {memory} of memory and {time} of one core"


def of_training(config: RunConfig, num_steps: int) -> Cost:
    """The cost of so many more steps."""
    agent, training, replay = config.agent, config.training, config.replay
    states = config.grid.height * config.grid.width if config.is_grid else 1_000
    hidden, d = agent.hidden_sizes, agent.num_features
    layers = sum(a * b for a, b in itertools.pairwise((states, *hidden)))
    heads = hidden[-1] * d * _ACTIONS
    policies = (agent.gpi_samples if agent.gpi else 0) + 1
    screen = _SCREEN if config.is_atari else 0
    per_step = 5 * (layers + screen) + (policies + 4) * heads  # act, learn forwards and backwards
    calls = len(hidden) * _LAYER_SECONDS / training.num_envs
    seconds = num_steps * (_STEP_SECONDS + per_step / _PER_SECOND + calls)
    memory = {  # weights twice, gradients, Adam's moments, a target
        "hidden_sizes": 40.0 * (layers + heads) + len(hidden) * _LAYER_BYTES,
        "gpi_samples": 4.0 * training.num_envs * policies * max(hidden[-1], d),
        "batch_size": 8.0 * (training.unroll_length + 1) * training.batch_size * sum(hidden),
    }
    if agent.algorithm in REPLAY_LEARNERS:
        learnt = replay.transitions_per_update * replay.tasks_per_update
        seconds += replay.num_updates * learnt * 6 * replay.psi_width**2 / _PER_SECOND
        if replay.transition_features in LEARNED_FEATURES:
            seconds += replay.num_stages * replay.feature_updates * _FEATURE_UPDATE / _PER_SECOND
        memory["tasks_per_update"] = 32.0 * learnt * replay.psi_width
        memory["buffer_steps"] = replay.buffer_steps * _step_bytes(config)
    return Cost(memory, seconds)


def of_finetuning(config: RunConfig, settings: FinetuneConfig) -> Cost:
    """The cost of a whole fine-tuning."""
    cost = of_training(config, settings.num_steps + settings.free_steps)
    memory = {**cost.num_bytes, "replay_steps": settings.replay_steps * _step_bytes(config)}
    return Cost(memory, cost.seconds)


def _step_bytes(config: RunConfig) -> float:
    """Of one step in a replay buffer."""
    return _SCREEN_BYTES if config.is_atari else 100.0


def require_consent(where: object, config: RunConfig, cost: Cost, is_accepted: bool) -> None:
    """Refuse to go on with an extraordinary training until the user accepts what it costs."""
    agent, largest = config.agent, max(cost.num_bytes, key=lambda name: cost.num_bytes[name])
    reasons = {
        f"gpi_samples = {agent.gpi_samples:,}": agent.gpi and agent.gpi_samples > MOST_SAMPLES,
        f"{len(agent.hidden_sizes):,} hidden layers": len(agent.hidden_sizes) > MOST_LAYERS,
        f"num_steps = {config.training.num_steps:,}": cost.seconds > MOST_SECONDS,
        f"most memory for {largest}": cost.total_bytes > MOST_BYTES,
    }
    if not is_accepted and any(reasons.values()):
        named = ", ".join(reason for reason, is_large in reasons.items() if is_large)
        raise UserError(
            f"To go on with {where} would take {cost} ({named}); if that is what you want, add "
            "--accept-cost."
        )


def _memory(num_bytes: float) -> str:
    return (
        f"{num_bytes / 1e9:,.0f} GB" if num_bytes >= 1e9 else f"{max(num_bytes, 1e6) / 1e6:,.0f} MB"
    )


def _duration(seconds: float) -> str:
    for name, size in (("years", 365.25 * 86_400), ("days", 86_400.0), ("hours", 3_600.0)):
        if seconds >= 2 * size:
            count = seconds / size
            return f"{count:,.0f} {name}" if count < 1e6 else f"{count:.0e} {name}"
    return f"{max(seconds / 60, 1):,.0f} minutes"
