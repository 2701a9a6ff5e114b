"""The reward-free phase from start to end: drives the loop, and writes all that a run leaves behind."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from visr.agents.diayn import Diayn
from visr.agents.registry import Agent
from visr.agents.visr import Visr
from visr.config import BASELINES, GRID, RunConfig
from visr.errors import UserError, needing
from visr.evaluation import grid_benchmark, grid_snapshot, skill_search
from visr.inference import recording
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows, forget_rows_after, read_rows
from visr.training import checkpoint
from visr.training.learner import within
from visr.training.loop import Loop, Setback, TrainingLoop
from visr.training.metrics import Recorder
from visr.training.progress import Observer, Status, Stopped, stop_requests

log = logging.getLogger("visr")

_MOST_SETBACKS = 3
"""From one and the same checkpoint: then it is not bad luck."""


def start(
    path: str | Path,
    config: RunConfig,
    observe: Observer | None = None,
    cluster: str | None = None,
) -> RunDir:
    """Pre-train from nothing into a new run directory, here or on a Ray cluster."""
    RunDir(path).refuse_taken()  # before a cluster is troubled
    with RunDir(path).locked():
        if config.agent.algorithm in BASELINES:
            return _start_baseline(path, config, observe, cluster)
        return _start(path, config, observe, cluster)


def _start_baseline(
    path: str | Path, config: RunConfig, observe: Observer | None, cluster: str | None
) -> RunDir:
    train = _baseline(config, cluster)
    run = RunDir.create(path, config)
    try:
        train(run, observe)
    except UserError:  # such as an environment that is none
        if not (run.checkpoints() or run.metrics.exists() or run.online.exists()):
            run.remove_stillborn()
        raise
    return run


def _start(
    path: str | Path, config: RunConfig, observe: Observer | None, cluster: str | None
) -> RunDir:
    with _loop(config, cluster) as loop:
        run = RunDir.create(path, config)
        try:
            _save_beginning(run, loop)
        except BaseException:  # a run without any checkpoint would only be in the way
            run.remove_stillborn()
            raise
        _train(run, loop, Recorder(run), observe)
        _record(run, loop)
    return run


def _baseline(config: RunConfig, cluster: str | None) -> Callable[[RunDir, Observer | None], None]:
    """What trains such an agent, in this one process."""
    if cluster is not None:
        raise UserError(
            f"{config.agent.algorithm} trains in one process, so --cluster {cluster} would do nothing; "
            "leave it out."
        )
    if config.agent.algorithm == "rainbow":
        return _train_rainbow
    with needing("stable_baselines3", "baselines"):
        from visr.paper.baselines import sb3
    return lambda run, _: sb3.train(run, run.config())


def _train_rainbow(run: RunDir, observe: Observer | None) -> None:
    from visr.paper.baselines.rainbow import training

    config = run.config()

    def watch(num_steps: int, recorder: Recorder) -> bool:
        if observe:
            known = config.training.num_steps, recorder.latest, recorder.latest_online
            observe(Status(num_steps, *known))
        return bool(stop)

    with stop_requests() as stop:
        if not training.train(run, config, watch):
            saved = [int(path.stem) for path in run.checkpoints()]
            raise Stopped(stop[0], max(saved, default=0), _resumption(run))


@contextlib.contextmanager
def _loop(
    config: RunConfig, cluster: str | None, num_processes: int | None = None
) -> Iterator[TrainingLoop]:
    """The loop of one machine, or that of a cluster."""
    if cluster is None:
        if config.cluster.max_staleness or config.cluster.num_learners > 1:
            raise UserError(
                f"max_staleness = {config.cluster.max_staleness} and num_learners = "
                f"{config.cluster.num_learners} have a meaning only on a cluster; add --cluster local."
            )
        with contextlib.closing(Loop(config, num_processes)) as loop:
            yield loop
        return
    with needing("ray", "cluster"):
        import visr.cluster.loop
        import visr.cluster.session
    with (
        visr.cluster.session.joined(cluster, visr.cluster.session.needs(config)),
        contextlib.closing(visr.cluster.loop.ClusterLoop(config, cluster)) as loop,
    ):
        yield loop


def _record(run: RunDir, loop: TrainingLoop) -> None:
    """Keep a reward-free sample, where observations are small; the grid needs none: its states are known."""
    config, num_steps = loop.config, loop.config.inference.recorded_steps
    wanted = num_steps and config.env != GRID and not run.recorded.exists()
    if not wanted or not isinstance(loop.agent, Visr):
        return
    if recording.is_possible(loop.spec.observation_space, num_steps):
        recording.save(run.recorded, recording.record(loop.agent, config, num_steps))


def _save_beginning(run: RunDir, loop: TrainingLoop) -> None:
    loop.restart_forgetful_environments()  # as a resumed run will
    checkpoint.save(run, *loop.state(), num_steps=0)


def resume(
    path: str | Path,
    num_processes: int | None = None,
    observe: Observer | None = None,
    cluster: str | None = None,
) -> RunDir:
    """Go on from a run's newest checkpoint, to the same end as if it had never stopped."""
    run = RunDir.open(path)
    if run.is_finetuned:
        raise UserError(
            f"{run.path} was made by `visr finetune`; `visr finetune --resume {run.path}` resumes it."
        )
    with run.locked():
        if run.config().agent.algorithm in BASELINES:
            _baseline(run.config(), cluster)(run, observe)
            return run
        return _resume(run, num_processes, observe, cluster)


def _resume(
    run: RunDir, num_processes: int | None, observe: Observer | None, cluster: str | None
) -> RunDir:
    recorder = Recorder(run)
    with _loop(run.config(), cluster, num_processes) as loop:
        if not run.checkpoints() and not run.metrics.exists():  # killed before anything was learnt
            _save_beginning(run, loop)
        _restore(run, loop, recorder)
        _train(run, loop, recorder, observe)
        _record(run, loop)
    return run


def _restore(run: RunDir, loop: TrainingLoop, recorder: Recorder) -> None:
    """Back to the newest checkpoint that is whole, and nothing written after it remains."""
    path, tensors, counts = checkpoint.newest_sound(run)
    with checkpoint.fitting(path):
        recorder.load_state(within(tensors, "recorder."))
        loop.load_state(tensors, counts)
    run.set_aside_after(path)
    run.forget_old_checkpoints()  # the process before may have been killed on the point of it
    for file in (run.metrics, run.timing, run.vitals, run.evaluation, run.online):
        forget_rows_after(file, loop.num_learned_steps)
    checkpoint.warn_of_changed_tables(run, path)


def _train(
    run: RunDir,
    loop: TrainingLoop,
    recorder: Recorder,
    observe: Observer | None,
) -> None:
    """Train to the end; a setback on the way costs what was learnt since the last checkpoint."""
    setbacks: list[int] = []
    with stop_requests() as stop, contextlib.closing(recorder):
        while not loop.is_done:
            try:
                _go_on(run, loop, recorder, observe, stop)
            except Setback as setback:
                setbacks.append(int(checkpoint.newest(run).stem))
                if setbacks[-_MOST_SETBACKS:] == setbacks[-1:] * _MOST_SETBACKS:
                    raise UserError(
                        f"{setback} That happened {_MOST_SETBACKS} times since step {setbacks[-1]:,}; "
                        f"the run is saved up to there: go on with `visr pretrain --resume {run.path}`."
                    ) from setback
                log.warning("%s Training goes on from step %s.", setback, f"{setbacks[-1]:,}")
                _restore(run, loop, recorder)


def _go_on(
    run: RunDir,
    loop: TrainingLoop,
    recorder: Recorder,
    observe: Observer | None,
    stop: list[int],
) -> None:
    every = run.config().training
    exact = grid_benchmark.Evaluator.for_environment(loop.config)
    evaluation: dict[str, float] = {}
    before = loop.num_learned_steps
    if exact and not read_rows(run.evaluation):
        evaluation = _evaluate(run, exact, loop.agent, before, recorder)
    for current in loop.rounds():
        now = loop.num_learned_steps
        recorder.add(current.metrics)
        if _crossed(before, now, every.log_every) or loop.is_done:
            recorder.write(now, current.num_updates)
            recorder.write_vitals(now, loop.vitals())
            if loop.online:
                recorder.write_online(now, loop.online.row())
        if exact and (_crossed(before, now, every.evaluate_every) or loop.is_done):
            evaluation = _evaluate(run, exact, loop.agent, now, recorder)
        if _crossed(before, now, every.checkpoint_every) or loop.is_done:
            loop.restart_forgetful_environments()
            _save(run, loop, recorder)
        if observe:
            known = {**evaluation, **recorder.latest_online}
            trouble = recorder.trouble.name if recorder.trouble else ""
            vitals = recorder.latest_vitals
            observe(Status(now, every.num_steps, recorder.latest, known, vitals, trouble))
        if stop and not loop.is_done:
            raise _stopped(run, loop, recorder, stop[0])
        before = now


def _save(run: RunDir, loop: TrainingLoop, recorder: Recorder) -> None:
    tensors, counts = loop.state()
    tensors |= {f"recorder.{k}": v for k, v in recorder.state().items()}
    checkpoint.save(run, tensors, counts, num_steps=loop.num_learned_steps)
    if not run.config_file.exists():  # somebody cleared up; without it the checkpoint were no run
        run.write_config(loop.config)


def _stopped(run: RunDir, loop: TrainingLoop, recorder: Recorder, signal_number: int) -> Stopped:
    """Keep all work where the environments permit it; else the last checkpoint stands."""
    if loop.remembers:
        _save(run, loop, recorder)
    saved = int(checkpoint.newest(run).stem)
    return Stopped(signal_number, saved, _resumption(run, loop.where))


def _resumption(run: RunDir, where: str = "") -> str:
    """The command that goes on."""
    return f"visr pretrain --resume {run.path}" + (f" --cluster {where}" if where else "")


def _evaluate(
    run: RunDir, exact: grid_benchmark.Evaluator, agent: Agent, num_steps: int, recorder: Recorder
) -> dict[str, float]:
    try:
        scores = _exact_scores(exact, agent)
    except UserError:  # features that are all alike reward every policy alike: nothing to measure
        return {}
    if not scores:  # an agent that pursues one thing has no tasks to be good at
        return {}
    append_rows(run.evaluation, ["num_steps", *scores], [[num_steps, *scores.values()]])
    if isinstance(agent, Visr):
        grid_snapshot.draw(agent, exact).save(run.portrait)
    recorder.plot({f"fraction_of_optimal/{k}": v for k, v in scores.items()}, num_steps)
    return scores


def _exact_scores(exact: grid_benchmark.Evaluator, agent: Agent) -> dict[str, float]:
    if isinstance(agent, Visr):
        return exact.scores(agent)
    return skill_search.exact_scores(agent, exact) if isinstance(agent, Diayn) else {}


def _crossed(before: int, now: int, every: int) -> bool:
    """Whether a multiple of `every` lies in (before, now]."""
    return now // every > before // every
