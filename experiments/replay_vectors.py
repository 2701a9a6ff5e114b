"""Instant policies of the replay learner on CartPole, Acrobot and MountainCar, without a weight change.

python experiments/replay_vectors.py CartPole-v1 Acrobot-v1 MountainCar-v0 --seeds 0 1 2 3 4
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

REWARDS = {
    "CartPole-v1": ("env", "x0 > 0.5", "x0 > -2 and x0 < -1", "abs(x1) > 0.5"),
    "MountainCar-v0": ("env", "x1 > 0.03", "x0 < -0.9", "x0 > 0.1 and x0 < 0.45"),
    "Acrobot-v1": ("env", "-x0 - x0*x2 + x1*x3 > 0.5", "x4 > 2", "x1 > 0.8"),
}
TUNING = {
    "CartPole-v1": ("env", "x0 < -0.7", "x0 > 1 and x0 < 2", "x1 > 0.3"),
    "MountainCar-v0": ("env", "x1 < -0.03", "x0 < -0.8", "x0 > 0 and x0 < 0.4"),
    "Acrobot-v1": ("env", "-x0 - x0*x2 + x1*x3 > 0.8", "x4 < -2", "x1 < -0.8"),
}
"""Rewards to choose settings by; they are not scored."""
COLUMNS = (
    *("env", "seed", "reward", "steps", "updates", "cpu_seconds", "r_squared", "method"),
    *("score", "standard_error", "own_policy", "random", "best_constant"),
)


def run_env(env: str, seed: int, rewards: tuple[str, ...], episodes: int, **fields: object):
    """Pre-train, then a row for each reward."""
    config = configuration.replace(presets.get("replay-vectors"), env=env, seed=seed, **fields)
    with tempfile.TemporaryDirectory() as place:
        began = time.process_time()
        run = visr.load(pretraining.start(Path(place) / "run", config).path)
        spent = time.process_time() - began
        torch.set_num_threads(1)
        for reward in rewards:
            compared = run.compare(reward)
            prompt = run.inference.prompt(reward=reward)
            task = run.inference.to_task(prompt, compared, "best")
            played = run.evaluate_episodes(task, num_episodes=episodes, seed=seed)
            own = run.evaluate_episodes(
                task, num_episodes=episodes, seed=seed, gpi=False, compare=False
            )
            others = [round(policy.asked.mean, 2) for policy in played.policies[1:]]
            yield {
                "env": env,
                "seed": seed,
                "reward": reward,
                "steps": config.training.num_steps,
                "updates": config.replay.num_updates,
                "cpu_seconds": round(spent),
                "r_squared": round(compared.validations[compared.best].r_squared, 3),
                "method": compared.best,
                "score": round(played.asked.mean, 2),
                "standard_error": round(played.asked.standard_error, 2),
                "own_policy": round(own.asked.mean, 2),
                "random": others[0],
                "best_constant": others[1],
            }


def main() -> None:
    """Append one row per environment, seed and reward."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("envs", nargs="+", choices=list(REWARDS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--tuning", action="store_true", help="the rewards to choose settings by")
    parser.add_argument("--set", nargs="*", default=[], help="settings as name=value")
    parser.add_argument("--out", type=Path, default=Path("results/replay/vectors.csv"))
    chosen = parser.parse_args()
    fields = {k: float(v) if "." in v else int(v) for k, v in (s.split("=") for s in chosen.set)}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in chosen.seeds:
        for env in chosen.envs:
            rewards = (TUNING if chosen.tuning else REWARDS)[env]
            for row in run_env(env, seed, rewards, chosen.episodes, **fields):
                print(row, flush=True)
                is_new = not chosen.out.exists()
                with chosen.out.open("a", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                    if is_new:
                        writer.writeheader()
                    writer.writerow(row)


if __name__ == "__main__":
    main()
