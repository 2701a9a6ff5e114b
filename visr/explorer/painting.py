"""A painted reward on the grid: its task, policy, values and visits."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visr.api import Run
from visr.envs.grid import dynamic_programming
from visr.envs.grid.world import GridWorld
from visr.errors import UserError
from visr.evaluation import grid_benchmark
from visr.inference import grid_rewards
from visr.play import policy
from visr.storage.records.task import Task

MAX_CELLS = 4_096
"""Largest grid that can be painted; exact values of larger ones are too slow."""
NUM_MOVES = 40
"""Length of the rollouts whose visits are counted, from the paper."""

Floats = NDArray[np.float64]


def infer(run: Run, reward: Floats, name: str = "painted") -> Task:
    """The task of a painted reward, by `run.infer`."""
    return dataclasses.replace(run.infer(reward.reshape(world(run).height, -1)), name=name)


def evaluate(run: Run, task: Task, gpi: bool) -> dict[str, Any]:
    """The policy, its exact value and visits, and the agent's own estimates max_a psi(s, a, w) . w."""
    start = time.perf_counter()
    grid = world(run)
    evaluation = run.evaluate_exactly(task, gpi=gpi)
    states, agent = np.arange(grid.num_states), run.agent_of(task)
    psi = policy.successor_features(agent, run.inference.codec, states, task.w)  # [S, actions, d]
    visits = dynamic_programming.visits(grid.transitions, evaluation.policy, grid.start, NUM_MOVES)
    return {
        "fraction_of_optimal": evaluation.fraction_of_optimal,
        "value": evaluation.value,
        "value_random": evaluation.value_random,
        "value_optimal": evaluation.value_optimal,
        "gamma": evaluation.gamma,
        "policy": evaluation.policy.tolist(),
        "values": rounded(evaluation.values),
        "believed": rounded((psi @ task.w.astype(np.float32)).max(axis=-1)),
        "represented": rounded(evaluation.represented_reward),
        "visits": rounded(visits),
        "milliseconds": 1000 * (time.perf_counter() - start),
    }


def features(run: Run) -> list[list[float]]:
    """Every component of phi as a map, [d, S]."""
    return [rounded(row) for row in grid_benchmark.features(run.visr, world(run)).T]


def preset(run: Run, text: str) -> Floats:
    """boxes:SEED, goal:ROW,COL or an expression of row and col; never a file."""
    grid = world(run)
    if text.strip().partition(":")[0] in ("boxes", "goal"):
        return grid_rewards.parse(text, grid).values
    return grid_rewards.from_expression(text, grid).values


def rounded(values: NDArray[np.floating]) -> list[float]:
    """Numbers with five significant digits."""
    return [float(f"{value:.5g}") for value in values.tolist()]


def is_paintable(run: Run) -> bool:
    """Whether the run has a grid of at most MAX_CELLS cells."""
    return run.world is not None and run.world.num_states <= MAX_CELLS


def world(run: Run) -> GridWorld:
    """The run's grid; raises if it cannot be painted."""
    if run.world is None:
        raise UserError(f"{run.config.env} is not a grid; only grids can be painted.")
    if not is_paintable(run):
        raise UserError(
            f"This grid has {run.world.num_states:,} cells; up to {MAX_CELLS:,} can be painted."
        )
    return run.world
