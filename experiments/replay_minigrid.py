"""Goal prompts on MiniGrid: the share of goals reached within twice the shortest path.

python experiments/replay_minigrid.py FourRooms DoorKey --seeds 0
"""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from replay_runs import append, pretrained, settings

import visr
from visr import config as configuration
from visr.config import MINIGRID, presets
from visr.envs.minigrid import TransitionTable

IDS = {"FourRooms": f"{MINIGRID}FourRooms-v0", "DoorKey": f"{MINIGRID}DoorKey-5x5-v0"}
STARTS = 4
"""Starts for each goal."""


def table_of(id: str) -> TransitionTable:
    """What every action does in every state."""
    env: Any = gymnasium.make(id).unwrapped
    return env.table


def distances(after: np.ndarray, ends: np.ndarray, goal: int) -> np.ndarray:
    """[S], the steps of the shortest path to the goal; inf if no path leads there."""
    far = np.full(len(after), np.inf)
    far[goal] = 0
    while True:
        onwards = np.where(ends & (after != goal), np.inf, far[after])
        nearer = np.minimum(far, 1 + onwards.min(axis=1))
        if (nearer == far).all():
            return far
        far = nearer


def pairs(seed: int, num_goals: int, table: TransitionTable) -> list[tuple[int, int, int]]:
    """(goal, start, shortest path): any state that can be reached from a start, and such starts."""
    rng, found = np.random.default_rng(seed), []
    for goal in rng.permutation(len(table.states))[:num_goals]:
        far = distances(table.after, table.ends, goal)[table.starts]
        possible = np.flatnonzero(np.isfinite(far) & (far > 0))
        for k in rng.choice(possible, min(STARTS, len(possible)), replace=False):
            found.append((int(goal), int(table.starts[k]), int(far[k])))
    return found


@torch.inference_mode()
def reached(
    run: visr.Run, table: TransitionTable, asked: list[tuple[int, int, int]], gpi: Iterable[bool]
) -> list[float]:
    """The share of (goal, start) that the greedy policies of the goal prompts solve in time."""
    goals = sorted({goal for goal, *_ in asked})
    w = np.stack([run.infer(goal=str(goal)).w for goal in goals])
    hidden, tasks = run.visr.psi.first_step(torch.arange(len(table.states))), torch.as_tensor(w)
    shares = []
    for is_gpi in gpi:
        values = run.visr.values_of_tasks(hidden, tasks.float(), None, is_gpi)
        policies = dict(zip(goals, values.argmax(dim=-1).numpy(), strict=True))
        shares.append(_share(table, asked, lambda goal, now, p=policies: p[goal][now]))
    return shares


def by_chance(
    table: TransitionTable, asked: list[tuple[int, int, int]], constant: int | None = None
) -> float:
    """The same of random actions, or of one action."""
    rng = np.random.default_rng(0)
    if constant is not None:
        return _share(table, asked, lambda goal, now: constant)
    return _share(table, asked, lambda goal, now: int(rng.integers(table.after.shape[1])))


def _share(
    table: TransitionTable, asked: list[tuple[int, int, int]], act: Callable[[int, int], int]
) -> float:
    """The share of paths that reach their goal within twice the shortest length."""
    hits = 0
    for goal, now, far in asked:
        for _ in range(2 * far):
            action = act(goal, now)
            ends, now = table.ends[now, action], int(table.after[now, action])
            hits += now == goal
            if ends or now == goal:
                break
    return hits / len(asked)


def main() -> None:
    """Append one row per task and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="+", choices=["FourRooms", "DoorKey"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--goals", type=int, default=50)
    parser.add_argument(
        "--goals-seed", type=int, default=1, help="99 for goals to choose settings by"
    )
    parser.add_argument("--set", nargs="*", default=[], help="settings as name=value")
    parser.add_argument("--runs", type=Path, help="keep the runs in this directory")
    parser.add_argument("--out", type=Path, default=Path("results/replay/minigrid.csv"))
    chosen = parser.parse_args()
    for task in chosen.tasks:
        table = table_of(IDS[task])
        asked = pairs(chosen.goals_seed, chosen.goals, table)
        others = [by_chance(table, asked, action) for action in range(table.after.shape[1])]
        for seed in chosen.seeds:
            fields = {"seed": seed} | settings(chosen.set)
            config = configuration.replace(presets.for_environment(IDS[task]), **fields)
            config = configuration.replace(config, env=IDS[task])
            kept = chosen.runs and chosen.runs / f"{task}-{seed}"
            with pretrained(config, kept) as (run, spent):
                by_gpi, own = reached(run, table, asked, (True, False))
                row = {
                    "task": task,
                    "seed": seed,
                    "states": len(table.states),
                    "steps": config.training.num_steps,
                    "updates": config.replay.num_updates,
                    "cpu_seconds": round(spent),
                    "goals": len({goal for goal, *_ in asked}),
                    "paths": len(asked),
                    "mean_path": round(float(np.mean([far for *_, far in asked])), 1),
                    "reached": round(by_gpi, 3),
                    "own_policy": round(own, 3),
                    "random": round(by_chance(table, asked), 3),
                    "best_constant": round(max(others), 3),
                }
                append(chosen.out, row)


if __name__ == "__main__":
    main()
