"""What training with a configuration costs, before anything is built: its author may be unknown.

The estimates are rough: multiplications and numbers in memory, for one core. They tell hours from years.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from visr.config.fields import REPLAY_LEARNERS, RunConfig
from visr.config.finetuning import FinetuneConfig
from visr.config.replay import LEARNED_FEATURES
from visr.config.sizes import MOST_ACTIONS
from visr.errors import UserError

MOST_BYTES = 8e9
MOST_SECONDS = 365 * 86_400.0
"""Costlier trainings ask for consent when they are resumed; all presets are cheaper."""
MOST_SAMPLES, MOST_LAYERS = 1_000, 64
"""The same for `gpi_samples` and for the number of hidden layers."""
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
_CHECKPOINT_SECONDS = 0.02
"""The least time to save a checkpoint, or to append a row to each table."""
_CELL_SECONDS, _CELL_BYTES = 2e-3, 2.5e4
"""For one cell in an exact evaluation of a grid world."""
_PROCESS_BYTES = 2.5e8
"""Of a worker process."""


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


def of_training(config: RunConfig) -> Cost:
    """The cost of a whole training."""
    agent, training, replay = config.agent, config.training, config.replay
    num_steps = training.num_steps
    cells = config.grid.height * config.grid.width if config.is_grid else 0
    per_step, layers, heads = _step_multiplications(config)
    calls = len(agent.hidden_sizes) * _LAYER_SECONDS / training.num_envs
    seconds = num_steps * (_STEP_SECONDS + per_step / _PER_SECOND + calls)
    rounds = num_steps / (training.num_envs * training.unroll_length)
    for every in (training.log_every, training.checkpoint_every):
        seconds += min(rounds, num_steps / every) * _CHECKPOINT_SECONDS
    seconds += min(rounds, num_steps / training.evaluate_every) * cells * _CELL_SECONDS
    memory = {  # weights twice, gradients, Adam's moments, a target
        "hidden_sizes": 40.0 * (layers + heads) + len(agent.hidden_sizes) * _LAYER_BYTES,
        "gpi_samples": _gpi_bytes(config, training.num_envs),
        "batch_size": _batch_bytes(config, training.unroll_length, training.batch_size),
        "num_processes": _PROCESS_BYTES * (training.num_processes - 1),
        "height and width": _CELL_BYTES * cells,
    }
    if agent.algorithm in REPLAY_LEARNERS:
        learnt = replay.transitions_per_update * replay.tasks_per_update
        seconds += replay.num_updates * learnt * 6 * replay.psi_width**2 / _PER_SECOND
        if replay.transition_features in LEARNED_FEATURES:
            seconds += replay.num_stages * replay.feature_updates * _FEATURE_UPDATE / _PER_SECOND
        memory["tasks_per_update"] = 32.0 * learnt * replay.psi_width
        memory["buffer_steps"] = replay.buffer_steps * _step_bytes(config)
        memory["library_size"] = 16.0 * replay.num_library_numbers(agent.num_features)
    return Cost(memory, seconds)


def of_finetuning(config: RunConfig, settings: FinetuneConfig) -> Cost:
    """The cost of a whole fine-tuning."""
    num_steps = settings.num_steps + settings.free_steps
    per_step, layers, heads = _step_multiplications(config)
    learnt = settings.batch_size * settings.unroll_length
    rounds = math.ceil(settings.num_steps / (settings.num_envs * settings.unroll_length))
    updates = rounds * settings.updates_per_round + settings.free_updates
    calls = len(config.agent.hidden_sizes) * _LAYER_SECONDS
    seconds = num_steps * (_STEP_SECONDS + per_step / _PER_SECOND + calls / settings.num_envs)
    seconds += updates * (learnt * per_step / _PER_SECOND + 10 * _LAYER_SECONDS + calls)
    saved = min(rounds, num_steps / settings.checkpoint_every)
    memory = {
        "hidden_sizes": 40.0 * (layers + heads) + len(config.agent.hidden_sizes) * _LAYER_BYTES,
        "num_envs": _gpi_bytes(config, settings.num_envs),
        "batch_size": _batch_bytes(config, settings.unroll_length, settings.batch_size),
        "replay_steps": settings.replay_steps * _step_bytes(config),
    }
    return Cost(memory, seconds + saved * _CHECKPOINT_SECONDS)


def _step_multiplications(config: RunConfig) -> tuple[float, float, float]:
    """Of a step that is acted and learnt from; numbers in the layers, and in the heads."""
    agent = config.agent
    states = config.grid.height * config.grid.width if config.is_grid else 1_000
    hidden, d = agent.hidden_sizes, agent.num_features
    layers = sum(a * b for a, b in itertools.pairwise((states, *hidden)))
    heads = hidden[-1] * d * MOST_ACTIONS
    policies = (agent.gpi_samples if agent.gpi else 0) + 1
    screen = _SCREEN if config.is_atari else 0
    return 5 * (layers + screen) + (policies + 4) * heads, layers, heads  # forwards and backwards


def _gpi_bytes(config: RunConfig, num_envs: int) -> float:
    agent = config.agent
    policies = (agent.gpi_samples if agent.gpi else 0) + 1
    return 4.0 * num_envs * policies * max(agent.hidden_sizes[-1], agent.num_features)


def _batch_bytes(config: RunConfig, unroll_length: int, batch_size: int) -> float:
    return 8.0 * (unroll_length + 1) * batch_size * sum(config.agent.hidden_sizes)


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
