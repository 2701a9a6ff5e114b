"""Ray against the in-process loop at equal work on one core; and what measured times mean for a cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from visr import config as configuration
from visr.bench import simulation, training
from visr.bench.simulation import Times
from visr.cluster import latency, session, workers
from visr.cluster.loop import ClusterLoop
from visr.config import RunConfig, presets

_ALIKE = {
    "num_steps": 10**12,
    "num_rewarded_envs": 0,
    "num_processes": 1,
    "num_actor_groups": 1,
    "num_threads": 1,
    "device": "cpu",
}
_NUM_ACTORS = (1, 2, 4, 8, 16, 25, 50, 100, 200, 400, 800)
_PAPERS_ACTORS = 100
_SPEEDUPS = (1, 4, 16, 64, 256)
"""Of the learner over one core of this machine: what a GPU might bring, to be measured there."""
_LINK = 10e9 / 8
"""Bytes per second of the network that the simulation assumes: 10 Gbit/s."""
_NUM_GAMES, _STEPS_PER_GAME = 57, 250_000_000
_MAX_STALENESS = 8
Say = Callable[[str], None]


def measure(preset: str, env: str, num_envs: int, seconds: float, say: Say) -> dict[str, Any]:
    """Steps per second of a learner and one actor on Ray, and of the loop in one process, in turns.

    Both do the same sums, number for number, on the same one core: what Ray costs cannot hide on another.
    """
    config = configuration.replace(presets.get(preset), env=env, num_envs=num_envs, **_ALIKE)
    with one_core() as is_pinned, session.joined("local", session.needs(config)):
        say("Starting one actor and one learner on Ray, and the same loop in this process.")
        with (
            contextlib.closing(ClusterLoop(config, "local")) as cluster,
            training.warmed(cluster) as (_, on_ray),
            training.warm(config) as (_, alone),
        ):
            on_ray, alone = Turns(on_ray), Turns(alone)
            deadline = time.perf_counter() + seconds
            while not alone.seconds or time.perf_counter() < deadline:
                on_ray.take()
                alone.take()
            row = cluster.vitals()
    say(f"{on_ray.rate:,.1f} steps/s on Ray, {alone.rate:,.1f} in one process.")
    return {
        "steps_per_second": on_ray.rate,
        "limit_steps_per_second": alone.rate,
        "ratio": on_ray.rate / alone.rate,
        "overhead": alone.rate / on_ray.rate - 1,
        "cpu_overhead": on_ray.cpu_per_step / alone.cpu_per_step - 1,
        "num_steps": alone.steps,
        "max_staleness": row["max_staleness"],
        "unroll_megabytes": session.unroll_bytes(config) * num_envs / 1e6,
        "is_on_one_core": is_pinned,
        "env": env,
        "num_envs": num_envs,
        "batch_size": config.training.batch_size,
    }


class Turns:
    """A job that takes turns with another, so that a noisy machine slows both alike; time and CPU time."""

    def __init__(self, job: Callable[[], int]) -> None:
        self._job = job
        self.steps, self.seconds, self._cpu = 0, 0.0, 0.0

    def take(self) -> None:
        """One turn: so many steps, here and in every process begun from here."""
        start, cpu = time.perf_counter(), cpu_seconds()
        self.steps += self._job()
        self.seconds += time.perf_counter() - start
        self._cpu += cpu_seconds() - cpu

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds

    @property
    def cpu_per_step(self) -> float:
        """CPU seconds; other people's processes do not count."""
        return self._cpu / self.steps


def cpu_seconds() -> float:
    """CPU time of this process and all its descendants so far; without /proc, of this process alone."""
    parents, seconds = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):  # it has just gone
            words = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid] = int(words[1])
            seconds[pid] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(seconds.get(pid, 0.0) for pid in ours - {os.getpid()}) + time.process_time()


@contextlib.contextmanager
def one_core() -> Iterator[bool]:
    """This process and all that it starts share one core, where the system permits it."""
    if not hasattr(os, "sched_setaffinity"):
        yield False
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield True
    finally:
        os.sched_setaffinity(0, cores)


# ----------------------------------------------------------------------------------- simulated


def simulate(
    preset: str, env: str, envs_per_actor: int, learner_speedup: float, say: Say
) -> dict[str, Any]:
    """Measure acting, learning, orders and transfers, then play clusters of many sizes with these times.

    `learner_speedup` asks what if the learner were so many times as quick as one core of this machine.
    """
    config = configuration.replace(presets.get(preset), env=env, num_envs=envs_per_actor, **_ALIKE)
    training_config = config.training
    measured = _measured(config, say)
    times = dataclasses.replace(measured, learn=measured.learn / learner_speedup)
    sizes = {
        "unrolls_per_actor": envs_per_actor,
        "batch_size": training_config.batch_size,
        "unroll_length": training_config.unroll_length,
        "max_staleness": _MAX_STALENESS,
    }
    say("Simulating.")
    limit = training_config.batch_size * training_config.unroll_length / times.learn
    scaling = [simulation.simulate(times, number, **sizes) for number in _NUM_ACTORS]
    papers = scaling[_NUM_ACTORS.index(_PAPERS_ACTORS)].steps_per_second
    return {
        "steps_per_second": papers,
        "limit_steps_per_second": limit,
        "ratio": papers / limit,
        "saturates_at_actors": simulation.saturation(scaling),
        "act_seconds": statistics.mean(times.act),
        "learn_seconds": measured.learn,
        "learner_speedup": learner_speedup,
        "transfer_seconds": times.transfer,
        "request_seconds": times.order,
        "acting_steps_per_second": envs_per_actor
        * training_config.unroll_length
        / statistics.mean(times.act),
        "env": env,
        "envs_per_actor": envs_per_actor,
        "scaling": [outcome._asdict() for outcome in scaling],
        "sizing": [_sized(measured, speedup, sizes) for speedup in _SPEEDUPS],
    }


def _measured(config: RunConfig, say: Say) -> Times:
    """The very code that actors and learners run, timed; Ray's own share, on two nodes of this machine."""
    batch_size, size = config.training.batch_size, config.training.num_envs
    say(f"Timing an actor of {size} environments and an update of {batch_size} unrolls, one core.")
    with one_core():
        actor, learner = workers.ActorWorker(config, 0, seed=0), workers.LearnerWorker(config, 0)
        actor.prepare()
        learner.prepare(None)
        psi, _ = learner.publish()
        actor.collect(psi)
        played = [_timed(lambda: actor.collect(psi)[0]) for _ in range(-(-batch_size // size))]
        unrolls = [unroll for unroll, _ in played]
        learner.learn(*unrolls)
        learnt = [_timed(lambda: learner.learn(*unrolls)[2]["metrics"]) for _ in range(3)]
    num_bytes = sum(field.nbytes for field in unrolls[0])
    say("Timing Ray's orders, and transfers between two nodes on this machine.")
    with latency.nodes(0, 1):
        order, transfer = (
            latency.request_seconds(),
            latency.transfer_seconds(num_bytes, len(unrolls)),
        )
    per_update = [seconds / len(metrics) for metrics, seconds in learnt]
    return Times(
        act=tuple(seconds for _, seconds in played),
        transfer=transfer + num_bytes / _LINK,
        learn=statistics.median(per_update),
        order=order,
    )


def _timed(job: Callable[[], Any]) -> tuple[Any, float]:
    """What a job gives, and its CPU time: what it takes on a core of its own, however busy this one is."""
    start = time.process_time()
    return job(), time.process_time() - start


def _sized(times: Times, speedup: int, sizes: dict[str, int]) -> dict[str, float]:
    """A learner so many times as quick, and as many actors as it takes to feed it."""
    faster = dataclasses.replace(times, learn=times.learn / speedup)
    number = simulation.actors_per_learner(
        statistics.mean(times.act), sizes["unrolls_per_actor"], faster.learn, sizes["batch_size"]
    )
    outcome = simulation.simulate(faster, number, **sizes)
    days = _NUM_GAMES * _STEPS_PER_GAME / outcome.steps_per_second / 86_400
    return {
        "learner_speedup": speedup,
        "actor_cpus": number,
        "steps_per_second": outcome.steps_per_second,
        "learner_busy": outcome.learner_busy,
        "link_busy": outcome.link_busy,
        "days_per_game": days / _NUM_GAMES,
        "days_for_57_games": days,
    }
