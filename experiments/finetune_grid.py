"""Compare fine-tuning with the same learner from scratch on the grid: exact fractions of optimal over steps.

    python experiments/finetune_grid.py pretrained:grid --num-tasks 10 --num-steps 100000
    python experiments/finetune_grid.py pretrained:grid --num-tasks 10 --num-steps 20000 --free-steps 100000

takes the first tasks of the families boxes and goals, infers each from its cells, trains from psi and from
scratch on the same number of rewarded steps, and writes results/grid/tables/finetune.csv. With
--free-steps a new Q also learns from that many reward-free steps.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

import visr
from visr import envs
from visr.config import FinetuneConfig
from visr.evaluation.grid_benchmark import GridBenchmark
from visr.finetuning import run as finetuning
from visr.finetuning.trainer import FineTuner
from visr.inference.asked_reward import asked_reward
from visr.storage.tables import append_rows

RELABELLING = {"learning_rate": 1e-3, "sweep_steps": 2_000, "free_updates": 3_000}
AT = (0, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
COLUMNS = ["run", "family", "task", "seed", "from_scratch", "free_steps", "num_steps"]
COLUMNS += ["fraction_of_optimal"]


def curve(run: visr.Run, task: visr.Task, settings: FinetuneConfig) -> Iterator[tuple[int, float]]:
    """(steps, fraction) at the steps of `AT`: w's own policy, for the task's true reward."""
    agent = finetuning.initial_agent(run.visr, run.config, settings)
    asked = asked_reward(task, run.visr, envs.space_codec(run.config))
    tuner = FineTuner(agent, run.config, settings, task.w, task.w[None], asked, run.visr)
    for at in [at for at in AT if at <= settings.num_steps]:
        while tuner.num_steps < at or tuner.note:
            tuner.round()
        yield at, finetuning.evaluate(tuner.agent, run.config, task).fraction_of_optimal
        tuner.agent.psi.requires_grad_(True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--name", help="name of the run in the file")
    parser.add_argument("--families", nargs="+", default=["boxes", "goals"])
    parser.add_argument("--num-tasks", type=int, default=10)
    parser.add_argument("--num-steps", type=int, default=100_000)
    parser.add_argument("--free-steps", type=int, default=0)
    parser.add_argument("--updates-per-round", type=int, default=FinetuneConfig.updates_per_round)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/grid/tables/finetune.csv"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = visr.load(options.run)
    benchmark = GridBenchmark.for_environment(run.config)
    assert benchmark is not None
    rewards = benchmark.families
    for family in options.families:
        for i, reward in enumerate(rewards[family][: options.num_tasks]):
            for from_scratch in (True,) if options.free_steps else (False, True):
                settings = FinetuneConfig(
                    num_steps=options.num_steps,
                    from_scratch=from_scratch,
                    updates_per_round=options.updates_per_round,
                    seed=options.seed,
                    **(RELABELLING if options.free_steps else {}),
                    free_steps=options.free_steps,
                )
                row = [options.name or options.run, family, i, options.seed]
                row += [int(from_scratch), options.free_steps]
                points = curve(run, run.infer(reward), settings)
                append_rows(options.out, COLUMNS, [[*row, at, round(f, 4)] for at, f in points])
    print_means(options.out)


def print_means(path: Path) -> None:
    """Print the mean and standard error of every condition in the file."""
    cells: dict[tuple[str, ...], list[float]] = defaultdict(list)
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = (row["run"], row["family"], row["from_scratch"], row["free_steps"])
            key += (row["num_steps"],)
            cells[key].append(float(row["fraction_of_optimal"]))
    for key, values in cells.items():
        error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
        print(*key, f"{np.mean(values):.3f} ± {error:.3f} ({len(values)} tasks)")


if __name__ == "__main__":
    main()
