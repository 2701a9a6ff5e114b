"""What stands beside the replay learner on the grid: the paper's VISR, and Q-learning from nothing.

python experiments/replay_comparison.py open-10 rooms-11 --seeds 0

The tasks are those of replay_grid.py. VISR (preset `grid`) gets about the CPU seconds of the replay learner.
Q-learning learns every task by itself, with its true reward, from the steps that a replay learner's run
recorded: by `visr refine`'s sweeps over a table, or by a network.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from replay_grid import WORLDS, rewards
from replay_runs import append, pretrained
from torch import Tensor, nn

import visr
from visr import config as configuration
from visr.config import presets
from visr.evaluation import grid_benchmark
from visr.evaluation.grid_benchmark import GridBenchmark
from visr.finetuning.offline_q import RATE, NetworkLearner
from visr.finetuning.offline_steps import OfflineSteps
from visr.finetuning.tabular_q import TableLearner, TableModel
from visr.networks.residual_values import ResidualValues
from visr.types import EnvSpec

KINDS = ("boxes", "goals", "three goals", "16 cells")
VISR_STEPS = 7_000_000
"""Of the preset `grid`: about the CPU seconds of the replay learner's runs."""
_SLICE, _SWEEPS, _UNITS = 250, 200, 256
Row = dict[str, object]


class ValueNetwork(nn.Module):
    """Q of numbered states: a row for each state and a hidden layer, as wide as psi's; 0 at the start."""

    def __init__(self, num_states: int, num_actions: int) -> None:
        super().__init__()
        last = nn.Linear(_UNITS, num_actions)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        table, hidden = nn.Embedding(num_states, _UNITS), nn.Linear(_UNITS, _UNITS)
        self.body = nn.Sequential(table, nn.ReLU(), hidden, nn.ReLU(), last)

    def forward(self, states: Tensor) -> Tensor:
        """[N] -> [N, 1, actions]"""
        return self.body(states).unsqueeze(1)


def visr_rows(name: str, seed: int, tasks_seed: int, num_steps: int) -> Iterator[Row]:
    """The paper's agent, pre-trained for so many steps, on the same tasks."""
    chosen = {"seed": seed, "evaluate_every": 10**9, "num_processes": 1, "num_steps": num_steps}
    config = configuration.replace(
        presets.get("grid"), env="visr/Grid-v0", **WORLDS[name][1], **chosen
    )
    with pretrained(config, None) as (run, spent):
        agent, world = run.visr, run.world
    assert world is not None
    benchmark, phi = GridBenchmark(config, world), grid_benchmark.features(agent, world)
    for kind in KINDS:
        reward = rewards(kind, world, tasks_seed)
        w = np.stack([benchmark._infer(agent, phi, r) for r in reward])
        for method, gpi in (("VISR", True), ("VISR, own policy", False)):
            policy = grid_benchmark.actions(agent, world, w, gpi=gpi)
            found = benchmark._fractions(kind, policy, reward)
            yield {"tasks": kind, "method": method, "num_tasks": len(found), "updates": ""} | {
                "steps": num_steps,
                "cpu_seconds": round(spent),
                "mean": round(float(found.mean()), 4),
                "worst": round(float(found.min()), 3),
            }


def q_rows(
    name: str, seed: int, tasks_seed: int, num_tasks: int, updates: int, kept: Path | None
) -> Iterator[Row]:
    """Q-learning from nothing on recorded steps, every task by itself."""
    preset, shape = WORLDS[name]
    chosen = {"seed": seed, "evaluate_every": 10**9, **shape}
    config = configuration.replace(presets.get(preset), env="visr/Grid-v0", **chosen)
    with pretrained(config, kept) as (run, _):
        steps, world = run.offline_steps, run.world
        assert world is not None
        benchmark = GridBenchmark(config, world)
        learners: dict[str, Callable[[OfflineSteps, Tensor], Tensor]] = {
            "Q-learning, table": lambda data, r: by_table(run, data, r),
            "Q-learning, network": lambda data, r: by_network(run, data, r, updates, seed),
        }
        for kind in KINDS:
            reward = rewards(kind, world, tasks_seed)[:num_tasks]
            for method, learn in learners.items():
                began = time.process_time()
                policies = [learn(steps, _labels(steps, r)).numpy() for r in reward]
                spent = (time.process_time() - began) / len(reward)
                found = benchmark._fractions(f"{kind}, first", np.stack(policies), reward)
                is_table = method.endswith("table")
                yield {"tasks": kind, "method": method, "num_tasks": len(reward)} | {
                    "updates": "until done" if is_table else updates,
                    "steps": len(steps),
                    "cpu_seconds": round(spent, 2),
                    "mean": round(float(found.mean()), 4),
                    "worst": round(float(found.min()), 3),
                }


def _labels(steps: OfflineSteps, reward: np.ndarray) -> Tensor:
    """The reward of every recorded step, [N]; rewards are collected on arrival."""
    return torch.as_tensor(reward, dtype=torch.float32)[steps.observation[steps.after]]


def by_table(run: visr.Run, steps: OfflineSteps, reward: Tensor) -> Tensor:
    """The greedy actions of all states, [S], after sweeps until nothing changes."""
    agent = run.visr
    num_actions = agent.spec.num_actions
    model = TableModel(steps, reward, agent.config.gamma, num_actions)
    nothing = torch.zeros(model.num_states, num_actions)
    learner = TableLearner(steps, model, nothing, ResidualValues(agent.spec))
    while not learner.is_converged:
        learner.learn(_SWEEPS, RATE)
    with torch.no_grad():
        return learner.residual()(torch.arange(model.num_states))[:, 0].argmax(dim=-1)


def by_network(
    run: visr.Run, steps: OfflineSteps, reward: Tensor, updates: int, seed: int
) -> Tensor:
    """The same of a network after so many updates of 512 steps, with a falling learning rate."""
    spec: EnvSpec = run.visr.spec
    torch.manual_seed(seed)
    num_states, actions = int(spec.observation_space.n), spec.num_actions  # pyright: ignore
    network = ValueNetwork(num_states, actions)
    nothing = torch.zeros(1, actions)
    learner = NetworkLearner(
        steps,
        reward / float(reward[reward != 0].square().mean().sqrt()),
        lambda rows: nothing,  # pyright: ignore[reportArgumentType]
        network,  # pyright: ignore[reportArgumentType]
        torch.Generator().manual_seed(seed),
        gamma=run.config.agent.gamma,
        n=1,
    )
    for done in range(0, updates, _SLICE):
        learner.learn(min(_SLICE, updates - done), RATE * max(1 - done / updates, 0.02))
    with torch.no_grad():
        return learner.residual()(torch.arange(num_states))[:, 0].argmax(dim=-1)


def main() -> None:
    """Append one row per world, seed, kind of task and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", nargs="+", choices=list(WORLDS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--tuning", action="store_true", help="other tasks, to choose settings by")
    parser.add_argument("--methods", nargs="+", choices=["visr", "q"], default=["visr", "q"])
    parser.add_argument("--visr-steps", type=int, default=VISR_STEPS)
    parser.add_argument("--q-tasks", type=int, default=2, help="tasks of each kind for Q-learning")
    parser.add_argument("--q-updates", type=int, default=400, help="of each task's network")
    parser.add_argument("--runs", type=Path, help="the runs of replay_grid.py --runs")
    parser.add_argument("--out", type=Path, default=Path("results/replay/comparison.csv"))
    chosen = parser.parse_args()
    tasks_seed = 99 if chosen.tuning else 1
    for seed in chosen.seeds:
        for world in chosen.worlds:
            kept = chosen.runs and chosen.runs / f"{world}-{seed}"
            rows: list[Iterator[Row]] = []
            if "visr" in chosen.methods:
                rows.append(visr_rows(world, seed, tasks_seed, chosen.visr_steps))
            if "q" in chosen.methods:
                tasks, updates = chosen.q_tasks, chosen.q_updates
                rows.append(q_rows(world, seed, tasks_seed, tasks, updates, kept))
            for found in rows:
                for row in found:
                    append(chosen.out, {"world": world, "seed": seed, **row})


if __name__ == "__main__":
    main()
