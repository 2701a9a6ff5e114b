"""Fine-tuning from start to end: a run of its own that records the score before and after."""

from __future__ import annotations

import copy
import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsFloat

import numpy as np
import torch
from torch import Tensor

from visr import agents, envs
from visr import config as configuration
from visr.agents.base import BehaviourModel
from visr.agents.refined import RefinedAgent, residual_of
from visr.config import FinetuneConfig, RunConfig, cost
from visr.envs.grid import dynamic_programming
from visr.errors import UserError
from visr.evaluation import episodes, grid_benchmark
from visr.finetuning.relabelling import check_free_steps
from visr.finetuning.trainer import FineTuner
from visr.inference.asked_reward import AskedReward, asked_reward
from visr.inference.prompts import ENV_REWARD
from visr.networks.residual_values import ResidualValues
from visr.storage import schema
from visr.storage.records.finetuning import (
    REMEDY,
    EpisodeScore,
    ExactScore,
    FinetunePlan,
    FinetuneResult,
)
from visr.storage.records.task import Task, TaskPrompt
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows
from visr.training import devices, driver
from visr.training.driver import Every, Hooks, Observer, Status, stop_requests
from visr.training.learner import within
from visr.training.loop import new_agent

TASK = "task"
"""The name of the task within a fine-tuned run."""
_LOG_EVERY = 2_000


@dataclass(frozen=True, eq=False)
class _FineTuning:
    """All that decides a fine-tuning; finetune.json and tasks/task.json hold it."""

    config: RunConfig
    plan: FinetunePlan
    task: Task

    def save(self, run: RunDir) -> None:
        self.plan.save(run)
        self.task.save(run.task(TASK))

    @classmethod
    def load(cls, run: RunDir) -> _FineTuning:
        plan, task = FinetunePlan.load(run), Task.load(run.task(TASK))
        if any(len(w) != len(task.w) for w in plan.saved):
            raise UserError(f"{run.finetune} is damaged (its saved tasks do not fit); {REMEDY}.")
        config = run.config()
        if plan.reward == "environment" and not config.is_grid:
            task = for_reward(task, ENV_REWARD, config)
        return cls(config, plan, task)

    def tuner(self, agent: BehaviourModel, pretrained: BehaviourModel | None = None) -> FineTuner:
        asked = _asked(self.config, self.task, pretrained or agent)
        saved, settings = np.stack(self.plan.saved), self.plan.settings
        reward = None if asked.kind == "env" else asked
        residual = _residual(agent, self.task)
        inputs = (agent, self.config, settings, self.task.w, saved, reward, pretrained, residual)
        return FineTuner(*inputs)


def start(
    path: Path,
    config: RunConfig,
    agent: BehaviourModel,
    task: Task,
    saved: list[Task],
    settings: FinetuneConfig,
    observe: Observer | None = None,
) -> RunDir:
    """Fine-tune a copy of the agent on the task's reward into a new run directory."""
    _require_reward(config, task)
    check_free_steps(agent, settings)
    others = [t.w for t in saved if t.w.shape == task.w.shape and not np.array_equal(t.w, task.w)]
    # GPI is off: the other tasks' policies are not trained. A resumed run uses the same device.
    config = configuration.replace(config, gpi=False, device=agent.device.type)
    if settings.from_scratch:  # psi's new weights have nothing to do with the residual
        task = dataclasses.replace(task, refinement=None)
    job = _FineTuning(config, FinetunePlan(settings, (task.w, *others), task.name, "asked"), task)
    copied = initial_agent(agent, config, settings)
    RunDir(path).refuse_existing()
    with RunDir(path).locked():
        before = evaluate(copied, config, task)
        tuner = job.tuner(copied, agent)
        with stop_requests() as stop:  # finish creating the run before stopping
            run = RunDir.create(path, config)
            try:
                job.save(run)
                _result(job, tuner, before, None).save(run)
                driver.save(run, tuner)
            except BaseException:  # a run without a checkpoint could not be resumed
                shutil.rmtree(run.path, ignore_errors=True)
                raise
        if stop:
            raise driver.stopped(run, stop[0], _resume_command(run))
        return _train(run, job, tuner, FinetuneRows(run, settings), before, observe)


def resume(path: str | Path, observe: Observer | None = None, accept_cost: bool = False) -> RunDir:
    """Continue from the newest checkpoint; the result is the same as without the interruption."""
    run = RunDir.open(path)
    if not run.is_finetuned:
        raise UserError(
            f"{run.path} was not made by `visr finetune`; `visr pretrain --resume` resumes it."
        )
    with run.locked():
        job, before = _FineTuning.load(run), FinetuneResult.load(run).before
        config, settings = job.config, job.plan.settings
        cost.require_consent(run.path, config, cost.of_finetuning(config, settings), accept_cost)
        _require_reward(config, job.task)
        agent = agents.new(config.agent, envs.spec(config), config.replay).requires_grad_(False)
        assert isinstance(agent, BehaviourModel)
        agent = devices.prepared(agent, config.training)
        check_free_steps(agent, settings)
        tuner, rows = job.tuner(agent), FinetuneRows(run, settings)
        driver.restore(run, tuner, rows)
        return _train(run, job, tuner, rows, before, observe)


def _train(
    run: RunDir,
    job: _FineTuning,
    tuner: FineTuner,
    rows: FinetuneRows,
    before: ExactScore | EpisodeScore,
    observe: Observer | None,
) -> RunDir:
    every = Every(_LOG_EVERY, job.plan.settings.checkpoint_every, row_per_checkpoint=True)
    driver.drive(run, tuner, every, observe, Hooks(rows, _resume_command(run)))
    after = evaluate(tuner.agent, job.config, job.task)
    _result(job, tuner, before, after).save(run)
    return run


def _resume_command(run: RunDir) -> str:
    return f"visr finetune --resume {run.path}"


def refuse_other(path: Path, task: Task, settings: FinetuneConfig) -> None:
    """Refuse a directory that was fine-tuned for another task or with other settings."""
    job = _FineTuning.load(RunDir.open(path))
    is_same = job.task.w.shape == task.w.shape and np.allclose(job.task.w, task.w, atol=1e-6)
    if job.plan.settings != settings or not is_same:
        raise UserError(f"{path} was fine-tuned for another task or with other settings.")


def for_reward(task: Task, reward: str, config: RunConfig) -> Task:
    """The same direction, to be trained on the environment's own reward."""
    if reward != ENV_REWARD:
        raise UserError(
            f"reward = {reward!r} is not known here: leave it out for the asked reward, or give `env`."
        )
    if config.is_grid:
        raise UserError(f"{config.env} has no rewards of its own; leave out --reward.")
    return dataclasses.replace(task, prompt=TaskPrompt("env", task.name), reward=None)


def _asked(config: RunConfig, task: Task, agent: BehaviourModel) -> AskedReward:
    return asked_reward(task, agent, envs.space_codec(config))


def _require_reward(config: RunConfig, task: Task) -> None:
    """Refuse a task without a reward to learn from; on the grid it must hold that of every cell."""
    if (world := envs.exact_model(config)) is None:
        kind = None if task.prompt is None else task.prompt.kind
        if kind == "function" and task.prompt and task.prompt.function is None:
            raise UserError(
                f"The task `{task.name}` was asked for by a Python function, which is not saved with it; "
                "infer it again, or train on the environment's own reward (--reward env)."
            )
        return
    if task.reward is None:
        raise UserError(
            f"The task `{task.name}` carries no reward to learn from; infer it from one of the grid's own."
        )
    if len(task.reward) != world.num_states:
        raise UserError(
            f"The task `{task.name}` has a reward over {len(task.reward)} states and this world has "
            f"{world.num_states}; infer it with this run."
        )


def _residual(agent: BehaviourModel, task: Task) -> ResidualValues | None:
    """What a refined task adds to psi . w."""
    if task.refinement is None or not task.refinement.is_refined:
        return None
    with schema.refusing(f"The task `{task.name}` does not fit this run", "refine it again"):
        return residual_of(agent.spec, task.refinement.weights).to(agent.device)


def initial_agent(
    agent: BehaviourModel, config: RunConfig, settings: FinetuneConfig
) -> BehaviourModel:
    """A copy to train: as pre-trained, or from scratch with freshly initialised psi."""
    agent = copy.deepcopy(agent)
    if settings.from_scratch:
        seeded = configuration.replace(config, seed=settings.seed)
        fresh = new_agent(seeded, agent.spec).psi
        agent.psi.load_state_dict(fresh.state_dict())
    return agent


def evaluate(agent: BehaviourModel, config: RunConfig, task: Task) -> ExactScore | EpisodeScore:
    """The score of w's own policy: exact on the grid, from 30 whole episodes elsewhere."""
    agent = agent.requires_grad_(False)
    if (residual := _residual(agent, task)) is not None:
        agent = RefinedAgent(agent, residual, torch.as_tensor(task.w, dtype=torch.float32))
    if (world := envs.exact_model(config)) is not None:
        result = grid_benchmark.evaluate(agent, world, task, dynamic_programming.GAMMA, gpi=False)
        return ExactScore(result.fraction_of_optimal, result.value)
    asked = _asked(config, task, agent)
    played = episodes.evaluate(agent, config, task, asked, gpi=False, compare=False)
    score, normalised = played.asked, played.human_normalised if asked.kind == "env" else None
    return EpisodeScore(score.mean, score.standard_error, normalised, score.returns)


def _result(
    job: _FineTuning,
    tuner: FineTuner,
    before: ExactScore | EpisodeScore,
    after: ExactScore | EpisodeScore | None,
) -> FinetuneResult:
    """The content of finetuned.json."""
    relabelled, settings = tuner.relabelled, job.plan.settings
    return FinetuneResult(
        env=job.config.env,
        task=job.task.name,
        reward=_asked(job.config, job.task, tuner.agent).words,
        from_scratch=settings.from_scratch,
        num_steps=tuner.num_steps,
        num_free_steps=relabelled.total_steps if relabelled and tuner.num_steps else 0,
        reward_r_squared=relabelled.r_squared if relabelled else None,
        num_updates=tuner.num_updates,
        seed=settings.seed,
        before=before,
        after=after,
    )


class FinetuneRows:
    """Rows of metrics.csv: each column is the mean over the rounds since the last row that report it."""

    def __init__(self, run: RunDir, settings: FinetuneConfig) -> None:
        self._run, self._reports, self._mean_return = run, {}, {}
        self._columns = ["loss", "reward", "return"]
        if settings.free_steps:
            self._columns.append("foreseen")  # R^2 of the reward model

    def add(self, metrics: Sequence[Mapping[str, SupportsFloat]]) -> None:
        """Add the reports of some rounds."""
        for report in metrics:
            for name, value in report.items():
                self._reports.setdefault(name, []).append(float(value))

    def write(
        self, num_steps: int, num_updates: int, extra_rows: Mapping[str, dict[str, float]]
    ) -> None:
        """Write one row."""
        means = {name: sum(values) / len(values) for name, values in self._reports.items()}
        row = [num_steps, *(means.get(name, "nan") for name in self._columns)]
        append_rows(self._run.metrics, ["num_steps", *self._columns], [row])
        self._reports, self._mean_return = {}, {"mean_return": means.get("return", 0.0)}

    def status(
        self, num_steps: int, total_steps: int, evaluation: dict[str, float], note: str
    ) -> Status:
        """The mean return of the last row, for a progress display."""
        return Status(num_steps, total_steps, {}, self._mean_return, note=note)

    def state(self) -> dict[str, Tensor]:
        """The reports that are not yet in a row."""
        reports = self._reports.items()
        return {f"reports.{k}": torch.tensor(v, dtype=torch.float64) for k, v in reports}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `state`; a ValueError if a report cannot be used."""
        found = within(tensors, "reports.")
        for name, values in found.items():
            if name not in (*self._columns, "foreseen"):
                raise ValueError(f"there is no report {name}")
            if values.ndim != 1 or not len(values) or values.dtype != torch.float64:
                raise ValueError(f"its report {name} is not a list of numbers")
        self._reports = {name: values.tolist() for name, values in found.items()}

    def close(self) -> None:
        """No file is left open."""
