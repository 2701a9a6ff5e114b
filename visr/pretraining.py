"""Pre-training from start to end: choose what trains (this machine, Ray or a baseline) and drive it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from visr.agents.visr import Visr
from visr.config import BASELINES, RunConfig
from visr.errors import UserError, needing
from visr.evaluation import grid_benchmark
from visr.evaluation.grid_benchmark import GridBenchmark
from visr.inference import recording
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows
from visr.training import driver
from visr.training.driver import Every, Hooks, Observer
from visr.training.loop import Loop
from visr.training.metrics import MetricsWriter

if TYPE_CHECKING:
    from visr.cluster.loop import ClusterLoop
    from visr.evaluation.two_phase import PhaseTwo
    from visr.paper.baselines.rainbow.agent import Rainbow

    AnyTrainer = Loop | ClusterLoop | Rainbow

_STABLE_BASELINES = ("dqn", "ppo")


def start(
    path: str | Path,
    config: RunConfig,
    observe: Observer | None = None,
    cluster: str | None = None,
) -> RunDir:
    """Pre-train from scratch into a new run directory, on this machine or on a Ray cluster."""
    RunDir(path).refuse_existing()  # before a cluster is started
    with RunDir(path).locked():
        if config.agent.algorithm in _STABLE_BASELINES:
            return _train_stable_baseline(RunDir(path), config, cluster)
        with _trainer(config, cluster) as trainer:
            run = RunDir.create(path, config)
            try:
                _save_first(run, trainer)
            except BaseException:  # a run without a checkpoint could not be resumed
                run.remove_incomplete()
                raise
            _train(run, trainer, MetricsWriter(run), observe, cluster)
    return run


def resume(
    path: str | Path,
    num_processes: int | None = None,
    observe: Observer | None = None,
    cluster: str | None = None,
) -> RunDir:
    """Continue from a run's newest checkpoint; the result is the same as without the interruption."""
    run = RunDir.open(path)
    if run.is_finetuned:
        raise UserError(
            f"{run.path} was made by `visr finetune`; `visr finetune --resume {run.path}` resumes it."
        )
    with run.locked():
        config = run.config()
        if config.agent.algorithm in _STABLE_BASELINES:
            return _train_stable_baseline(run, config, cluster)
        with _trainer(config, cluster, num_processes) as trainer:
            rows = MetricsWriter(run)
            if not run.checkpoints() and not run.metrics.exists():  # killed before the first one
                _save_first(run, trainer)
            driver.restore(run, trainer, rows)
            _train(run, trainer, rows, observe, cluster)
    return run


@contextlib.contextmanager
def _trainer(
    config: RunConfig, cluster: str | None, num_processes: int | None = None
) -> Iterator[AnyTrainer]:
    """The loop of one machine, that of a cluster, or Rainbow."""
    if config.agent.algorithm in BASELINES:
        _refuse_cluster(config, cluster)
        from visr.paper.baselines.rainbow.agent import Rainbow

        trainer = Rainbow(config)
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
        with (
            session.joined(cluster, session.needs(config)),
            contextlib.closing(ClusterLoop(config)) as trainer,
        ):
            yield trainer
        return
    with contextlib.closing(trainer):
        yield trainer


def _train_stable_baseline(run: RunDir, config: RunConfig, cluster: str | None) -> RunDir:
    """Train DQN or PPO; such a run starts over when it is resumed."""
    _refuse_cluster(config, cluster)
    with needing("stable_baselines3", "baselines"):
        from visr.paper.baselines import sb3
    sb3.train(run, config)
    return run


def evaluate_baseline(run: RunDir, **counts: int) -> PhaseTwo:
    """Scores of a trained DQN, PPO or Rainbow agent; `counts` are num_trials and seed."""
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
    cluster: str | None,
) -> None:
    training = trainer.config.training
    every = Every(training.log_every, training.checkpoint_every, training.evaluate_every)
    resume_command = f"visr pretrain --resume {run.path}"
    if cluster:
        resume_command += f" --cluster {cluster}"
    hooks = Hooks(rows, resume_command, _exact_evaluation(run, trainer, rows))
    driver.drive(run, trainer, every, observe, hooks)
    _record(run, trainer)


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
        if isinstance(agent, Visr):
            grid_benchmark.snapshot(agent, benchmark.world).save(run.grid_snapshot)
        rows.plot({f"fraction_of_optimal/{k}": v for k, v in scores.items()}, num_steps)
        return scores

    return evaluate


def _record(run: RunDir, trainer: AnyTrainer) -> None:
    """Save a reward-free sample of steps where observations are small; the grid's states are known."""
    config, num_steps = trainer.config, trainer.config.inference.recorded_steps
    if config.is_grid or not num_steps or run.recorded.exists():
        return
    agent = trainer.agent
    if isinstance(agent, Visr) and recording.is_possible(agent.spec.observation_space, num_steps):
        recording.record(agent, config, num_steps).save(run.recorded)
