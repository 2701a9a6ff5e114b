"""The rewarded phase that changes weights: drives a `FineTuner`, and writes a run of its own."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray

from visr import config as configuration
from visr import envs
from visr.agents.visr import Visr
from visr.config import GRID, FinetuneConfig, RunConfig
from visr.disk.files import read_json, write_json, write_tensors, writing
from visr.disk.tables import append_rows, forget_rows_after
from visr.envs.world import GridWorld
from visr.errors import UserError
from visr.oversight import Observer, Status, Stopped, stop_requests
from visr.run_dir import RunDir
from visr.tasks import exact, families, protocol
from visr.tasks.task import Task
from visr.training import checkpoint, devices
from visr.training.crew import spec_of
from visr.training.finetune import FineTuner
from visr.training.learner import within
from visr.training.loop import new_agent
from visr.training.relabelling import refuse_misfits

FORMAT = 1
_LOG_EVERY = 2_000
_ANEW = "restore it from a copy, or fine-tune anew"
_COLUMNS = ("loss", "reward", "return")
_REPORTS = "reports."
_FORESEEN = "foreseen"
"""The share of new rewards' variance that the reward's model foresaw."""


@dataclass(frozen=True, eq=False)
class _Plan:
    """All that decides a fine-tuning, as finetune.json holds it."""

    settings: FinetuneConfig
    task: Task
    saved: NDArray[np.float64]
    """[P, d], the tasks that GPI consults at first: w and the run's others."""

    def save(self, run: RunDir) -> None:
        content = {
            "format": FORMAT,
            "settings": dataclasses.asdict(self.settings),
            "saved": self.saved.tolist(),
            "task": self.task.name,
        }
        write_json(run.finetune, content)
        self.task.save(run.task(TASK))

    @classmethod
    def load(cls, run: RunDir) -> _Plan:
        content = read_json(run.finetune)
        task = Task.load(run.task(TASK))
        try:
            if content["format"] != FORMAT:
                raise ValueError(f"its format is {content['format']!r}")
            settings = configuration.finetune_settings(dict(content["settings"]))
            saved = np.asarray(content["saved"], dtype=np.float64)
            if saved.ndim != 2 or saved.shape[1] != len(task.w) or not np.isfinite(saved).all():
                raise ValueError("its saved tasks do not fit")
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise UserError(f"{run.finetune} is damaged ({error}); {_ANEW}.") from None
        return cls(settings, task, saved)


TASK = "task"
"""The name of the task within a fine-tuned run."""


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
    _require_reward(config, task)
    others = [t.w for t in saved if t.w.shape == task.w.shape and not np.array_equal(t.w, task.w)]
    plan = _Plan(settings, task, np.stack([task.w, *others]))
    refuse_misfits(agent.psi, agent.spec, settings)
    config = _as_tuned(config, agent)
    pretrained, agent = agent, beginning(agent, config, settings)
    RunDir(path).refuse_taken()
    with RunDir(path).locked():
        before = worth(agent, config, task)
        tuner = _tuner(agent, config, plan, pretrained)
        run = RunDir.create(path, config)
        try:
            plan.save(run)
            write_json(run.finetuned, _result(config, plan, tuner, before, None))
            _save(run, tuner)
        except BaseException:  # a run without any checkpoint would only be in the way
            shutil.rmtree(run.path, ignore_errors=True)
            raise
        return _train(run, config, plan, tuner, before, observe)


def _as_tuned(config: RunConfig, agent: Visr) -> RunConfig:
    """Other tasks' policies were not trained along: none is to be consulted. It goes on where it began."""
    return configuration.replace(config, gpi=False, device=agent.device.type)


def resume(path: str | Path, observe: Observer | None = None) -> RunDir:
    """Go on from the newest checkpoint, to the same end as if never stopped."""
    run = RunDir.open(path)
    if not run.finetune.is_file():
        raise UserError(
            f"{run.path} was not made by `visr finetune`; `visr pretrain --resume` resumes it."
        )
    with run.locked():
        return _resume(run, observe)


def refuse_other(path: Path, task: Task, settings: FinetuneConfig) -> None:
    """What is there must be a fine-tuning for this task, with these settings."""
    plan = _Plan.load(RunDir.open(path))
    if plan.settings != settings or not _is_alike(plan.task.w, task.w):
        raise UserError(f"{path} was fine-tuned for another task or with other settings.")


def _is_alike(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    return a.shape == b.shape and np.allclose(a, b, atol=1e-6)


def _resume(run: RunDir, observe: Observer | None) -> RunDir:
    config, plan, before = run.config(), _Plan.load(run), _before(run)
    _require_reward(config, plan.task)
    newest, tensors, counts = checkpoint.newest_sound(run)
    spec = spec_of(envs.make_vec(config, 1))
    agent = devices.prepared(Visr(config.agent, spec).requires_grad_(False), config.training)
    refuse_misfits(agent.psi, spec, plan.settings)
    tuner = _tuner(agent, config, plan)
    with checkpoint.fitting(newest):
        tuner.load_state(tensors, counts)
        reports = _reports(tensors)
    _restore_replay(run, tuner)
    run.set_aside_after(newest)
    run.forget_old_checkpoints()
    run.forget_old_replay(plan.settings.replay_steps)
    forget_rows_after(run.metrics, tuner.num_steps)
    checkpoint.warn_of_changed_tables(run, newest)
    return _train(run, config, plan, tuner, before, observe, reports)


def _reports(tensors: dict[str, torch.Tensor]) -> Reports:
    """What was not yet written when it was stopped."""
    found = within(tensors, _REPORTS)
    if any(values.ndim != 1 or not len(values) for values in found.values()):
        raise ValueError("its reports are no lists")
    return {name: values.tolist() for name, values in found.items()}


def _restore_replay(run: RunDir, tuner: FineTuner) -> None:
    """Everything that was met up to the checkpoint; less of it would quietly end elsewhere."""
    newer = [piece for piece in run.replay_pieces() if int(piece.stem) > tuner.num_steps]
    for path in run.replay_pieces():
        if path in newer:
            continue
        piece = checkpoint.tensors(path, _ANEW)
        try:
            tuner.remember(piece)
        except (IndexError, TypeError, ValueError) as error:
            raise UserError(f"{path} does not fit its run ({error}); {_ANEW}.") from None
    if tuner.num_forgotten:
        raise UserError(
            f"{run.replay} does not hold what was met before step {tuner.num_steps:,} (unrolls missing: "
            f"{tuner.num_forgotten}); {_ANEW}."
        )
    for path in newer:
        with writing(path):
            path.unlink()


def _before(run: RunDir) -> dict[str, Any]:
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
            f"{run.finetuned} does not tell what psi was worth before ({error}); {_ANEW}."
        ) from None


def worth(agent: Visr, config: RunConfig, task: Task) -> dict[str, Any]:
    """What w's own policy is worth: exactly on the grid, by 30 whole episodes elsewhere."""
    agent = agent.requires_grad_(False)
    if config.env == GRID:
        world = GridWorld.from_config(config.grid)
        result = families.evaluate(agent, world, task, exact.GAMMA, gpi=False)
        return {"fraction_of_optimal": result.fraction_of_optimal, "value": result.value}
    scores = protocol.try_task(agent, config, task.name, protocol.always(task), gpi=False)
    error = scores.standard_error
    return {
        "mean": scores.mean,
        "standard_error": error if np.isfinite(error) else None,
        "human_normalised": scores.human_normalised,
        "scores": scores.scores,
    }


def beginning(agent: Visr, config: RunConfig, settings: FinetuneConfig) -> Visr:
    """A copy to train: as pre-trained, or with a psi that has learnt nothing."""
    agent = copy.deepcopy(agent)
    if settings.from_scratch:
        seeded = configuration.replace(config, seed=settings.seed)
        fresh = new_agent(seeded, agent.spec).psi
        agent.psi.load_state_dict(fresh.state_dict())
    return agent


def _tuner(
    agent: Visr, config: RunConfig, plan: _Plan, pretrained: Visr | None = None
) -> FineTuner:
    reward = plan.task.reward if config.env == GRID else None
    psi = None if pretrained is None else pretrained.psi
    return FineTuner(agent, config, plan.settings, plan.task.w, plan.saved, reward, psi)


def _train(
    run: RunDir,
    config: RunConfig,
    plan: _Plan,
    tuner: FineTuner,
    before: Any,
    observe: Observer | None,
    reports: Reports | None = None,
) -> RunDir:
    devices.keep_freed_memory()
    torch.set_flush_denormal(True)
    try:
        with devices.threads(config.training), stop_requests() as stop:
            _rounds(run, plan.settings, tuner, observe, stop, reports or {})
    finally:
        torch.set_flush_denormal(False)
    after = worth(tuner.agent, config, plan.task)
    write_json(run.finetuned, _result(config, plan, tuner, before, after))
    return run


Reports = dict[str, list[float]]
"""Of the rounds since the last row of metrics.csv, by column."""


def _rounds(
    run: RunDir,
    settings: FinetuneConfig,
    tuner: FineTuner,
    observe: Observer | None,
    stop: list[int],
    reports: Reports,
) -> None:
    columns = [*_COLUMNS, _FORESEEN] if settings.free_steps else list(_COLUMNS)
    while not tuner.is_done:
        then = tuner.num_steps
        for name, value in tuner.round().items():
            reports.setdefault(name, []).append(value)
        now = tuner.num_steps
        if observe and tuner.doing:
            observe(Status(now, settings.num_steps, {}, {}, note=tuner.doing))
        is_due = now // settings.checkpoint_every > then // settings.checkpoint_every
        # A row is written at every checkpoint, so that a resumed run averages over the same rounds.
        is_end = now > then and now >= settings.num_steps
        if is_due or is_end or now // _LOG_EVERY > then // _LOG_EVERY:
            row = {name: sum(values) / len(values) for name, values in reports.items()}
            append_rows(
                run.metrics,
                ["num_steps", *columns],
                [[now, *(row.get(c, "nan") for c in columns)]],
            )
            reports = {}
            if observe:
                observe(
                    Status(now, settings.num_steps, {}, {"mean_return": row.get("return", 0.0)})
                )
        if is_due or tuner.is_done:
            tuner.restart_forgetful_environments()
            _save(run, tuner)
        if stop and not tuner.is_done:
            raise _stopped(run, tuner, stop[0], reports)


def _stopped(run: RunDir, tuner: FineTuner, signal_number: int, reports: Reports) -> Stopped:
    """Keep all work where the environments permit it; else, and where none is done, what stands stands."""
    if tuner.actor.remembers and tuner.num_steps:
        _save(run, tuner, reports)
    saved = int(checkpoint.newest(run).stem)
    return Stopped(signal_number, saved, f"visr finetune --resume {run.path}")


def _save(run: RunDir, tuner: FineTuner, reports: Reports | None = None) -> None:
    """The replay's new piece first: a checkpoint must find all that came before it."""
    if piece := tuner.replay.take_new():
        write_tensors(run.replay_piece(tuner.num_steps), safetensors.torch.save(piece))
    tensors, counts = tuner.state()
    for name, values in (reports or {}).items():
        tensors[f"{_REPORTS}{name}"] = torch.tensor(values, dtype=torch.float64)
    checkpoint.save(run, tensors, counts, num_steps=tuner.num_steps)
    run.forget_old_replay(tuner.settings.replay_steps)


def _result(
    config: RunConfig, plan: _Plan, tuner: FineTuner, before: Any, after: Any
) -> dict[str, Any]:
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


def _require_reward(config: RunConfig, task: Task) -> None:
    if config.env == GRID and task.reward is None:
        raise UserError(
            f"The task `{task.name}` carries no reward to learn from; infer it from one of the grid's own."
        )
    num_cells = config.grid.height * config.grid.width
    if config.env == GRID and task.reward is not None and len(task.reward) != num_cells:
        raise UserError(
            f"The task `{task.name}` has a reward over {len(task.reward)} states and this world has "
            f"{num_cells}; infer it with this run."
        )
