"""Instant policies of the replay learner on grid worlds: exact fractions of optimal on unseen tasks.

python experiments/replay_grid.py open-10 rooms-11 open-20 rooms-21 --seeds 0 1 2
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from replay_runs import append, pretrained, settings

from visr import config as configuration
from visr.config import presets
from visr.envs.grid.world import GridWorld
from visr.evaluation import grid_benchmark
from visr.evaluation.grid_benchmark import GridBenchmark

NUM_TASKS = 64
WORLDS = {
    "open-10": ("replay-grid", {"height": 10, "width": 10}),
    "rooms-11": ("replay-grid", {"height": 11, "width": 11, "layout": "four-rooms"}),
    "open-20": ("replay-large-grid", {"height": 20, "width": 20}),
    "rooms-21": ("replay-large-grid", {"height": 21, "width": 21, "layout": "four-rooms"}),
}


def rewards(kind: str, world: GridWorld, seed: int) -> np.ndarray:
    """[64, S]: two 4 x 4 boxes, one cell, three cells, or 16 cells with random rewards."""
    rng = np.random.default_rng([seed, len(kind)])
    free, found = np.flatnonzero(world.free), np.zeros((NUM_TASKS, world.num_states))
    for reward in found:
        if kind == "boxes":
            cells = reward.reshape(world.height, world.width)
            for _ in range(2):
                row, col = rng.integers(world.height - 3), rng.integers(world.width - 3)
                cells[row : row + 4, col : col + 4] += 1
            reward[~world.free.ravel()] = 0
        elif kind == "goals":
            reward[rng.choice(free)] = 1
        elif kind == "three goals":
            reward[rng.choice(free, 3, replace=False)] = rng.uniform(0.5, 1.5, 3)
        else:
            reward[rng.choice(free, 16, replace=False)] = rng.uniform(0, 1, 16)
    return found


def run_world(
    name: str, seed: int, tasks_seed: int, kept: Path | None, **fields: object
) -> Iterator[dict[str, object]]:
    """Pre-train, then a row for each kind of task."""
    preset, shape = WORLDS[name]
    chosen = {"seed": seed, "evaluate_every": 10**9, **shape, **fields}
    config = configuration.replace(presets.get(preset), env="visr/Grid-v0", **chosen)
    with pretrained(config, kept) as (run, spent):
        agent, world = run.visr, run.world
    assert world is not None
    benchmark, phi = GridBenchmark(config, world), grid_benchmark.features(agent, world)
    kinds = ("boxes", "goals", "three goals", "16 cells")
    for kind in kinds[: 4 if world.num_states < 200 else 2]:
        reward = rewards(kind, world, tasks_seed)
        w = np.stack([benchmark._infer(agent, phi, r) for r in reward])
        policies = {g: grid_benchmark.actions(agent, world, w, gpi=g) for g in (True, False)}
        constant = [np.full_like(policies[True], action) for action in range(4)]
        scores = {g: benchmark._fractions(kind, policy, reward) for g, policy in policies.items()}
        constants = [benchmark._fractions(kind, policy, reward) for policy in constant]
        yield {
            "world": name,
            "seed": seed,
            "tasks": kind,
            "steps": config.training.num_steps,
            "updates": config.replay.num_updates,
            "cpu_seconds": round(spent),
            "mean": round(float(scores[True].mean()), 4),
            "worst": round(float(scores[True].min()), 3),
            "own_policy": round(float(scores[False].mean()), 4),
            "best_constant": round(float(np.max(constants, axis=0).mean()), 3),
        }


def main() -> None:
    """Append one row per world, seed and kind of task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", nargs="+", choices=list(WORLDS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--tuning", action="store_true", help="other tasks, to choose settings by")
    parser.add_argument("--set", nargs="*", default=[], help="settings as name=value")
    parser.add_argument("--runs", type=Path, help="keep the runs in this directory")
    parser.add_argument("--out", type=Path, default=Path("results/replay/grid.csv"))
    chosen = parser.parse_args()
    for seed in chosen.seeds:
        for world in chosen.worlds:
            kept = chosen.runs and chosen.runs / f"{world}-{seed}"
            tasks_seed = 99 if chosen.tuning else 1
            for row in run_world(world, seed, tasks_seed, kept, **settings(chosen.set)):
                append(chosen.out, row)


if __name__ == "__main__":
    main()
