"""Pre-train in small environments, collect 100,000 rewarded steps, and score every method by 30 episodes.

    python experiments/small_worlds.py runs/classic --envs CartPole-v1 Acrobot-v1 MountainCar-v0
    python experiments/small_worlds.py runs/minatar --envs MinAtar/Breakout-v1 MinAtar/Asterix-v1

trains the runs that are missing in the directory (a stopped run is resumed), and adds every seed's
scores to results/small_worlds/scores.csv, where rows of other environments and seeds stay.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import visr
from visr.errors import UserError
from visr.evaluation import two_phase

NUM_STEPS = 100_000
COLUMNS: tuple[str, ...] = (
    "env",
    "seed",
    "num_steps",
    "method",
    "mean",
    "standard_error",
    "r_squared",
    "chosen",
)


def trained(path: Path, env: str, seed: int, num_steps: int) -> visr.Run:
    """The finished run of this seed; trained or resumed if necessary."""
    if not path.exists():
        visr.pretrain(env, seed=seed, num_steps=num_steps, out=path)
    return visr.resume(path)


def scored(run: visr.Run, seed: int) -> list[dict[str, Any]]:
    """Each method's w, @0 and random actions: 30 episodes each, on the same 100,000 rewarded steps."""
    rows: list[dict[str, Any]] = []
    tasks, r_squared, best = {}, {}, ""
    try:
        found = run.compare("env", num_episodes=NUM_STEPS, num_steps=NUM_STEPS, seed=seed)
        best = found.best
        for method, answer in found.estimates.items():
            tasks[method] = run.task_of(found, method, "env")
            r_squared[method] = f"{answer.r_squared:.4f}"
    except UserError as error:
        print(run.config.env, seed, error, flush=True)
    for score in two_phase.evaluate(run.agent, run.config, tasks, seed=seed + 1):
        rows.append(
            {
                "env": run.config.env,
                "seed": run.config.training.seed,
                "num_steps": run.num_steps,
                "method": score.name,
                "mean": f"{score.mean:.4f}",
                "standard_error": f"{score.standard_error:.4f}",
                "r_squared": r_squared.get(score.name, ""),
                "chosen": int(score.name == best),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--envs", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--num-steps", type=int, default=2_000_000)
    parser.add_argument("--out", type=Path, default=Path("results/small_worlds/scores.csv"))
    options = parser.parse_args()
    for seed in options.seeds:
        for env in options.envs:
            path = options.directory / f"{env.replace('/', '-')}-{seed}"
            rows = scored(trained(path, env, seed, options.num_steps), seed)
            for row in rows:
                print(*row.values(), flush=True)
            write_rows(options.out, rows)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Replace older rows of the same environment and seed."""
    mine = (rows[0]["env"], str(rows[0]["seed"]))
    others = []
    if path.exists():
        with open(path, newline="", encoding="utf-8") as file:
            others = [row for row in csv.DictReader(file) if (row["env"], row["seed"]) != mine]
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted([*others, *rows], key=lambda row: (row["env"], str(row["seed"]))))


if __name__ == "__main__":
    main()
