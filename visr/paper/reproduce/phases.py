"""The three phases of a run: train, evaluate and adapt. `python -m visr.paper.reproduce.phases` runs one.

The first line of its input is the job as JSON. The process exits when its input is closed, so jobs end
when their runner is killed.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from visr import api, pretraining, strict_json, terminal, working_directory
from visr import config as configuration
from visr.api import Run
from visr.config import BASELINES, FinetuneConfig, RunConfig
from visr.errors import Stopped, UserError
from visr.finetuning import run as finetuning
from visr.inference.compare_methods import compare_methods
from visr.inference.prompts import ENV_REWARD
from visr.paper.reproduce.agents import INFERENCE_SHARE, RELABELLING, UPDATES_PER_FREE_STEP, Way
from visr.paper.reproduce.plan import Counts
from visr.storage import new_files, schema
from visr.storage.files import write_json
from visr.storage.records.finetuning import FinetuneResult
from visr.storage.records.task import Task
from visr.storage.records.two_phase import Adapted, AdaptedCondition
from visr.storage.run_dir import RunDir, slug

_LOCK_TIMEOUT = 15.0
_STEPS_PER_ROUND = FinetuneConfig.num_envs * FinetuneConfig.unroll_length
"""Steps of fine-tuning between updates."""


def run(arguments: dict[str, Any]) -> None:
    """Train, evaluate or adapt, as `runner.instructions` says; continue what was started before."""
    new_files.confine(Path(arguments["plan"]))
    directory, counts = RunDir(arguments["run"]), Counts(**arguments["counts"])
    if arguments["phase"] == "train":
        train(directory, configuration.from_dict(arguments["config"]), arguments["job"])
    elif arguments["phase"] == "evaluate":
        evaluate(directory, counts)
    else:
        adapt(directory, arguments["ways"], counts)


def train(run: RunDir, config: RunConfig, job: dict[str, Any]) -> None:
    """Train from the start or from the last checkpoint; the result is the same."""
    with run.locked(_LOCK_TIMEOUT):  # a worker of a killed driver may still be running
        pass
    if not run.config_file.exists():
        pretraining.start(run.path, config)
    elif run.config() == config:
        pretraining.resume(run.path, accept_cost=True)  # the settings are the plan's own
    else:
        raise UserError(f"{run.path} was made with other settings; choose another --out.")
    write_json(run.job, job)


def evaluate(run: RunDir, counts: Counts) -> None:
    """The rewarded phase of the run's agent."""
    config = run.config()
    if config.agent.algorithm in BASELINES:
        pretraining.evaluate_baseline(run, num_trials=counts.trials, seed=config.training.seed)
        return
    result = api.load(run.path).phase_two(
        num_episodes=counts.rewarded_episodes,
        num_steps=counts.rewarded_steps,
        num_trials=counts.trials,
        num_draws=counts.draws,
        seed=config.training.seed,
    )
    result.save(run)


def adapt(directory: RunDir, ways: Sequence[Way], counts: Counts) -> None:
    """Adapt in each way, score each with whole episodes, write adapted.json; resume what was stopped.

    Each way uses as many rewarded steps as the paper's phase (docs/agents/additions.md).
    """
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
    if way in ("fine-tuned", "from scratch"):
        return {"from_scratch": True} if way == "from scratch" else {}
    sweep = int(INFERENCE_SHARE * counts.rewarded_steps)
    free = round(counts.free_steps * UPDATES_PER_FREE_STEP)
    if way == "relabelled":
        steps = {"free_steps": counts.free_steps, "free_updates": free, "sweep_steps": sweep}
        return {**RELABELLING, **steps}
    # the same learner and as many updates in all, on the rewarded steps alone
    per_round: int = RELABELLING["updates_per_round"]
    updates = free + per_round * ((counts.rewarded_steps - sweep) // _STEPS_PER_ROUND)
    rounds = max(counts.rewarded_steps // _STEPS_PER_ROUND, 1)
    return {**RELABELLING, "updates_per_round": max(round(updates / rounds), 1)}


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
            return run.task_of(compare_methods(steps), "best", ENV_REWARD), spent
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
        return api.load(finetuning.resume(place.path, accept_cost=True).path)
    shutil.rmtree(place.path, ignore_errors=True)  # killed before its first checkpoint
    # GPI uses none of the saved tasks, because the paper's phase inferred them from other rewarded steps.
    fields = dataclasses.asdict(settings)
    return run.finetune(task, out=place.path, reward=ENV_REWARD, consult=(), **fields)


def _exit_when_input_closes() -> None:
    def wait() -> None:
        while os.read(0, 1):  # not through sys.stdin: Python takes its lock when it exits
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _main() -> int:
    working_directory.ignore_settings()
    arguments = strict_json.parse(sys.stdin.buffer.readline())
    _exit_when_input_closes()
    try:
        run(arguments)
    except UserError as error:
        terminal.say(str(error))
        return 2
    except Stopped as stop:
        return 128 + stop.signal_number
    return 0


if __name__ == "__main__":
    sys.exit(_main())
