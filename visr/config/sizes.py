"""Sizes of the arrays that a configuration asks for, before anything is allocated: it may be untrusted."""

from __future__ import annotations

import itertools

from visr.config.fields import REPLAY_LEARNERS, RunConfig
from visr.config.replay import ReplayConfig
from visr.errors import UserError, short_repr

MOST_ACTIONS = 18
"""Of the largest set of Atari."""
_OF_A_STATE = 512 * MOST_ACTIONS
"""Weights from what the replay learner reads of a state to one unit for each action."""
_MOST_NUMBERS = 2**28
"""Largest number of elements in one array."""
_MOST_CELLS = 1_000_000


def check(config: RunConfig) -> None:
    """Refuse a configuration whose arrays would be too large."""
    agent, training, grid = config.agent, config.training, config.grid
    if config.is_grid and grid.height * grid.width > _MOST_CELLS:
        raise UserError(
            f"A grid of {grid.height} x {grid.width} cells is too large: height times width can be at most "
            f"{_MOST_CELLS:,}."
        )
    states = grid.height * grid.width if config.is_grid else 1
    d, envs, batch = agent.num_features, training.num_envs, training.batch_size
    hidden, length, samples = agent.hidden_sizes, training.unroll_length, agent.gpi_samples
    if agent.phi_layers > len(hidden):
        raise UserError(
            f"phi_layers = {agent.phi_layers} is more than the {len(hidden)} layers of hidden_sizes; give at "
            f"most {len(hidden)}, or 0 for all."
        )
    between = f"between {states:,} states and {d:,} features"
    largest_layer = max(a * b for a, b in itertools.pairwise((states, *hidden, d)))
    array_sizes = {
        f"hidden_sizes = {short_repr(hidden)} {between}": largest_layer,
        f"hidden_sizes = {short_repr(hidden)}, {len(hidden):,} layers in all,": sum(
            a * b for a, b in itertools.pairwise((states, *hidden))
        ),
        f"num_features = {d}": d * d,  # reward regression
        f"head_size = {agent.head_size} for {d:,} features": agent.head_size * d,
        f"curiosity_size = {agent.curiosity_size}": agent.curiosity_size**2,
        f"num_skills = {agent.num_skills}": agent.num_skills * max(hidden),
        f"unroll_length = {length} with num_envs = {envs} and batch_size = {batch}": (length + 1)
        * max(batch, envs),
        f"gpi_samples = {samples} with num_envs = {envs} and {d:,} features": samples * envs * d,
    }
    if agent.algorithm in REPLAY_LEARNERS:
        array_sizes |= _of_replay(config.replay, d, states if config.replay.smooth_states else 1)
    for settings, size in array_sizes.items():
        if size > _MOST_NUMBERS:
            raise UserError(
                f"{settings} would take {size:,} numbers at once; at most {_MOST_NUMBERS:,} (a gigabyte) "
                "are sensible, so choose smaller."
            )


def _of_replay(replay: ReplayConfig, d: int, states: int) -> dict[str, int]:
    """Weights, the library of tasks, and what GPI over it computes for one state."""
    width, tasks = replay.psi_width, replay.library_size
    return {
        f"psi_width = {width} for {d:,} features": width * max(_OF_A_STATE, d),
        f"library_size = {tasks} for {d:,} features": replay.num_library_numbers(d),
        f"library_size = {tasks} with psi_width = {width}": tasks * width * MOST_ACTIONS,
        f"num_features = {d} for {states:,} states": states * d,
    }
