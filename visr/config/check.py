"""What must fit together: fields that are fine alone and not with each other."""

from __future__ import annotations

import itertools
import math

from visr.config.fields import GRID, AgentConfig, ClusterConfig, RunConfig, TrainingConfig
from visr.errors import UserError, said

_MOST_NUMBERS = 2**28
"""Of one array."""
_MOST_CELLS = 1_000_000


def check(config: RunConfig) -> None:
    """A UserError that names the first fields at odds."""
    training = config.training
    if training.num_processes > training.num_actor_groups:
        raise UserError(
            f"num_processes = {training.num_processes} is more than num_actor_groups = "
            f"{training.num_actor_groups}; every process acts for a group, so raise --num-actor-groups too."
        )
    if training.micro_batch and (whole := _wants_whole_batches(config.agent)):
        raise UserError(
            f"micro_batch = {training.micro_batch} does not go with {whole}, which looks at the whole "
            "batch at once; use --micro-batch 0."
        )
    _check_objective(config.agent)
    _check_task_steps(config.agent, training)
    _check_sizes(config)
    if training.num_rewarded_envs >= training.num_envs:
        raise UserError(
            f"num_rewarded_envs = {training.num_rewarded_envs} leaves none of num_envs = "
            f"{training.num_envs} to pre-train in; give fewer of them."
        )
    if training.num_actor_groups > (left := training.num_envs - training.num_rewarded_envs):
        raise UserError(
            f"num_actor_groups = {training.num_actor_groups} is more than num_envs = "
            f"{left}; every group needs an environment, so give at most that many groups."
        )
    _check_cluster(config.cluster, training)


def _check_sizes(config: RunConfig) -> None:
    """Products of sizes, before anybody allocates them: a configuration may come from a stranger."""
    grid = config.grid
    if config.env == GRID and grid.height * grid.width > _MOST_CELLS:
        raise UserError(
            f"A grid of {grid.height} x {grid.width} cells is too large: height times width can be at most "
            f"{_MOST_CELLS:,}."
        )
    for what, product in _products(config).items():
        if product > _MOST_NUMBERS:
            raise UserError(
                f"{what} would take {product:,} numbers at once; at most {_MOST_NUMBERS:,} (a gigabyte) are "
                "sensible, so choose smaller."
            )


def _products(config: RunConfig) -> dict[str, int]:
    """The largest arrays that a configuration asks for, in its own words."""
    agent, training, grid = config.agent, config.training, config.grid
    states = grid.height * grid.width if config.env == GRID else 1
    d, envs, batch = agent.num_features, training.num_envs, training.batch_size
    layers = itertools.pairwise((states, *agent.hidden_sizes, d))
    hidden, length = said(agent.hidden_sizes), training.unroll_length
    return {
        f"hidden_sizes = {hidden} between {states:,} states and {d:,} features": max(
            a * b for a, b in layers
        ),
        f"num_features = {d}": d * d,  # reward regression
        f"head_size = {agent.head_size} for {d:,} features": agent.head_size * d,
        f"curiosity_size = {agent.curiosity_size}": agent.curiosity_size**2,
        f"num_skills = {agent.num_skills}": agent.num_skills * max(agent.hidden_sizes),
        f"unroll_length = {length} with num_envs = {envs} and batch_size = {batch}": (
            (length + 1) * max(batch, envs)
        ),
        f"gpi_samples = {agent.gpi_samples} with num_envs = {envs} and {d:,} features": (
            agent.gpi_samples * envs * d
        ),
    }


def _wants_whole_batches(agent: AgentConfig) -> str | None:
    """The field, if any, whose mathematics is over all of a batch."""
    wanting = {
        "centred_features": agent.centred_features,
        "objective = 'laplacian'": agent.objective == "laplacian",
        "bonus = 'particles'": agent.bonus == "particles",
        "task_distribution = 'visited'": agent.task_distribution == "visited",
    }
    return next((field for field, is_set in wanting.items() if is_set), None)


def _check_objective(agent: AgentConfig) -> None:
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
            "task_distribution = 'visited' does not go with objective = 'metra': its tasks are ways to go, "
            "not states to be in; leave out one."
        )


def _check_task_steps(agent: AgentConfig, training: TrainingConfig) -> None:
    steps, length = agent.task_steps, training.unroll_length
    if steps and agent.task_distribution == "uniform":
        raise UserError(
            f"task_steps = {steps} says how long visited tasks last; add --task-distribution visited."
        )
    if steps and length % steps:
        raise UserError(
            f"task_steps = {steps} does not divide unroll_length = {length} evenly; give a divisor of it."
        )


def _check_cluster(cluster: ClusterConfig, training: TrainingConfig) -> None:
    """What must fit together for learners to share batches and for actors never to wait for each other."""
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
    if stale and (largest := largest_group(training)) > most:
        raise UserError(
            f"max_staleness = {stale} is too small for {largest} environments per actor, of which at most "
            f"{most} could act at a time; raise it, or --num-actor-groups."
        )


def largest_group(training: TrainingConfig) -> int:
    """Environments of the largest group."""
    return math.ceil((training.num_envs - training.num_rewarded_envs) / training.num_actor_groups)
