"""What a setting may be, and which settings fit together: one sentence for each misfit."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import typing
from typing import Any, Literal

from visr.config import sizes
from visr.config.bounds import LARGEST_SIZE, Bound
from visr.config.fields import (
    BASELINES,
    GRID,
    REPLAY_LEARNERS,
    SECTIONS,
    AgentConfig,
    ClusterConfig,
    RunConfig,
    TrainingConfig,
)
from visr.config.replay import ReplayConfig
from visr.errors import UserError, short_repr

_ENV = re.compile(
    r"([A-Za-z_]\w*(\.[A-Za-z_]\w*)*:|[^:,\0-\x1f]*[^:,/\0-\x1f]\.py:)?[^:\s]+", re.ASCII
)
"""Id-v0, module:Id-v0 or file.py:Class; VISR_TRUST separates files by commas."""
NOT_OF_REPLAY = (
    *("features", "cumulant", "objective", "bonus", "task_distribution", "core", "hidden_sizes"),
    *("phi_layers", "head_size", "centred_features", "feature_centre", "gpi_samples"),
    *("gpi_distribution", "gpi_kappa", "target_period", "phi_learning_rate", "phi_adam_epsilon"),
    *("phi_num_steps", "learning_rate_decay", "batch_size", "micro_batch", "num_rewarded_envs"),
    *("max_staleness", "publish_every", "num_learners", "cpus_per_learner", "gpus_per_learner"),
)
"""Settings of the paper's agent that a replay learner does not read."""


def validated(config: RunConfig) -> RunConfig:
    """`config` itself, or a UserError that names the first setting that is not allowed."""
    check_env(config.env)
    for section in SECTIONS:
        check_fields(getattr(config, section))
    _check_batches(config.agent, config.training)
    _check_agent(config.agent)
    sizes.check(config)
    _check_groups(config.training)
    if config.agent.algorithm in REPLAY_LEARNERS:
        _check_replay_learner(config)
    _check_practice(config.replay)
    _check_features(config)
    _check_dataset(config)
    _check_cluster(config.cluster, config.training)
    return config


def trainable(config: RunConfig) -> RunConfig:
    """`config`, validated, if there is anything to learn in its environment."""
    if config.is_grid and config.grid.height == config.grid.width == 1:
        raise UserError(
            "A grid of 1 x 1 cells is too small: nothing differs in one cell, so give it a larger "
            "height or width."
        )
    if config.is_grid and config.agent.algorithm in ("nsq", *BASELINES):
        raise UserError(
            f"{GRID} has no rewards of its own, so {config.agent.algorithm} would learn nothing there; "
            "choose another environment."
        )
    if not config.has_environment and not config.replay.dataset:
        raise UserError(
            f"{config.env} names only the spaces of a dataset; add --dataset, or name an environment."
        )
    return validated(config)


# ------------------------------------------------------------------------------ one setting


def check_env(env: Any) -> None:
    """An id, module:Id or file.py:Class; nothing is imported here."""
    if not isinstance(env, str) or not _ENV.fullmatch(env) or not env.isprintable():
        raise UserError(
            f"env = {short_repr(env)} must be an environment's id, or module:Id or file.py:Class for one of "
            "your own; `visr list envs` names some."
        )


def check_fields(section: Any) -> None:
    """Every field of a section of settings."""
    hints = _type_hints(type(section))
    for field in dataclasses.fields(section):
        _check_value(field.name, getattr(section, field.name), hints[field.name])


@functools.cache
def _type_hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _check_value(name: str, value: Any, hint: Any) -> None:
    if problem := _problem(value, hint):
        raise UserError(f"{name} = {short_repr(value)} {problem}.")
    if name == "gamma" and value == 1:
        raise UserError("gamma = 1 makes the sum of features endless here; use 0.99 or less.")


def _problem(value: Any, hint: Any) -> str | None:
    """What is wrong with a value of that type, to follow `name = value`."""
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        listed = ", ".join(choices)
        is_choice = isinstance(value, str) and value in choices
        return None if is_choice else f"is not a choice; it can be one of {listed}"
    if typing.get_origin(hint) is tuple:
        is_list = isinstance(value, tuple) and len(value) > 0
        if is_list and all(type(v) is int and 1 <= v <= LARGEST_SIZE for v in value):
            return None
        return f"must be one or more whole numbers from 1 to {LARGEST_SIZE:,}"
    if hint is str:
        return None if isinstance(value, str) else "must be a word"
    if hint is bool:
        return None if type(value) is bool else "must be true or false"
    return _problem_of_number(value, *typing.get_args(hint))


def _problem_of_number(value: Any, kind: type, bound: Bound) -> str | None:
    is_number = type(value) is int or (kind is float and isinstance(value, float))
    if not is_number or not abs(value) < math.inf:
        return f"must be a {'whole number, as 5000 or 5e3' if kind is int else 'finite number'}"
    if bound.contains(value):
        return None
    if bound == Bound(0, 1):
        return "must lie between 0 and 1"
    if value > bound.high:
        return f"is too large; it must be at most {bound.high:,}"
    if bound.is_open:
        return f"must be greater than {bound.low:g}"
    return f"is too small; it must be at least {bound.low:g}"


# ------------------------------------------------------------------- settings with each other


def _check_batches(agent: AgentConfig, training: TrainingConfig) -> None:
    processes, groups = training.num_processes, training.num_actor_groups
    if processes > groups + 1:
        raise UserError(
            f"num_processes = {processes} is more than one that learns and one for each of "
            f"num_actor_groups = {groups}; give at most {groups + 1}, or raise --num-actor-groups too."
        )
    needs_whole_batches = {
        "centred_features": agent.centred_features,
        "objective = 'laplacian'": agent.objective == "laplacian",
        "bonus = 'particles'": agent.bonus == "particles",
        "task_distribution = 'visited'": agent.task_distribution == "visited",
    }
    for setting, is_set in needs_whole_batches.items():
        if is_set and training.micro_batch:
            raise UserError(
                f"micro_batch = {training.micro_batch} does not go with {setting}, which looks at the "
                "whole batch at once; use --micro-batch 0."
            )
    steps, length = agent.task_steps, training.unroll_length
    if steps and agent.task_distribution == "uniform":
        raise UserError(
            f"task_steps = {steps} says how long visited tasks last; add --task-distribution visited."
        )
    if steps and length % steps:
        raise UserError(
            f"task_steps = {steps} does not divide unroll_length = {length} evenly; give a divisor of it."
        )


def _check_agent(agent: AgentConfig) -> None:
    if agent.objective != "visr" and agent.features == "random":
        raise UserError(
            f"objective = {agent.objective!r} trains phi and features = 'random' forbids it; leave out one."
        )
    if agent.objective == "metra" and agent.cumulant == "current":
        raise UserError(
            "cumulant = 'current' does not go with objective = 'metra', whose cumulant is the difference "
            "of two states; leave it out."
        )
    if agent.objective == "metra" and agent.task_distribution == "visited":
        raise UserError(
            "task_distribution = 'visited' does not go with objective = 'metra': its tasks are directions, "
            "not states; leave out one."
        )


def _check_replay_learner(config: RunConfig) -> None:
    default = RunConfig()
    for name in NOT_OF_REPLAY:
        section = next(
            s for s in ("agent", "training", "cluster") if hasattr(getattr(default, s), name)
        )
        value, usual = (getattr(getattr(c, section), name) for c in (config, default))
        if value != usual:
            raise UserError(
                f"{name} = {short_repr(value)} is a setting of the paper's agent, which the replay learner "
                "does not read; leave it out, or use --algorithm visr."
            )


def _check_practice(replay: ReplayConfig) -> None:
    """Shares of practised tasks."""
    shares = (replay.goal_share, replay.stretch_share, replay.constant_share)
    if sum(shares) > 1 + 1e-9:
        raise UserError(
            f"goal_share, stretch_share and constant_share sum to {sum(shares):g}; give at most 1 in all."
        )
    if replay.num_stages > _MOST_STAGES:
        raise UserError(
            f"num_stages = {replay.num_stages} leaves the first ones without steps; give at most "
            f"{_MOST_STAGES}."
        )


_MOST_STAGES = 8


def _check_features(config: RunConfig) -> None:
    chosen = config.replay.transition_features
    if config.agent.algorithm == "fb" and chosen != "auto":
        raise UserError(
            f"transition_features = {chosen!r} does not go with algorithm = 'fb', which learns features of "
            "its own; use --algorithm replay."
        )


def _check_dataset(config: RunConfig) -> None:
    if config.replay.dataset and config.agent.algorithm not in REPLAY_LEARNERS:
        raise UserError(
            f"algorithm = {config.agent.algorithm!r} learns from steps of its own and not from dataset = "
            f"{short_repr(config.replay.dataset)}; the replay learner does."
        )
    for name in ("num_processes", "num_actor_groups"):
        if config.replay.dataset and (value := getattr(config.training, name)) > 1:
            raise UserError(f"{name} = {value} has no effect with a dataset; leave it out.")


def _check_groups(training: TrainingConfig) -> None:
    num_envs, num_rewarded = training.num_envs, training.num_rewarded_envs
    if num_rewarded >= num_envs:
        raise UserError(
            f"num_rewarded_envs = {num_rewarded} leaves none of num_envs = {num_envs} to pre-train in; "
            "give fewer of them."
        )
    if training.num_actor_groups > num_envs - num_rewarded:
        raise UserError(
            f"num_actor_groups = {training.num_actor_groups} is more than num_envs = "
            f"{num_envs - num_rewarded}; every group needs an environment, so give at most that many groups."
        )


def _check_cluster(cluster: ClusterConfig, training: TrainingConfig) -> None:
    """Learners must be able to share a batch, and actors must not wait for each other."""
    size, stale, every = training.batch_size, cluster.max_staleness, cluster.publish_every
    if size % cluster.num_learners:
        raise UserError(
            f"num_learners = {cluster.num_learners} cannot share batch_size = {size} evenly; "
            "give a divisor of it."
        )
    if every > max(stale, 1):
        raise UserError(
            f"publish_every = {every} makes weights older than max_staleness = {stale} permits; "
            f"give --max-staleness {every} or more."
        )
    most = (stale - every + 1) * size
    num_envs = training.num_envs - training.num_rewarded_envs
    largest_group = math.ceil(num_envs / training.num_actor_groups)
    if stale and largest_group > most:
        raise UserError(
            f"max_staleness = {stale} is too small for {largest_group} environments per actor, of which at "
            f"most {most} could act at a time; raise it, or --num-actor-groups."
        )
