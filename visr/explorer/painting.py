"""A painted reward, and all that the agent makes of it: the answer to a stroke."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from visr.api import Run
from visr.envs.grid import dynamic_programming
from visr.envs.grid.world import GridWorld
from visr.errors import UserError
from visr.evaluation import grid_benchmark
from visr.inference import expression, rewards
from visr.storage.records.task import Task

MOST_CELLS = 4_096
"""Of a grid that can be painted: exact values of larger ones take longer than a stroke should."""
NUM_MOVES = 40
"""Of the walks whose visits are counted: the paper's."""

Floats = NDArray[np.float64]


def infer(run: Run, reward: Floats, name: str = "painted") -> Task:
    """The task of a painted reward, exactly as `run.infer` would have it."""
    return dataclasses.replace(run.infer(reward.reshape(world(run).height, -1)), name=name)


def judge(run: Run, task: Task, gpi: bool) -> dict[str, Any]:
    """The policy, its exact worth and its visits, and the values that the agent believes in."""
    began = time.perf_counter()
    grid = world(run)
    evaluation = run.evaluate(task, gpi=gpi)
    visits = dynamic_programming.visits(grid.transitions, evaluation.policy, grid.start, NUM_MOVES)
    return {
        "fraction_of_optimal": evaluation.fraction_of_optimal,
        "value": evaluation.value,
        "value_random": evaluation.value_random,
        "value_optimal": evaluation.value_optimal,
        "gamma": evaluation.gamma,
        "policy": evaluation.policy.tolist(),
        "values": rounded(evaluation.values),
        "believed": rounded(_believed(run, task)),
        "represented": rounded(evaluation.represented_reward),
        "visits": rounded(visits),
        "milliseconds": 1000 * (time.perf_counter() - began),
    }


@torch.inference_mode()
def _believed(run: Run, task: Task) -> Floats:
    """max_a psi(s, a, w) . w of every state, [S]."""
    states = np.arange(world(run).num_states)
    psi = run.successor_features(states, task.w)
    return (psi @ task.w.astype(np.float32)).max(axis=-1).astype(np.float64)


def features(run: Run) -> list[list[float]]:
    """A map of every component of phi, [d, S]."""
    return [rounded(row) for row in grid_benchmark.features(run.visr, world(run)).T]


def preset(run: Run, text: str) -> Floats:
    """boxes:SEED, goal:ROW,COL or an expression of row and col; never a file, whatever the text says."""
    grid = world(run)
    if len(text) > expression.MAX_LENGTH:
        raise UserError(f"A reward is at most {expression.MAX_LENGTH} characters long.")
    if text.strip().partition(":")[0] in ("boxes", "goal"):
        return rewards.parse(text, grid).values
    return rewards.from_expression(text, grid).values


def rounded(values: NDArray[np.floating]) -> list[float]:
    """Five digits are enough to draw with."""
    return [float(f"{value:.5g}") for value in values.tolist()]


def can_be_painted(run: Run) -> bool:
    """Whether the run lives on a grid, and not too large a one."""
    return run.world is not None and run.world.num_states <= MOST_CELLS


def world(run: Run) -> GridWorld:
    """The grid to paint on."""
    if run.world is None:
        raise UserError(f"{run.config.env} is no grid; only grids can be painted.")
    if not can_be_painted(run):
        raise UserError(
            f"This grid has {run.world.num_states:,} cells; up to {MOST_CELLS:,} can be painted."
        )
    return run.world
