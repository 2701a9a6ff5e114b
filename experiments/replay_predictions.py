"""Does the predicted value of a policy tell the true one?  python experiments/replay_predictions.py

For the open grid and four rooms: 20,000 steps of random actions, the replay learner on them, then rewards
that it has never seen, of five kinds. The prediction uses 8,000 of the recorded steps; the truth is exact.
Few updates leave policies of very different quality, which a prediction has to tell apart.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import visr
from visr.envs.episodes import EpisodeSteps
from visr.envs.grid.world import GridWorld
from visr.inference import policy_prediction

GRIDS = {
    "open": {"height": 10, "width": 10},
    "four-rooms": {"height": 11, "width": 11, "layout": "four-rooms"},
}
CELLS = {"goal": 1, "three goals": 3, "16 random cells": 16}
NUM_STEPS, PREDICTED_FROM = 20_000, 8_000


def random_steps(world: GridWorld, rng: np.random.Generator) -> dict[str, NDArray]:
    """Random walks of 40 steps each, from random cells."""
    cells = np.flatnonzero(world.free)
    here, rows = 0, []
    for step in range(NUM_STEPS):
        here = int(rng.choice(cells)) if step % 40 == 0 else here
        action = int(rng.integers(world.transitions.shape[1]))
        after = int(world.transitions[here, action])
        rows.append((here, action, after, step // 40))
        here = after
    names = ("observations", "actions", "next_observations", "episodes")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def rewards(
    world: GridWorld, count: int, rng: np.random.Generator
) -> Iterator[tuple[str, NDArray]]:
    """(kind, reward [S]) of `count` tasks of each kind."""
    cells = np.flatnonzero(world.free)
    for _ in range(count):
        boxes = np.zeros((world.height, world.width))
        for sign in (1, 1):
            row, column = rng.integers(world.height - 3), rng.integers(world.width - 3)
            boxes[row : row + 4, column : column + 4] = sign
        yield "two boxes", np.where(world.free, boxes.ravel(), 0.0)
        for kind, number in CELLS.items():
            reward = np.zeros(world.num_states)
            reward[rng.choice(cells, number, replace=False)] = 1.0
            yield kind, reward
        reward = np.zeros(world.num_states)
        reward[cells] = rng.normal(size=len(cells))
        yield "Gaussian", reward


def compare(layout: str, num_updates: int, count: int, seed: int) -> Iterator[dict[str, object]]:
    """One row for each task: predicted and true fraction."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as place:
        data, fields = Path(place) / "steps.npz", {**GRIDS[layout], "num_updates": num_updates}
        world = GridWorld.four_rooms(11, 11) if layout == "four-rooms" else GridWorld(10, 10)
        recorded = random_steps(world, rng)
        np.savez(data, **recorded)
        run = visr.pretrain(
            "visr/Grid-v0", dataset=data, out=Path(place) / "run", seed=seed, **fields
        )
        kept = rng.permutation(NUM_STEPS)[:PREDICTED_FROM]
        here, action, after, _ = (column[kept] for column in recorded.values())
        steps = EpisodeSteps(np.arange(len(kept)), here, action, after, np.zeros(len(kept)))
        for kind, reward in rewards(world, count, rng):
            task = run.infer(reward.reshape(world.height, world.width))
            true = run.evaluate(task).fraction_of_optimal  # pyright: ignore
            predicted = policy_prediction.predict(run.visr, task.w, steps, reward[after], gpi=True)
            fraction = predicted.fraction_of_best
            yield {
                "layout": layout,
                "num_updates": num_updates,
                "seed": seed,
                "kind": kind,
                "predicted": f"{fraction:.4f}",
                "true": f"{true:.4f}",
            }


def main() -> None:
    """Write the table and print the correlations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, nargs="+", default=[150])
    parser.add_argument("--tasks", type=int, default=3, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="results/replay/predictions.csv")
    chosen = parser.parse_args()
    rows = []
    for layout in GRIDS:
        for num_updates in chosen.updates:
            rows += compare(layout, num_updates, chosen.tasks, chosen.seed)
            with open(chosen.out, "w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
            pairs = np.array([(float(r["predicted"]), float(r["true"])) for r in rows])
            error = np.abs(pairs[:, 0] - pairs[:, 1]).mean()
            correlation = np.corrcoef(pairs.T)[0, 1]
            print(
                f"{len(rows)} tasks: correlation {correlation:.3f}, mean error {error:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
