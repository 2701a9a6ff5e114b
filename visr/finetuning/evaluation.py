"""What a fine-tuning was worth: before, after, and as finetuned.json tells it."""

from __future__ import annotations

import numpy as np

from visr.agents.visr import Visr
from visr.config import RunConfig
from visr.envs.grid import dynamic_programming
from visr.envs.grid.world import GridWorld
from visr.evaluation import grid_benchmark, two_phase
from visr.finetuning.plan import Plan
from visr.finetuning.q_learner import FineTuner
from visr.storage.records.finetuning import EpisodeScore, ExactScore, FinetuneResult
from visr.storage.records.task import Task


def worth(agent: Visr, config: RunConfig, task: Task) -> ExactScore | EpisodeScore:
    """What w's own policy is worth: exactly on the grid, by 30 whole episodes elsewhere."""
    agent = agent.requires_grad_(False)
    if config.is_grid:
        world = GridWorld.from_config(config.grid)
        result = grid_benchmark.evaluate(agent, world, task, dynamic_programming.GAMMA, gpi=False)
        return ExactScore(result.fraction_of_optimal, result.value)
    scores = two_phase.try_task(agent, config, task.name, two_phase.always(task), gpi=False)
    error = scores.standard_error if np.isfinite(scores.standard_error) else None
    return EpisodeScore(scores.mean, error, scores.human_normalised, tuple(scores.scores))


def result(
    config: RunConfig,
    plan: Plan,
    tuner: FineTuner,
    before: ExactScore | EpisodeScore,
    after: ExactScore | EpisodeScore | None,
) -> FinetuneResult:
    """As finetuned.json holds it."""
    relabelled = tuner.relabelled
    return FinetuneResult(
        env=config.env,
        task=plan.task.name,
        from_scratch=plan.settings.from_scratch,
        num_steps=tuner.num_steps,
        num_free_steps=relabelled.total_steps if relabelled and tuner.num_steps else 0,
        reward_r_squared=relabelled.r_squared if relabelled else None,
        num_updates=tuner.num_updates,
        seed=plan.settings.seed,
        before=before,
        after=after,
    )
