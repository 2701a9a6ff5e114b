"""Scores and model errors of SimPLe beside other agents with as many real steps, from the runs of a plan.

Rows of other runs that the table already has are kept.

visr reproduce minatar --only simple-100k ppo-100k dqn-100k --seeds 0 1 --out runs/simple
python experiments/simple_minatar.py runs/simple --out results/simple/minatar.csv
"""

import argparse
import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from visr.report.read import run_data

_MODEL = ("plane_accuracy", "copy_accuracy", "object_accuracy", "changed_accuracy")
_REWARD = ("reward_error", "reward_found", "end_error")
_HORIZONS = (1, 5, 10, 25, 50)


def row(path: Path) -> dict[str, object] | None:
    """One scored run, or None: the newest model's accuracies, and objects in the wrong place by horizon."""
    run = run_data(path)
    if run.two_phase is None:
        return None
    trained, random = run.two_phase.conditions
    found: dict[str, object] = {
        "game": run.config.env.removeprefix("MinAtar/").removesuffix("-v1"),
        "agent": run.config.agent.algorithm,
        "seed": run.config.training.seed,
        "real_steps": run.config.training.num_steps,
        "score": round(trained.mean, 2),
        "standard_error": round(trained.standard_error or 0.0, 2),
        "random": round(random.mean, 2),
    }
    for name in ("model_updates", "simulated_steps", *_MODEL, *_REWARD):
        known = run.metrics.get(name)
        found[name] = "" if known is None else f"{known[-1]:.6g}"
    wrong = np.zeros(0) if run.imagined is None else 1 - run.imagined.overlap
    for horizon in _HORIZONS:
        found[f"wrong_after_{horizon}"] = f"{wrong[horizon - 1]:.4g}" if len(wrong) else ""
    return found


def main() -> None:
    """Write one row per scored run, by agent, game and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/simple/minatar.csv"))
    chosen = parser.parse_args()
    paths = sorted(path.parent for path in chosen.plan.glob("runs/*/*/*/config.json"))
    rows: dict[tuple[str, ...], dict[str, object]] = {}
    if chosen.out.exists():
        with chosen.out.open(newline="") as file:
            rows = {_key(kept): dict(kept) for kept in csv.DictReader(file)}
    rows |= {_key(found): found for path in paths if (found := row(path)) is not None}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    with chosen.out.open("w", newline="") as file:
        table = csv.DictWriter(file, list(next(iter(rows.values()))), lineterminator="\n")
        table.writeheader()
        table.writerows(rows[key] for key in sorted(rows, key=_order))


def _key(found: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(str(found[name]) for name in ("agent", "game", "seed"))


def _order(key: tuple[str, ...]) -> tuple[object, ...]:
    agent, game, seed = key
    return agent != "simple", agent, game, int(seed)


if __name__ == "__main__":
    main()
