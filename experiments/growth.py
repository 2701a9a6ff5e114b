"""Time and memory against d, recorded steps, environments, GPI policies and tasks in a batch, as CSV.

python experiments/growth.py results/speed/growth.csv
"""

from __future__ import annotations

import csv
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from visr import config as configuration
from visr import envs
from visr.agents.base import Agent
from visr.agents.replay_successor_features import ReplaySuccessorFeatures, TaskBatch
from visr.bench.latency import steps_of
from visr.config import presets
from visr.inference.compare_methods import compare_methods
from visr.training import devices
from visr.training.actor import Actor
from visr.training.loop import new_agent

Case = Callable[[], object]
_ONE_GROUP: dict[str, object] = {"num_actor_groups": 1, "num_processes": 1}


def cases() -> Iterator[tuple[str, int, Case]]:
    """(what grows, its size, what is measured); the data is made when the case is asked for."""
    for d in (5, 16, 64, 128, 256):
        yield "inference: d (20,000 steps)", d, partial(compare_methods, steps_of(d, 20_000))
    for count in (10_000, 100_000, 1_000_000, 10_000_000):
        yield "inference: steps (d = 16)", count, partial(compare_methods, steps_of(16, count))
    for num_envs in (1, 8, 64, 512):
        config = configuration.replace(presets.get("grid"), num_envs=num_envs, **_ONE_GROUP)
        actor = Actor(config, envs.make_vec(config, num_envs), new_agent(config), 0)
        yield "acting on the grid: environments", num_envs, actor.collect
    for d in (5, 16, 64, 256):
        config = configuration.replace(
            presets.get("grid"), num_envs=64, num_features=d, **_ONE_GROUP
        )
        actor = Actor(config, envs.make_vec(config, 64), new_agent(config), 0)
        yield "acting on the grid: d", d, actor.collect
    for num_policies in (1, 10, 100, 1_000):
        agent = replay_agent()
        w = torch.randn(1, agent.task_size)
        policies = torch.randn(1, num_policies, agent.task_size)
        yield "an action: GPI policies", num_policies, lambda a=agent, w=w, p=policies: act(a, w, p)
    for num_tasks in (4, 16, 64, 256):
        agent, rows = replay_agent(), torch.zeros(32, dtype=torch.int64)
        batch = TaskBatch(
            rows,
            rows,
            torch.randn(32, agent.task_size),
            torch.full((32,), 0.9),
            rows,
            torch.randn(num_tasks, agent.task_size),
        )
        yield (
            "a replay update: tasks",
            num_tasks,
            lambda a=agent, b=batch: a.losses(b).total.backward(),
        )


def replay_agent() -> ReplaySuccessorFeatures:
    """The replay learner of the grid, with all tasks of an update learnt whole."""
    config = configuration.replace(presets.get("replay-grid"), whole_psi_tasks=256)
    return ReplaySuccessorFeatures(config.agent, envs.spec(config), config.replay)


@torch.inference_mode()
def act(agent: Agent, w: torch.Tensor, policies: torch.Tensor) -> None:
    """Ten observations, one after another."""
    for state in range(10):
        hidden = agent.psi.first_step(torch.tensor([state]))
        agent.action_values(hidden, policies, agent.psi.fold(w))


def main() -> None:
    """Measure every case: the least CPU time of three calls, and the memory that numpy allocates."""
    torch.set_num_threads(1)
    devices.keep_freed_memory()
    with Path(sys.argv[1]).open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["what", "size", "cpu_seconds", "numpy_mb"])
        for what, size, case in cases():
            case()
            seconds = min(measured(case) for _ in range(3))
            tracemalloc.start()
            case()
            peak = tracemalloc.get_traced_memory()[1] / 2**20
            tracemalloc.stop()
            rows.writerow([what, size, f"{seconds:.3g}", f"{peak:.3g}"])
            file.flush()


def measured(case: Case) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    case()
    return time.process_time() - start


if __name__ == "__main__":
    main()
