"""The rewarded phase drawn many times on the same weights, with GPI and by w's own policy.

python experiments/draws.py RUN... --draws 10 --out results/draws/minatar.csv

Rows named `50 episodes` are the paper's phase two; `100k steps` uses more episodes of random tasks; `online`
is the paper's online evaluation, whose w is solved again and again on the steps that it made itself;
`online, kept` is the last of these w, kept for whole episodes.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from visr import api
from visr import config as configuration
from visr.evaluation import two_phase
from visr.inference.collect import collect_rewarded
from visr.inference.steps import RewardedSteps
from visr.storage.records.task import Task
from visr.training.online_evaluation import OnlineEvaluation

EPISODES = 30
COLUMNS = ("run", "env", "seed", "steps", "draw", "data", "method", "gpi", "mean", "standard_error")
COLUMNS += ("episodes", "share")


def share_of_smallest(w: np.ndarray, steps: RewardedSteps) -> float:
    """|cosine| of w and the direction in which phi varies least."""
    _, basis = steps.sums().spectrum(centred=False)
    return float(abs(basis[:, 0] @ w))


def drawn(run: api.Run, draw: int, num_episodes: int, num_steps: int) -> Iterator[dict[str, Any]]:
    """Regression and search on one draw of rewarded steps, each acted on with and without GPI."""
    steps = collect_rewarded(
        run.agent, run.config, num_episodes=num_episodes, num_steps=num_steps, seed=1000 + draw
    )
    for task in two_phase.infer_tasks(steps, run.config).values():
        yield from played(run, task, draw, share_of_smallest(task.w, steps))


def played(run: api.Run, task: Task, draw: int, share: float | None) -> Iterator[dict[str, Any]]:
    """The task with GPI and without."""
    for gpi in (True, False):
        found = two_phase.evaluate_task(
            run.agent, run.config, task, num_episodes=EPISODES, gpi=gpi, seed=5000 + draw
        )
        yield {
            "method": task.name.removeprefix("env-"),
            "gpi": int(gpi),
            "mean": found.mean,
            "standard_error": found.standard_error,
            "episodes": EPISODES,
            "share": "" if share is None else round(share, 3),
        }


def online(run: api.Run, draw: int, num_steps: int) -> Iterator[dict[str, Any]]:
    """The online evaluation on weights that stay the same: returns of its second half, then the last w."""
    for gpi in (True, False):
        config = configuration.replace(
            run.config, seed=1000 + draw, num_rewarded_envs=4, gpi=gpi, num_actor_groups=1
        )
        evaluation = OnlineEvaluation(config, run.agent)
        unroll = 4 * config.training.unroll_length
        for step in range(0, num_steps, unroll):
            if step == num_steps // 2 // unroll * unroll:
                evaluation.row()
            evaluation.play(run.agent)
        row = evaluation.row()
        yield {
            "data": "online",
            "method": "regression",
            "gpi": int(gpi),
            "mean": row.get("mean_return", float("nan")),
            "standard_error": "",
            "episodes": int(row.get("num_episodes", 0)),
            "share": "",
        }
        w = evaluation.task()
        if w is not None:
            task = Task("regression", config.env, w.numpy().astype(np.float64))
            kept = list(played(run, task, draw, None))
            yield {"data": "online, kept", **kept[0 if gpi else 1]}


def rows(path: Path, chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every row of one run."""
    run = api.load(path)
    config = run.config
    same = {
        "run": path.name.removesuffix(".safetensors"),
        "env": config.env,
        "seed": config.training.seed,
        "steps": config.training.num_steps,
    }
    for draw in range(chosen.draws):
        for row in drawn(run, draw, 50, 100_000):
            yield {**same, "draw": draw, "data": "50 episodes", **row}
    for draw in range(chosen.long_draws):
        for row in drawn(run, draw, 10**6, 100_000):
            yield {**same, "draw": draw, "data": "100k steps", **row}
    for draw in range(chosen.online_draws):
        for row in online(run, draw, chosen.online_steps):
            yield {**same, "draw": draw, **row}


def main() -> None:
    """Append the rows of every run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--long-draws", type=int, default=0)
    parser.add_argument("--online-draws", type=int, default=0)
    parser.add_argument("--online-steps", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=Path("results/draws/minatar.csv"))
    chosen = parser.parse_args()
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    is_new = not chosen.out.exists()
    with chosen.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if is_new:
            writer.writeheader()
        for path in chosen.runs:
            for row in rows(path, chosen):
                row["mean"] = round(row["mean"], 3)
                if row["standard_error"] not in ("", None):
                    row["standard_error"] = round(row["standard_error"], 3)
                writer.writerow(row)
                file.flush()


if __name__ == "__main__":
    main()
