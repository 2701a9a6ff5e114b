"""Pre-training from start to end: choose what trains (this machine, Ray or a baseline) and drive it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from visr import config as configuration
from visr import envs, extend_run, terminal
from visr.agents.base import BehaviourModel
from visr.agents.replay_successor_features import ReplaySuccessorFeatures
from visr.config import BASELINES, REPLAY_LEARNERS, RunConfig, cost
from visr.errors import UserError, for_reader
from visr.evaluation import grid_benchmark
from visr.evaluation.grid_benchmark import GridBenchmark
from visr.inference import dataset_unrolls, recording
from visr.optional_packages import needing
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows
from visr.training import driver, metric_loggers
from visr.training.driver import Every, Hooks, Observer
from visr.training.loop import Loop
from visr.training.metrics import MetricsWriter
from visr.types import Unroll

if TYPE_CHECKING:
    from visr.cluster.loop import ClusterLoop
    from visr.evaluation.two_phase import PhaseTwo
    from visr.paper.baselines.rainbow.agent import Rainbow
    from visr.paper.baselines.simple.agent import Simple
    from visr.training.offline_loop import OfflineLoop
    from visr.training.replay_loop import ReplayLoop

    AnyTrainer = Loop | ClusterLoop | Rainbow | Simple | ReplayLoop | OfflineLoop

log = terminal.logger()

_STABLE_BASELINES = ("dqn", "ppo")
_DESCRIBED_STEPS = 40_000
"""Recorded steps by which the library is described."""


def start(
    path: str | Path,
    config: RunConfig,
    observe: Observer | None = None,
    cluster: str | None = None,
    wandb: bool = False,
) -> RunDir:
    """Pre-train from scratch into a new run directory, on this machine or on a Ray cluster."""
    RunDir(path).refuse_existing()  # before a cluster is started
    _require_wandb(config, wandb)
    config, data = _with_dataset(config)
    with RunDir(path).locked():
        if config.agent.algorithm in _STABLE_BASELINES:
            return _train_stable_baseline(RunDir(path), config, cluster)
        with _trainer(config, cluster, data=data) as trainer:
            run = RunDir.create(path, config)
            try:
                rows = MetricsWriter(run, wandb)
                _save_first(run, trainer)
            except BaseException:  # a run without a checkpoint could not be resumed
                run.remove_incomplete()
                raise
            _train(run, trainer, rows, observe, _flags(cluster, wandb))
    return run


def resume(
    path: str | Path,
    num_processes: int | None = None,
    observe: Observer | None = None,
    cluster: str | None = None,
    num_steps: int | None = None,
    wandb: bool = False,
    accept_cost: bool = False,
) -> RunDir:
    """Continue from a run's newest checkpoint; the result is the same as without the interruption.

    `num_steps` extends the run to so many steps in all. An extraordinary cost must be accepted: the run
    may come from somebody else.
    """
    run = RunDir.open(path)
    if run.is_finetuned:
        raise UserError(
            f"{run.path} was made by `visr finetune`; `visr finetune --resume {run.path}` resumes it."
        )
    with run.locked():
        before = run.config()
        config = before if num_steps is None else extend_run.extended(run, before, num_steps)
        estimate = cost.of_training(config)  # of all steps: names of checkpoints may lie
        cost.require_consent(run.path, config, estimate, accept_cost)
        _require_wandb(config, wandb)
        if config.agent.algorithm in _STABLE_BASELINES:
            return _train_stable_baseline(run, config, cluster)
        data = None if run.replay_pieces() else _with_dataset(config)[1]
        with _trainer(config, cluster, num_processes, data) as trainer:
            rows = MetricsWriter(run, wandb)
            if not run.checkpoints() and not run.metrics.exists():  # killed before the first one
                _save_first(run, trainer)
            driver.restore(run, trainer, rows)
            if config != before:
                extend_run.extend(run, before, config, trainer.num_steps)
            _train(run, trainer, rows, observe, _flags(cluster, wandb, accept_cost))
    return run


def _with_dataset(config: RunConfig) -> tuple[RunConfig, Unroll | None]:
    """The configuration with the size of its dataset, and the dataset's steps; without one, nothing new."""
    source, length = config.replay.dataset, config.training.unroll_length
    if not source:
        return config, None
    codec = envs.space_codec(config)
    data = dataset_unrolls.unrolls(source, codec, length, config.agent.num_features)
    capacity, replay = config.replay.buffer_steps, config.replay
    if capacity < data.num_steps:
        words = (
            f"visr: {source} takes {data.num_steps:,} steps of memory; only the last {capacity:,} are used "
            "(--buffer-steps)."
        )
        log.warning("%s", for_reader(words))
    drawn = replay.num_updates * replay.transitions_per_update
    size = min(capacity, data.num_steps)
    return configuration.replace(config, num_steps=drawn, buffer_steps=size), data


def _require_wandb(config: RunConfig, wandb: bool) -> None:
    """Refuse --wandb before anything is written, if it cannot work."""
    if wandb and config.agent.algorithm in _STABLE_BASELINES:
        raise UserError(f"{config.agent.algorithm} does not log to wandb; leave out --wandb.")
    if wandb:
        metric_loggers.require_wandb()


@contextlib.contextmanager
def _trainer(
    config: RunConfig,
    cluster: str | None,
    num_processes: int | None = None,
    data: Unroll | None = None,
) -> Iterator[AnyTrainer]:
    """The loop of one machine, that of a cluster, the replay learner's two, Rainbow or SimPLe."""
    if config.agent.algorithm in BASELINES:
        _refuse_cluster(config, cluster)
        trainer = _baseline(config)
    elif config.replay.dataset:
        _refuse_cluster(config, cluster)
        from visr.training.offline_loop import OfflineLoop

        trainer = OfflineLoop(config, data)
    elif cluster is None and config.agent.algorithm in REPLAY_LEARNERS:
        from visr.training.replay_loop import ReplayLoop

        trainer = ReplayLoop(config, num_processes)
    elif cluster is None:
        if config.cluster.max_staleness or config.cluster.num_learners > 1:
            raise UserError(
                f"max_staleness = {config.cluster.max_staleness} and num_learners = "
                f"{config.cluster.num_learners} have a meaning only on a cluster; add --cluster local."
            )
        trainer = Loop(config, num_processes)
    else:
        with needing("ray", "cluster"):
            from visr.cluster import session
            from visr.cluster.loop import ClusterLoop
            from visr.cluster.replay_loop import ClusterReplayLoop
        is_replay = config.agent.algorithm in REPLAY_LEARNERS
        with (
            session.joined(cluster, session.needs(config)),
            contextlib.closing(
                (ClusterReplayLoop if is_replay else ClusterLoop)(config)
            ) as trainer,
        ):
            yield trainer
        return
    with contextlib.closing(trainer):
        yield trainer


def _baseline(config: RunConfig) -> Rainbow | Simple:
    """Rainbow or SimPLe."""
    if config.agent.algorithm == "rainbow":
        from visr.paper.baselines.rainbow.agent import Rainbow

        return Rainbow(config)
    with needing("stable_baselines3", "baselines"):
        from visr.paper.baselines.simple.agent import Simple
    return Simple(config)


def _train_stable_baseline(run: RunDir, config: RunConfig, cluster: str | None) -> RunDir:
    """Train DQN or PPO; such a run starts over when it is resumed."""
    _refuse_cluster(config, cluster)
    with needing("stable_baselines3", "baselines"):
        from visr.paper.baselines import sb3
    sb3.train(run, config)
    return run


def evaluate_baseline(run: RunDir, **counts: int) -> PhaseTwo:
    """Scores of a trained DQN, PPO, Rainbow or SimPLe agent; `counts` are num_trials and seed."""
    from visr.paper.baselines import play

    return play.evaluate(run, **counts)


def _refuse_cluster(config: RunConfig, cluster: str | None) -> None:
    if cluster is not None:
        raise UserError(
            f"{config.agent.algorithm} trains in one process, so --cluster {cluster} would do nothing; "
            "leave it out."
        )


def _save_first(run: RunDir, trainer: AnyTrainer) -> None:
    trainer.reset_unsaveable_envs()  # as a resumed run will
    driver.save(run, trainer)


def _train(
    run: RunDir,
    trainer: AnyTrainer,
    rows: MetricsWriter,
    observe: Observer | None,
    flags: str,
) -> None:
    training = trainer.config.training
    every = Every(training.log_every, training.checkpoint_every, training.evaluate_every)
    resume_command = f"visr pretrain --resume {run.path}{flags}"
    evaluate = _exact_evaluation(run, trainer, rows) or _imagination(run, trainer)
    hooks = Hooks(rows, resume_command, evaluate)
    has_trained = not trainer.is_done
    driver.drive(run, trainer, every, observe, hooks)
    if has_trained or not recording.is_of(run.recorded, trainer.num_steps):
        _save_library(run, trainer)
        _record(run, trainer, rows, observe)


def _flags(cluster: str | None, wandb: bool, accept_cost: bool = False) -> str:
    """The flags that a command needs to go on in the same way."""
    flags = {f" --cluster {cluster}": cluster, " --wandb": wandb, " --accept-cost": accept_cost}
    return "".join(flag for flag, is_set in flags.items() if is_set)


def _exact_evaluation(
    run: RunDir, trainer: AnyTrainer, rows: MetricsWriter
) -> Callable[[int], dict[str, float]] | None:
    """Write fractions of optimal to evaluation.csv, in grid worlds."""
    benchmark = GridBenchmark.for_environment(trainer.config)
    if benchmark is None or trainer.agent is None:
        return None

    def evaluate(num_steps: int) -> dict[str, float]:
        agent = trainer.agent
        try:
            scores = benchmark.scores(agent)
        except UserError:  # features that are equal in all states: no reward to optimise
            return {}
        if not scores:
            return {}
        append_rows(run.evaluation, ["num_steps", *scores], [[num_steps, *scores.values()]])
        if isinstance(agent, BehaviourModel):
            grid_benchmark.snapshot(agent, benchmark.world).save(run.grid_snapshot)
        rows.plot({f"fraction_of_optimal/{k}": v for k, v in scores.items()}, num_steps)
        return scores

    return evaluate


def _save_library(run: RunDir, trainer: AnyTrainer) -> None:
    """Write what the replay learner practised, in words."""
    if isinstance(trainer.agent, ReplaySuccessorFeatures):
        from visr.training import describe_library

        steps = trainer.recording(_DESCRIBED_STEPS)  # pyright: ignore[reportAttributeAccessIssue]
        practice = getattr(trainer, "practice", None)
        describe_library.describe(trainer.agent, trainer.config, steps, practice).save(run.library)


def _imagination(run: RunDir, trainer: AnyTrainer) -> Callable[[int], dict[str, float]] | None:
    """Write what SimPLe's model predicts before the last checkpoint, after which the real steps are gone."""
    if trainer.config.agent.algorithm != "simple":
        return None

    def imagine(_num_steps: int) -> dict[str, float]:
        if trainer.is_done:
            trainer.imagined().save(run.imagined)  # pyright: ignore[reportAttributeAccessIssue]
        return {}

    return imagine


def _record(
    run: RunDir, trainer: AnyTrainer, rows: MetricsWriter, observe: Observer | None
) -> None:
    """Save a reward-free sample of steps where observations are small; the grid's states are known."""
    config, num_steps = trainer.config, trainer.config.inference.recorded_steps
    if config.is_grid or not num_steps:
        return
    agent = trainer.agent
    if not isinstance(agent, BehaviourModel) or not recording.is_possible(
        agent.spec.observation_space, num_steps
    ):
        return

    def note(recorded: int) -> None:
        if observe:
            text = f"recording a sample: {min(recorded / num_steps, 1):.0%} of {num_steps:,} steps"
            observe(rows.status(trainer.num_steps, trainer.total_steps, {}, text))

    if isinstance(agent, ReplaySuccessorFeatures):  # its buffer holds more than it would play now
        unrolls = trainer.recording(num_steps)  # pyright: ignore[reportAttributeAccessIssue]
        recorded = recording.of_unrolls(agent, config, unrolls)
    else:
        note(0)
        recorded = recording.record(agent, config, num_steps, note=note)
    recording.keep(recorded, run.recorded, trainer.num_steps)
