"""Instant policies of the replay learner on MinAtar: 100,000 rewarded steps, 30 episodes, no weight change.

python experiments/replay_minatar.py Breakout Asterix --seeds 0 --out results/replay/minatar.csv
"""

import argparse
from pathlib import Path

from replay_runs import append, infer_env, pretrained, settings

from visr import config as configuration
from visr.config import presets
from visr.evaluation import episodes
from visr.inference.asked_reward import asked_reward


def run_game(game: str, seed: int, kept: Path | None, **fields: object) -> dict[str, object]:
    """Pre-train, infer the game's own reward, play."""
    config = configuration.replace(
        presets.get("replay-minatar"), env=f"MinAtar/{game}-v1", seed=seed, **fields
    )
    with pretrained(config, kept) as (run, spent):
        task = infer_env(run, 100_000, seed)
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
            "r_squared": round(task.r_squared, 3),
            "method": task.method,
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
    parser.add_argument("--set", nargs="*", default=[], help="settings as name=value")
    parser.add_argument("--runs", type=Path, help="keep the runs in this directory")
    parser.add_argument("--out", type=Path, default=Path("results/replay/minatar.csv"))
    chosen = parser.parse_args()
    for seed in chosen.seeds:
        for game in chosen.games:
            kept = chosen.runs and chosen.runs / f"{game}-{seed}"
            append(chosen.out, run_game(game, seed, kept, **settings(chosen.set)))


if __name__ == "__main__":
    main()
