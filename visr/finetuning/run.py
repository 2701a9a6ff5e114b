"""The rewarded phase that changes weights: drives a `FineTuner`, and writes a run of its own."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import numpy as np
import torch

from visr import config as configuration
from visr import envs
from visr.agents import registry
from visr.agents.visr import Visr
from visr.config import FinetuneConfig, RunConfig
from visr.errors import UserError
from visr.finetuning.driving import Reports, reports_in, restore_replay, rounds, save, stopped_at
from visr.finetuning.evaluation import result, worth
from visr.finetuning.plan import TASK, Plan, is_alike, require_reward
from visr.finetuning.q_learner import FineTuner
from visr.finetuning.relabelling import refuse_misfits
from visr.storage.records.finetuning import EpisodeScore, ExactScore, FinetuneResult
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir
from visr.storage.tables import truncate_after
from visr.training import checkpoint, devices
from visr.training.actor_pool import spec_of
from visr.training.loop import new_agent
from visr.training.progress import Observer, stop_requests

__all__ = ["TASK", "initial_agent", "refuse_other", "resume", "start", "worth"]


def start(
    path: Path,
    config: RunConfig,
    agent: Visr,
    task: Task,
    saved: list[Task],
    settings: FinetuneConfig,
    observe: Observer | None = None,
) -> RunDir:
    """Fine-tune a copy of the agent on the task's reward into a new run directory."""
    require_reward(config, task)
    others = [t.w for t in saved if t.w.shape == task.w.shape and not np.array_equal(t.w, task.w)]
    plan = Plan(settings, task, np.stack([task.w, *others]))
    refuse_misfits(agent.psi, agent.spec, settings)
    config = _as_tuned(config, agent)
    pretrained, agent = agent, initial_agent(agent, config, settings)
    RunDir(path).refuse_existing()
    with RunDir(path).locked():
        before = worth(agent, config, task)
        tuner = _tuner(agent, config, plan, pretrained)
        with stop_requests() as stop:  # no half of a run, whoever asks
            run = RunDir.create(path, config)
            try:
                plan.save(run)
                result(config, plan, tuner, before, None).save(run)
                save(run, tuner)
            except BaseException:  # a run without any checkpoint would only be in the way
                shutil.rmtree(run.path, ignore_errors=True)
                raise
        if stop:
            raise stopped_at(run, stop[0])
        return _train(run, config, plan, tuner, before, observe)


def _as_tuned(config: RunConfig, agent: Visr) -> RunConfig:
    """Other tasks' policies were not trained along: none is to be consulted. It goes on where it began."""
    return configuration.replace(config, gpi=False, device=agent.device.type)


def resume(path: str | Path, observe: Observer | None = None) -> RunDir:
    """Go on from the newest checkpoint, to the same end as if never stopped."""
    run = RunDir.open(path)
    if not run.is_finetuned:
        raise UserError(
            f"{run.path} was not made by `visr finetune`; `visr pretrain --resume` resumes it."
        )
    with run.locked():
        return _resume(run, observe)


def refuse_other(path: Path, task: Task, settings: FinetuneConfig) -> None:
    """What is there must be a fine-tuning for this task, with these settings."""
    plan = Plan.load(RunDir.open(path))
    if plan.settings != settings or not is_alike(plan.task.w, task.w):
        raise UserError(f"{path} was fine-tuned for another task or with other settings.")


def _resume(run: RunDir, observe: Observer | None) -> RunDir:
    config, plan, before = run.config(), Plan.load(run), FinetuneResult.load(run).before
    require_reward(config, plan.task)
    newest, tensors, counts = checkpoint.newest_intact(run)
    spec = spec_of(envs.make_vec(config, 1))
    agent = devices.prepared(
        registry.new_visr(config.agent, spec).requires_grad_(False), config.training
    )
    refuse_misfits(agent.psi, spec, plan.settings)
    tuner = _tuner(agent, config, plan)
    with checkpoint.refuse_mismatch(newest):
        if counts["num_steps"] != int(newest.stem):
            raise ValueError("it is of another age")
        tuner.load_state(tensors, counts)
        reports = reports_in(tensors)
    restore_replay(run, tuner)
    run.rename_damaged_after(newest)
    run.remove_old_checkpoints()
    run.remove_old_replay(plan.settings.replay_steps)
    truncate_after(run.metrics, tuner.num_steps)
    checkpoint.warn_of_changed_tables(run, newest)
    return _train(run, config, plan, tuner, before, observe, reports)


def initial_agent(agent: Visr, config: RunConfig, settings: FinetuneConfig) -> Visr:
    """A copy to train: as pre-trained, or with a psi that has learnt nothing."""
    agent = copy.deepcopy(agent)
    if settings.from_scratch:
        seeded = configuration.replace(config, seed=settings.seed)
        fresh = new_agent(seeded, agent.spec).psi
        agent.psi.load_state_dict(fresh.state_dict())
    return agent


def _tuner(agent: Visr, config: RunConfig, plan: Plan, pretrained: Visr | None = None) -> FineTuner:
    reward = plan.task.reward if config.is_grid else None
    return FineTuner(agent, config, plan.settings, plan.task.w, plan.saved, reward, pretrained)


def _train(
    run: RunDir,
    config: RunConfig,
    plan: Plan,
    tuner: FineTuner,
    before: ExactScore | EpisodeScore,
    observe: Observer | None,
    reports: Reports | None = None,
) -> RunDir:
    devices.keep_freed_memory()
    torch.set_flush_denormal(True)
    try:
        with devices.threads(config.training), stop_requests() as stop:
            rounds(run, plan.settings, tuner, observe, stop, reports or {})
    finally:
        torch.set_flush_denormal(False)
    after = worth(tuner.agent, config, plan.task)
    result(config, plan, tuner, before, after).save(run)
    return run
