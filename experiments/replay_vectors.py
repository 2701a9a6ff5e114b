"""Instant policies of the replay learner on CartPole, Acrobot and MountainCar, without a weight change.

python experiments/replay_vectors.py CartPole-v1 Acrobot-v1 MountainCar-v0 --seeds 0 1 2 3 4
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from replay_runs import append, pretrained, settings

from visr import config as configuration
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


def run_env(
    env: str,
    seed: int,
    rewards: tuple[str, ...],
    episodes: int,
    kept: Path | None,
    **fields: object,
) -> Iterator[dict[str, object]]:
    """Pre-train, then a row for each reward."""
    config = configuration.replace(presets.get("replay-vectors"), env=env, seed=seed, **fields)
    with pretrained(config, kept) as (run, spent):
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
    parser.add_argument("--runs", type=Path, help="keep the runs in this directory")
    parser.add_argument("--out", type=Path, default=Path("results/replay/vectors.csv"))
    chosen = parser.parse_args()
    for seed in chosen.seeds:
        for env in chosen.envs:
            kept = chosen.runs and chosen.runs / f"{env}-{seed}"
            rewards = (TUNING if chosen.tuning else REWARDS)[env]
            fields = settings(chosen.set)
            for row in run_env(env, seed, rewards, chosen.episodes, kept, **fields):
                append(chosen.out, row)


if __name__ == "__main__":
    main()
