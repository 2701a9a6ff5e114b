"""Measure the overhead of Ray: one actor and one learner on Ray against the same loop in one process.

python experiments/cluster_overhead.py --preset atari-small --seconds 90
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from visr import config as configuration
from visr.bench.loops import training_loop
from visr.bench.meter import Job
from visr.cluster import session
from visr.cluster.loop import ClusterLoop
from visr.config import RunConfig, presets
from visr.training.loop import Loop

_ALIKE = {
    "num_steps": 10**12,
    "num_rewarded_envs": 0,
    "num_processes": 1,
    "num_actor_groups": 1,
    "num_threads": 1,
    "device": "cpu",
}


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", default="atari")
    parser.add_argument("--env", default="ALE/Pong-v5")
    parser.add_argument("--num-envs", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    config = configuration.replace(
        presets.get(options.preset), env=options.env, num_envs=options.num_envs
    )
    if is_on_one_core := hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    result = {**measure(config, options.seconds), "is_on_one_core": is_on_one_core}
    print(json.dumps(result, indent=2))


def measure(config: RunConfig, seconds: float) -> dict[str, Any]:
    """Steps per second of a learner and one actor on Ray, and of the same loop in one process, in turns.

    Both compute the same numbers. On one core none of Ray's cost can run in parallel.
    """
    config = configuration.replace(config, **_ALIKE)
    with session.joined("local", session.needs(config)):
        cluster = ClusterLoop(config)
        with training_loop(cluster) as train_on_ray, training_loop(Loop(config)) as train:
            for job in (train_on_ray, train):
                job()  # warm-up
            on_ray, alone = Meter(train_on_ray), Meter(train)
            deadline = time.perf_counter() + seconds
            while not alone.seconds or time.perf_counter() < deadline:
                on_ray.run()
                alone.run()
            row = cluster.stats()
    return {
        "steps_per_second": on_ray.rate,
        "limit_steps_per_second": alone.rate,
        "ratio": on_ray.rate / alone.rate,
        "overhead": alone.rate / on_ray.rate - 1,
        "cpu_overhead": on_ray.cpu_per_step / alone.cpu_per_step - 1,
        "num_steps": alone.steps,
        "max_staleness": row["max_staleness"],
        "unroll_megabytes": session.unroll_bytes(config) * config.training.num_envs / 1e6,
        "env": config.env,
        "num_envs": config.training.num_envs,
        "batch_size": config.training.batch_size,
    }


class Meter:
    """Steps, seconds and CPU seconds of a job, with all processes that this one started."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.steps, self.seconds, self._cpu = 0, 0.0, 0.0

    def run(self) -> None:
        """Run the job once and add its times."""
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
        """CPU seconds per step."""
        return self._cpu / self.steps


def cpu_seconds() -> float:
    """CPU time of this process and its descendants; without /proc, of this process alone."""
    parents, seconds = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):  # the process has just ended
            words = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid] = int(words[1])
            seconds[pid] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(seconds.get(pid, 0.0) for pid in ours - {os.getpid()}) + time.process_time()


if __name__ == "__main__":
    main()
