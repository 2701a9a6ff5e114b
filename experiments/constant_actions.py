"""Score the best constant action of the environments whose results pages have no run to ask.

    python experiments/constant_actions.py results/atari/visr/*/seed-0/config.json
    python experiments/constant_actions.py CartPole-v1 Acrobot-v1 MountainCar-v0

An argument is an environment or a file with a run's settings. Every action is repeated for 3 episodes;
the best one is played for 30 others. The rows of these environments in results/constant_actions.csv
are replaced.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from visr import envs
from visr.config import RunConfig
from visr.config.load import from_dict
from visr.envs.episodes import TaskSchedule
from visr.evaluation import two_phase
from visr.evaluation.episodes import ConstantActor
from visr.storage import files
from visr.storage.records.two_phase import Condition

TABLE = Path("results/constant_actions.csv")
COLUMNS: tuple[str, ...] = ("env", "action", "num_episodes", "mean", "standard_error")
FEW, MANY = 3, 30


def settings(name: str) -> RunConfig:
    """Those of a config.json, or of an environment by itself."""
    if name.endswith(".json"):
        return from_dict(files.read_json(Path(name))["config"], allow_retired=True)
    return RunConfig(env=name)


def play(config: RunConfig, action: int, num_episodes: int, seed: int) -> Condition:
    """Episodes in which this action is repeated."""
    env = envs.make_vec(config, min(10, num_episodes))
    schedule = TaskSchedule(lambda: np.zeros(1, dtype=np.float32))
    actor = ConstantActor(action, env.num_envs, 1)
    found = two_phase.score(actor, env, config, str(action), schedule, num_episodes, seed)
    env.close()
    return found


def best(config: RunConfig) -> dict[str, str]:
    """The row of one environment."""
    names = envs.space_codec(config).action_names
    means = [play(config, action, FEW, 1_001).mean for action in range(len(names))]
    chosen = int(np.argmax(means))
    found = play(config, chosen, MANY, 1)
    scores = (f"{found.mean:.4f}", f"{found.standard_error:.4f}")
    return dict(zip(COLUMNS, (config.env, str(names[chosen]), str(MANY), *scores), strict=True))


def main(names: list[str]) -> None:
    rows: dict[str, dict[str, str]] = {}
    if TABLE.exists():
        with TABLE.open(newline="") as file:
            rows = {row["env"]: row for row in csv.DictReader(file)}
    for name in names:
        row = best(settings(name))
        rows[row["env"]] = row
        print(*row.values(), flush=True)
        with TABLE.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[env] for env in sorted(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
