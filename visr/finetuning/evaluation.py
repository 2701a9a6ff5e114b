"""What a fine-tuning was worth: before, after, and as finetuned.json tells it."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from visr.agents.visr import Visr
from visr.config import GRID, RunConfig
from visr.envs.grid import dynamic_programming
from visr.envs.grid.world import GridWorld
from visr.errors import UserError
from visr.evaluation import grid_benchmark, two_phase
from visr.finetuning.plan import ANEW, FORMAT, Plan
from visr.finetuning.q_learner import FineTuner
from visr.storage.files import read_json
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir


def worth(agent: Visr, config: RunConfig, task: Task) -> dict[str, Any]:
    """What w's own policy is worth: exactly on the grid, by 30 whole episodes elsewhere."""
    agent = agent.requires_grad_(False)
    if config.env == GRID:
        world = GridWorld.from_config(config.grid)
        result = grid_benchmark.evaluate(agent, world, task, dynamic_programming.GAMMA, gpi=False)
        return {"fraction_of_optimal": result.fraction_of_optimal, "value": result.value}
    scores = two_phase.try_task(agent, config, task.name, two_phase.always(task), gpi=False)
    error = scores.standard_error
    return {
        "mean": scores.mean,
        "standard_error": error if np.isfinite(error) else None,
        "human_normalised": scores.human_normalised,
        "scores": scores.scores,
    }


def result(
    config: RunConfig, plan: Plan, tuner: FineTuner, before: Any, after: Any
) -> dict[str, Any]:
    """As finetuned.json holds it."""
    relabelled = tuner.relabelled
    return {
        "format": FORMAT,
        "env": config.env,
        "task": plan.task.name,
        "from_scratch": plan.settings.from_scratch,
        "num_steps": tuner.num_steps,
        "num_free_steps": relabelled.total_steps if relabelled and tuner.num_steps else 0,
        "reward_r_squared": relabelled.r_squared if relabelled else None,
        "num_updates": tuner.num_updates,
        "seed": plan.settings.seed,
        "before": before,
        "after": after,
    }


def told_before(run: RunDir) -> dict[str, Any]:
    """What psi was worth before, as `worth` tells it, trusting nothing."""
    content = read_json(run.finetuned)
    try:
        before = dict(content["before"])
        figures = ("fraction_of_optimal", "value") if run.config().env == GRID else ("mean",)
        if not all(math.isfinite(before[name]) for name in figures):
            raise ValueError("not all of it is finite")
        if "mean" in figures and before["standard_error"] is not None:
            math.isfinite(before["standard_error"])  # a number, that is
        json.dumps(before, allow_nan=False)  # as it will be written again
        return before
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise UserError(
            f"{run.finetuned} does not tell what psi was worth before ({error}); {ANEW}."
        ) from None
