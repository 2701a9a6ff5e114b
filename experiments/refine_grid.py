"""Instant and refined policies on grid worlds: exact fractions of optimal on unseen tasks.

python experiments/refine_grid.py open-10 rooms-11 --seeds 0 1 2
"""

import argparse
import time
from pathlib import Path

import numpy as np
from replay_grid import WORLDS, rewards
from replay_runs import append, pretrained

from visr import config as configuration
from visr.config import presets

KINDS = ("boxes", "goals", "three goals", "16 cells")


def run_world(name: str, seed: int, kept: Path | None, out: Path) -> None:
    """Pre-train; then infer and refine every task until done, and append a row for each kind."""
    preset, shape = WORLDS[name]
    chosen = {"seed": seed, "evaluate_every": 10**9, **shape}
    config = configuration.replace(presets.get(preset), env="visr/Grid-v0", **chosen)
    with pretrained(config, kept) as (run, _):
        assert run.world is not None
        steps = len(run.offline_steps)
        for kind in KINDS:
            found, cost = [], []
            for reward in rewards(kind, run.world, 1):
                instant = run.infer(reward.reshape(run.world.height, -1))
                began = time.process_time()
                refined = run.refine(instant, until_done=True, seed=seed)
                cost.append(time.process_time() - began)
                tasks = (instant, refined)
                found.append([run.evaluate_exactly(t).fraction_of_optimal for t in tasks])
            fractions = np.array(found)
            row = {"world": name, "seed": seed, "tasks": kind, "recorded_steps": steps}
            row["updates"] = config.replay.num_updates
            for column, policy in enumerate(("instant", "refined")):
                row[policy] = round(float(fractions[:, column].mean()), 4)
                row[f"{policy}_worst"] = round(float(fractions[:, column].min()), 4)
            row["made_worse"] = int((fractions[:, 1] < fractions[:, 0] - 1e-6).sum())
            row["cpu_seconds"] = round(float(np.mean(cost)), 2)
            row["cpu_seconds_most"] = round(max(cost), 2)
            append(out, row)


def main() -> None:
    """Append one row per world, seed and kind of task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", nargs="+", choices=list(WORLDS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--runs", type=Path, help="keep the runs in this directory")
    parser.add_argument("--out", type=Path, default=Path("results/refine/grid.csv"))
    chosen = parser.parse_args()
    for seed in chosen.seeds:
        for world in chosen.worlds:
            kept = chosen.runs and chosen.runs / f"{world}-{seed}"
            run_world(world, seed, kept, chosen.out)


if __name__ == "__main__":
    main()
