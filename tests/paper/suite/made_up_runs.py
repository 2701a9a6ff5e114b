"""Run directories with made-up numbers: nothing is trained, because a report only reads files."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from visr import config as configuration
from visr.config import RunConfig
from visr.paper.reproduce import agents
from visr.storage import schema
from visr.storage.files import write_json
from visr.storage.records.two_phase import AdaptedCondition, Condition, TwoPhase
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows

ATARI, MINATAR = ("ALE/Pong-v5", "ALE/Alien-v5"), ("MinAtar/Breakout-v1", "MinAtar/Asterix-v1")
STEPS = 3000
_CONDITIONS = {
    "regression": "env-regression",
    "search": "env-search",
    "unadapted": "@0 (a new task every 40 steps)",
    "trained": "as trained",
    "random": "random policy",
}


def new_run(root: Path, agent: str, env: str, seed: int, **fields: Any) -> RunDir:
    """The directory of an untrained run, where `visr reproduce` would write it."""
    path = root / "runs" / agent / env.replace("/", "-") / f"seed-{seed}"
    chosen = {"num_steps": STEPS, **agents.named(agent).fields, **fields}
    config = configuration.replace(RunConfig(), env=env, seed=seed, **chosen)
    return RunDir.create(path, config)


def condition(name: str, mean: float) -> dict[str, Any]:
    """The arguments of a condition whose episodes score that mean."""
    found = Condition.from_scores(name, [mean - 20, mean, mean + 20], [600, 700, 800], None, None)
    return vars(found)


def play(run: RunDir, **scores: float) -> None:
    """Write training, a curve that rises to the first score, and conditions with these mean scores."""
    config = run.config()
    num_steps = config.training.num_steps
    steps = [max(1, num_steps * i // 10) for i in range(1, 11)]
    append_rows(run.metrics, ["num_steps", "psi_loss"], [[s, 1.0] for s in steps])
    best = next(iter(scores.values()))
    columns = ["num_steps", "num_episodes", "mean_return", "r_squared", "num_rewarded"]
    append_rows(run.online, columns, [[s, 5, best * s / num_steps, 0.1, 3] for s in steps])
    conditions = [Condition(**condition(_CONDITIONS[k], score)) for k, score in scores.items()]
    score_run(run, *conditions, num_rewarded_steps=31_234 if "ALE" in config.env else 99_840)


def score_run(
    run: RunDir, *conditions: Condition, num_rewarded_steps: int, num_rewarded_episodes: int = 50
) -> None:
    """Write phase_two.json."""
    config = run.config()
    record = TwoPhase(
        env=config.env,
        num_steps=config.training.num_steps,
        num_rewarded_steps=num_rewarded_steps,
        num_rewarded_episodes=num_rewarded_episodes,
        num_seen=1234,
        num_trials=3,
        epsilon=0.05,
        clip_rewards=True,
        random_score=None,
        human_score=None,
        conditions=tuple(conditions),
    )
    write_json(run.phase_two, schema.to_dict(record))


def adapted(name: str, mean: float) -> AdaptedCondition:
    """A condition of adapted.json."""
    return AdaptedCondition(**condition(name, mean), num_rewarded_steps=99_840)


def table_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(io.StringIO(path.read_text())))
