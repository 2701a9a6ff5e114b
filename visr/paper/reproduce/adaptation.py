"""Other uses of the rewarded steps than the paper's, each with the same number of them (docs/beyond.md)."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from typing import Any

from visr import api
from visr.api import Run
from visr.config import FinetuneConfig
from visr.errors import UserError
from visr.finetuning import run as finetuning
from visr.inference.prompts import ENV_REWARD
from visr.inference.regression import estimate
from visr.paper.reproduce.agents import INFERENCE_SHARE, RELABELLING, UPDATES_PER_FREE_STEP, Way
from visr.paper.reproduce.plan import Counts
from visr.storage import schema
from visr.storage.files import write_json
from visr.storage.records.finetuning import FinetuneResult
from visr.storage.records.task import Task
from visr.storage.records.two_phase import Adapted, AdaptedCondition
from visr.storage.run_dir import RunDir, slug

_STEPS_PER_ROUND = FinetuneConfig.num_envs * FinetuneConfig.unroll_length
"""Steps of fine-tuning between updates."""


def adapt(directory: RunDir, ways: Sequence[Way], counts: Counts) -> None:
    """Adapt in each way, score each with whole episodes, write adapted.json; resume what was stopped."""
    run = api.load(directory.path)
    conditions = tuple(_condition(run, way, counts) for way in ways)
    record = Adapted(env=run.config.env, num_steps=run.num_steps, conditions=conditions)
    write_json(directory.adapted, schema.to_dict(record))


def _condition(run: Run, way: Way, counts: Counts) -> AdaptedCondition:
    """Fine-tune in one way and score the result."""
    seed = run.config.training.seed
    share = int(INFERENCE_SHARE * counts.rewarded_steps) if way == "fine-tuned" else 0
    task, spent = infer(run, share, max(share, counts.rewarded_steps - share))
    tuned = _tuned(run, task, way, counts.rewarded_steps - spent, _settings(way, counts))
    played = tuned.evaluate_task(task, num_episodes=counts.trials, gpi=False, seed=seed + 1)
    return AdaptedCondition(
        **vars(dataclasses.replace(played, name=way)),
        num_rewarded_steps=spent + tuned.num_steps,
        num_free_steps=FinetuneResult.load(tuned.directory).num_free_steps,
    )


def _settings(way: Way, counts: Counts) -> dict[str, Any]:
    """Fine-tuning settings of a way that differ from the defaults."""
    if way != "relabelled":
        return {"from_scratch": True} if way == "from scratch" else {}
    return {
        **RELABELLING,
        "free_steps": counts.free_steps,
        "free_updates": round(counts.free_steps * UPDATES_PER_FREE_STEP),
        "sweep_steps": int(INFERENCE_SHARE * counts.rewarded_steps),
    }


def infer(run: Run, share: int, most: int) -> tuple[Task, int]:
    """The task of the method `best` and the steps used: `share`, repeated until a reward is seen.

    A random task if `most` steps bring no reward.
    """
    seed, spent = run.config.training.seed, 0
    while 0 < share <= most - spent:
        steps = run.collect_rewarded(num_episodes=share, num_steps=share, seed=seed + spent)
        spent += steps.num_steps
        if steps.num_rewarded:
            steps = steps.clipped() if run.config.inference.clip_rewards else steps
            steps.check()
            return run.task_of(estimate(steps), "best", ENV_REWARD), spent
    return run.skill(seed), spent


def _tuned(run: Run, task: Task, way: Way, num_steps: int, tuning: dict[str, Any]) -> Run:
    """The run fine-tuned for as many whole rounds as fit in `num_steps`, in a directory inside the run."""
    place = RunDir(run.directory.finetuned_run(slug(way)))
    settings = FinetuneConfig(
        num_steps=max(num_steps // _STEPS_PER_ROUND, 1) * _STEPS_PER_ROUND,
        seed=run.config.training.seed,
        **tuning,
    )
    try:
        return _finetuned(run, task, place, settings)
    except UserError as error:
        if isinstance(error.__cause__, OSError) or place.is_in_use or not place.path.exists():
            raise  # a full disk or another process: removing the directory would not help
        words = str(error).rstrip(".")
        raise UserError(f"{words}; or remove {place.path} to fine-tune again.") from None


def _finetuned(run: Run, task: Task, place: RunDir, settings: FinetuneConfig) -> Run:
    if place.checkpoints():
        finetuning.refuse_other(place.path, task, settings)
        return api.load(finetuning.resume(place.path).path)
    shutil.rmtree(place.path, ignore_errors=True)  # killed before its first checkpoint
    # The paper's phase saved tasks that used rewarded steps of its own, so none of them is consulted.
    return run.finetune(task, out=place.path, consult=(), **dataclasses.asdict(settings))
