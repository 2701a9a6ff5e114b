"""Instant policies of the replay learner on MinAtar: 100,000 rewarded steps, 30 episodes, no weight change.

python experiments/replay_minatar.py Breakout Asterix --seeds 0 --out results/replay/minatar.csv
"""

import argparse
import csv
import tempfile
import time
from pathlib import Path

import torch

import visr
from visr import config as configuration
from visr import pretraining
from visr.config import presets
from visr.evaluation import episodes
from visr.inference import regression
from visr.inference.asked_reward import asked_reward

COLUMNS = (
    *("game", "seed", "steps", "updates", "cpu_seconds", "events", "r_squared", "method"),
    *("score", "standard_error", "own_policy", "random", "best_constant"),
)


def run_game(game: str, seed: int, **fields: object) -> dict[str, object]:
    """Pre-train, infer the game's own reward, play."""
    config = configuration.replace(
        presets.get("replay-minatar"), env=f"MinAtar/{game}-v1", seed=seed, **fields
    )
    with tempfile.TemporaryDirectory() as place:
        began = time.process_time()
        run = visr.load(pretraining.start(Path(place) / "run", config).path)
        spent = time.process_time() - began
        torch.set_num_threads(1)
        steps = run.collect_rewarded(num_episodes=10**6, num_steps=100_000, seed=seed + 1)
        compared = regression.estimate(steps.clipped())
        fits = [name for name in compared.estimates if "search" not in name]
        best = max(fits, key=lambda name: compared.validations[name].r_squared)
        task = run.task_of(compared, best, "env")
        asked = asked_reward(task, run.agent, run._codec)
        played = episodes.evaluate(run.agent, run.config, task, asked, num_episodes=30, seed=seed)
        own = run.evaluate_task(task, num_episodes=30, gpi=False, seed=seed)
        others = [round(policy.asked.mean, 2) for policy in played.policies[1:]]
        return {
            "game": game,
            "seed": seed,
            "steps": config.training.num_steps,
            "updates": config.replay.num_updates,
            "cpu_seconds": round(spent),
            "events": run.agent.chi.num_used,  # pyright: ignore
            "r_squared": round(compared.validations[best].r_squared, 3),
            "method": best,
            "score": round(played.asked.mean, 2),
            "standard_error": round(played.asked.standard_error, 2),
            "own_policy": round(own.mean, 2),
            "random": others[0],
            "best_constant": others[1],
        }


def main() -> None:
    """Append one row per game and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("games", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, default=Path("results/replay/minatar.csv"))
    chosen = parser.parse_args()
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in chosen.seeds:
        for game in chosen.games:
            row = run_game(game, seed)
            print(row, flush=True)
            is_new = not chosen.out.exists()
            with chosen.out.open("a", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                if is_new:
                    writer.writeheader()
                writer.writerow(row)


if __name__ == "__main__":
    main()
