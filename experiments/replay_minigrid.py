"""Goal prompts on MiniGrid: the share of goals reached within twice the shortest path.

python experiments/replay_minigrid.py FourRooms DoorKey --seeds 0
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from replay_runs import append, pretrained, settings

import visr
from visr import config as configuration
from visr.config import presets
from visr.envs import modules

FILE = str(Path(__file__).with_name("minigrid_states.py"))
FIELDS: dict[str, object] = {"preset": "replay-large-grid", "num_envs": 32, "gamma": 0.97}
STARTS = 4
"""Starts for each goal."""


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


def pairs(seed: int, num_goals: int, env: Any) -> list[tuple[int, int, int]]:
    """(goal, start, shortest path): any state that can be reached from a start, and such starts."""
    rng, table = np.random.default_rng(seed), env.table
    found = []
    for goal in rng.permutation(len(table.states))[:num_goals]:
        far = distances(table.after, table.ends, goal)[table.starts]
        possible = np.flatnonzero(np.isfinite(far) & (far > 0))
        for k in rng.choice(possible, min(STARTS, len(possible)), replace=False):
            found.append((int(goal), int(table.starts[k]), int(far[k])))
    return found


@torch.inference_mode()
def reached(run: visr.Run, env: Any, asked: list[tuple[int, int, int]], gpi: bool) -> float:
    """The share of (goal, start) that the greedy policies of the goal prompts solve in time."""
    agent, table = run.visr, env.table
    tasks = {goal: run.infer(goal=str(goal)).w for goal in sorted({goal for goal, *_ in asked})}
    goal, now, far = (np.array(column) for column in zip(*asked, strict=True))
    w = torch.as_tensor(np.stack([tasks[g] for g in goal]), dtype=torch.float32)
    done, ended = now == goal, np.zeros(len(goal), dtype=bool)
    for age in range(2 * int(far.max())):
        chosen = [
            _actions(agent, now[k : k + 32], w[k : k + 32], gpi) for k in range(0, len(w), 32)
        ]
        action = np.concatenate(chosen)
        playing = ~(done | ended) & (age < 2 * far)
        ended |= playing & table.ends[now, action]
        now = np.where(playing, table.after[now, action], now)
        done |= playing & (now == goal)
    return float(done.mean())


def _actions(agent: Any, states: np.ndarray, w: torch.Tensor, gpi: bool) -> np.ndarray:
    policies, readout = agent.sample_policies(w, None, gpi), agent.readout(w, gpi)
    hidden = agent.psi.first_step(torch.as_tensor(states))
    return agent.action_values(hidden, policies, readout).argmax(dim=1).numpy()


def by_chance(env: Any, asked: list[tuple[int, int, int]], constant: int | None = None) -> float:
    """The same of random actions, or of one action; the start of every path is random already."""
    rng, table, hits = np.random.default_rng(0), env.table, 0
    for goal, now, far in asked:
        for _ in range(2 * far):
            action = rng.integers(table.after.shape[1]) if constant is None else constant
            ends, now = table.ends[now, action], table.after[now, action]
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
        id = f"{FILE}:{task}"
        modules.trust(id)
        env: Any = modules.load(id).entry_point()  # pyright: ignore
        asked = pairs(chosen.goals_seed, chosen.goals, env)
        others = [by_chance(env, asked, action) for action in range(env.action_space.n)]
        for seed in chosen.seeds:
            fields = FIELDS | {"env": id, "seed": seed} | settings(chosen.set)
            config = configuration.replace(presets.get(str(fields.pop("preset"))), **fields)
            kept = chosen.runs and chosen.runs / f"{task}-{seed}"
            with pretrained(config, kept) as (run, spent):
                row = {
                    "task": task,
                    "seed": seed,
                    "states": len(env.table.states),
                    "steps": config.training.num_steps,
                    "updates": config.replay.num_updates,
                    "cpu_seconds": round(spent),
                    "goals": len({goal for goal, *_ in asked}),
                    "paths": len(asked),
                    "mean_path": round(float(np.mean([far for *_, far in asked])), 1),
                    "reached": round(reached(run, env, asked, True), 3),
                    "own_policy": round(reached(run, env, asked, False), 3),
                    "random": round(by_chance(env, asked), 3),
                    "best_constant": round(max(others), 3),
                }
                append(chosen.out, row)


if __name__ == "__main__":
    main()
