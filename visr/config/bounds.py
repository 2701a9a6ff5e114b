"""What a single value may be: its type, then its range, a sentence for each misfit."""

from __future__ import annotations

import math
import re
import typing
from typing import Any, Literal

from visr.errors import UserError, said

_AT_LEAST: dict[str, float] = {
    "height": 1,
    "width": 1,
    "max_episode_steps": 0,
    "frame_skip": 1,
    "noop_max": 0,
    "max_episode_frames": 1,
    "max_game_steps": 1,
    "discretise": 0,
    "num_features": 2,
    "head_size": 1,
    "gpi_samples": 1,
    "gpi_kappa": 0,
    "n_step": 1,
    "target_period": 1,
    "phi_num_steps": 0,
    "num_skills": 2,
    "curiosity_size": 1,
    "bonus_scale": 0,
    "value_weight": 0,
    "bonus_num_steps": 0,
    "bonus_neighbours": 1,
    "num_steps": 1,
    "num_envs": 1,
    "unroll_length": 1,
    "batch_size": 1,
    "seed": 0,
    "num_processes": 1,
    "num_actor_groups": 1,
    "micro_batch": 0,
    "num_threads": 0,
    "num_rewarded_envs": 0,
    "rewarded_window": 1,
    "log_every": 1,
    "checkpoint_every": 1,
    "evaluate_every": 1,
    "ridge": 0,
    "recorded_steps": 0,
    "updates_per_round": 1,
    "replay_steps": 1,
    "gpi_steps": 0,
    "sweep_steps": 0,
    "free_steps": 0,
    "free_updates": 0,
    "task_steps": 0,
    "exploration_steps": 0,
    "max_staleness": 0,
    "publish_every": 1,
    "cpus_per_actor": 0,
    "gpus_per_actor": 0,
    "num_learners": 1,
    "cpus_per_learner": 0,
    "gpus_per_learner": 0,
}
_POSITIVE = (
    "constant_reward",
    "psi_learning_rate",
    "psi_adam_epsilon",
    "phi_learning_rate",
    "phi_adam_epsilon",
    "learning_rate",
    "unroll_timeout",
)
_FRACTIONS = (
    *("epsilon", "free_epsilon", "free_share"),
    *("gamma", "task_mix", "sticky_actions", "repeat_probability"),
)
_ENV = re.compile(r"([A-Za-z_]\w*(\.[A-Za-z_]\w*)*:)?[^:\s]+", re.ASCII)
_LARGEST = 2**63 - 1
"""Of any whole number: what 64 bits hold."""
_SIZES = (
    *("height", "width", "num_features", "head_size", "gpi_samples", "num_envs", "batch_size"),
    *("unroll_length", "bonus_neighbours"),
    *("num_processes", "num_actor_groups", "frame_skip", "noop_max", "micro_batch", "num_threads"),
    *("num_rewarded_envs", "rewarded_window", "num_skills", "curiosity_size"),
    *("max_staleness", "publish_every", "num_learners", "cpus_per_actor", "gpus_per_actor"),
    *("cpus_per_learner", "gpus_per_learner"),
)
_LARGEST_SIZE = 10**6
"""Of what is held in memory, and of a hidden layer: a slip of the finger, not a wish."""


def check_env(env: Any) -> None:
    """An id, perhaps behind the module that registers it; nothing is imported here."""
    if not isinstance(env, str) or not _ENV.fullmatch(env):
        raise UserError(
            f"env = {said(env)} must be an environment's id, or module:id for one of your own; "
            "`visr list envs` names some."
        )


def check(name: str, value: Any, hint: Any) -> None:
    """Type first, then range: one sentence each."""
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        if value not in choices:
            listed = ", ".join(map(str, choices))
            raise UserError(f"{name} = {said(value)} is not a choice; it can be one of {listed}.")
    elif typing.get_origin(hint) is tuple:
        is_sizes = isinstance(value, tuple) and len(value) > 0
        if not is_sizes or not all(type(v) is int and 1 <= v <= _LARGEST_SIZE for v in value):
            raise UserError(
                f"{name} = {said(value)} must be one or more whole numbers from 1 to {_LARGEST_SIZE:,}."
            )
    elif hint is str:
        if not isinstance(value, str):
            raise UserError(f"{name} = {said(value)} must be a word.")
    elif hint is bool:
        if type(value) is not bool:
            raise UserError(f"{name} = {said(value)} must be true or false.")
    else:
        _check_number(name, value, hint)


def _check_number(name: str, value: Any, hint: type) -> None:
    is_number = type(value) is int or (hint is float and isinstance(value, float))
    if not is_number or not abs(value) < math.inf:
        kind = "a whole number" if hint is int else "a finite number"
        raise UserError(f"{name} = {said(value)} must be {kind}.")
    if name in _FRACTIONS and not 0 <= value <= 1:
        raise UserError(f"{name} = {said(value)} must lie between 0 and 1.")
    largest = _LARGEST_SIZE if name in _SIZES else _LARGEST
    if value > largest:
        raise UserError(f"{name} = {said(value)} is too large; it must be at most {largest:,}.")
    if name in _AT_LEAST and value < _AT_LEAST[name]:
        raise UserError(
            f"{name} = {said(value)} is too small; it must be at least {_AT_LEAST[name]:g}."
        )
    if name in _POSITIVE and value <= 0:
        raise UserError(f"{name} = {said(value)} must be greater than 0.")
    if name == "gamma" and value == 1:
        raise UserError("gamma = 1 makes the sum of features endless here; use 0.99 or less.")
