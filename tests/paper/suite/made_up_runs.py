"""Run directories as `visr reproduce atari` leaves them, with made-up scores."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from visr import atari_games
from visr import config as configuration
from visr.atari_games import Game
from visr.config import RunConfig
from visr.storage.run_dir import FORMAT, RunDir

AGENTS: dict[str, dict[str, Any]] = {
    "visr": {},
    "visr-no-gpi": {"gpi": False},
    "rf-visr": {"features": "random"},
    "rf-visr-no-gpi": {"features": "random", "gpi": False},
    "nsq-10m": {},
    "diayn-5": {},
}
_STEPS = 2_000_000
_ROWS = 150  # of online.csv and metrics.csv
_SKILL = {"visr": 1.3, "visr-no-gpi": 1.1, "nsq-10m": 0.8, "diayn-5": 0.3}


def make_runs(root: Path, num_runs: int, num_steps: int = _STEPS) -> list[Path]:
    """One run for each seed, game and agent, in this order, until there are `num_runs`."""
    every = itertools.product(range(num_runs), atari_games.all_games(), AGENTS)
    made = []
    for seed, game, agent in itertools.islice(every, num_runs):
        path = root / "runs" / agent / game.id.replace("/", "-") / f"seed-{seed}"
        _make_run(path, agent, game, seed, num_steps)
        made.append(path)
    return made


def _make_run(path: Path, agent: str, game: Game, seed: int, num_steps: int) -> None:
    path.mkdir(parents=True)
    run, fields = RunDir(path), AGENTS[agent]
    config = configuration.replace(
        RunConfig(), env=game.id, seed=seed, num_steps=num_steps, **fields
    )
    job = {"format": 1, "suite": "atari", "agent": agent, "game": game.id, "seed": seed}
    random = np.random.default_rng([seed, *game.name.encode(), *agent.encode()])
    content = {"format": FORMAT, "config": configuration.to_dict(config)}
    run.config_file.write_text(json.dumps(content, indent=2) + "\n")
    run.job.write_text(json.dumps(job) + "\n")
    ease = np.random.default_rng([*game.name.encode()]).lognormal(-2.5, 1.6)
    level = _SKILL.get(agent, 0.6) * ease
    run.phase_two.write_text(json.dumps(_phase(agent, game, level, random, num_steps)) + "\n")
    steps = np.linspace(0, num_steps, _ROWS + 1)[1:].astype(int).tolist()
    rising = level * (1 - np.exp(-3 * np.arange(1, _ROWS + 1) / _ROWS))
    returns = game.random + (game.human - game.random) * rising * random.lognormal(0, 0.3, _ROWS)
    online = [
        f"{step},{random.integers(1, 9)},{x!r},0.01,{i}.0"
        for i, (step, x) in enumerate(zip(steps, returns.tolist(), strict=True))
    ]
    _write(run.online, "num_steps,num_episodes,mean_return,r_squared,num_rewarded", online)
    losses = random.lognormal(2, 0.1, _ROWS).tolist()
    metrics = [f"{s},{s // 320},0.1,0.2,{x!r}" for s, x in zip(steps, losses, strict=True)]
    names = "num_steps,num_updates,feature_concentration,intrinsic_reward,psi_loss"
    _write(run.metrics, names, metrics)


def _write(path: Path, header: str, lines: list[str]) -> None:
    path.write_text("\n".join([header, *lines, ""]))


def _phase(
    agent: str, game: Game, level: float, random: np.random.Generator, num_steps: int
) -> dict[str, Any]:
    """Content of phase_two.json; the first condition is the agent's own score."""
    levels = {"as trained": level}
    if "visr" in agent:
        levels = {"env-regression": level, "env-search": 0.7 * level}
    if "diayn" in agent:
        levels = {"env-search": level}
    if "as trained" not in levels:
        levels["@0 (a new task every 40 steps)"] = 0.4 * level
    levels["random policy"] = 0.0
    return {
        "format": 1, "env": game.id, "num_steps": num_steps, "num_rewarded_steps": 100_000,
        "num_rewarded_episodes": 50, "num_seen": 1000, "num_trials": 30, "epsilon": 0.05,
        "clip_rewards": True, "random_score": game.random, "human_score": game.human,
        "conditions": [_condition(name, game, x, random) for name, x in levels.items()],
    }  # fmt: skip


def _condition(name: str, game: Game, level: float, random: np.random.Generator) -> dict[str, Any]:
    typical = level * random.lognormal(0, 0.35) + random.normal(0, 0.004)
    scores = game.random + (game.human - game.random) * (typical + random.normal(0, 0.02, 30))
    mean = float(scores.mean())
    return {
        "name": name, "mean": mean, "standard_error": float(scores.std(ddof=1) / np.sqrt(30)),
        "human_normalised": atari_games.human_normalised(mean, game), "at_75": None, "at_100": None,
        "r_squared": None, "scores": scores.tolist(), "num_steps": [500] * 30,
    }  # fmt: skip
