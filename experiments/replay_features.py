"""All features of a step on the same settings and seed: one row for each environment and kind, in a CSV file.

python experiments/replay_features.py grid rooms cartpole breakout --seeds 0 --share 0.5
`--share` scales the steps and updates of the presets; `--tune` asks for other tasks than the scored ones.
"""

import argparse
import csv
import tempfile
import time
from pathlib import Path

import numpy as np

import visr
from visr import config as configuration
from visr import pretraining
from visr.config import RunConfig, presets
from visr.evaluation.grid_benchmark import GridBenchmark
from visr.inference import grid_rewards

LEARNED = ("phi", "laplacian", "inverse", "self-predictive", "fb")
KINDS = {
    "grid": ("projection", *LEARNED),
    "rooms": ("projection", *LEARNED),
    "cartpole": ("projection", *LEARNED),
    "breakout": ("events", "pooled", *LEARNED),
}
PRESETS = {
    "grid": ("replay-grid", "visr/Grid-v0", {}),
    "rooms": (
        "replay-grid",
        "visr/Grid-v0",
        {"layout": "four-rooms", "height": 11, "width": 11},
    ),
    "cartpole": ("replay-vectors", "CartPole-v1", {}),
    "breakout": ("replay-minatar", "MinAtar/Breakout-v1", {}),
}
ASKED = {"cartpole": ("env", "x0 > 0.5", "abs(x1) > 0.5"), "breakout": ("env",)}
TUNED = {"cartpole": ("env", "x0 < -0.5", "x3 > 0.3"), "breakout": ("env",)}
"""Rewards to choose settings by; the environments' own are scored as well, on another seed."""
COLUMNS = (
    *("environment", "features", "seed", "num_features", "steps", "updates", "feature_updates"),
    *("cpu_seconds", "asked", "score", "own_policy", "standard_error", "r_squared"),
)
Rows = list[dict[str, object]]


def configured(name: str, kind: str, seed: int, share: float, fields: dict[str, str]) -> RunConfig:
    """The preset of an environment, with these features and a share of its steps and updates."""
    preset, env, more = PRESETS[name]
    base = configuration.replace(presets.get(preset), env=env, seed=seed, **more)
    chosen = {"algorithm": "fb"} if kind == "fb" else {"transition_features": kind}
    counts = {
        "num_steps": round(base.training.num_steps * share),
        "num_updates": round(base.replay.num_updates * share),
        "warmup_steps": round(base.replay.warmup_steps * share),
        "evaluate_every": 10**9,
        "checkpoint_every": 10**9,
    }
    given = {key: float(x) if "." in x else int(x) for key, x in fields.items()}
    return configuration.replace(base, **chosen, **counts, **given)


def scores_of_grid(run: visr.Run, seed: int, is_tuning: bool) -> Rows:
    """Mean fraction of optimal over 50 pairs of boxes and 50 goals."""
    benchmark = GridBenchmark.for_environment(run.config)
    assert benchmark is not None
    if is_tuning:
        for name in ("boxes", "goals"):
            rewards = grid_rewards.family(name, benchmark.world, seed=7)
            benchmark.families[name] = rewards
    found = benchmark.scores(run.agent)
    return [
        {"asked": name, "score": found[f"{name}_gpi"], "own_policy": found[name]}
        for name in ("boxes", "goals")
    ]


def scores_of_episodes(run: visr.Run, seed: int, rewards: tuple[str, ...]) -> Rows:
    """Mean asked returns of 30 episodes, and the held-out R^2 of each reward."""
    rows: Rows = []
    for reward in rewards:
        settings = {"num_episodes": 10**6, "num_steps": 50_000, "seed": seed + 1}
        compared = run.compare(reward, **(settings if reward == "env" else {}))
        fits = [name for name in compared.estimates if "search" not in name]
        best = compared.best if compared.best in fits else fits[0]
        if compared.validations and compared.best not in fits:
            best = max(fits, key=lambda name: compared.validations[name].r_squared)
        prompt = run.inference.prompt(reward=reward)
        task = run.inference.to_task(prompt, compared, best)
        row: dict[str, object] = {"asked": reward}
        for column, gpi in (("score", True), ("own_policy", False)):
            played = run.evaluate_episodes(task, gpi=gpi, num_episodes=30, seed=seed).asked
            row[column] = played.mean
            if gpi:
                row["standard_error"] = played.standard_error
        if best in compared.validations:
            row["r_squared"] = compared.validations[best].r_squared
        rows.append(row)
    return rows


def cell(name: str, kind: str, seed: int, share: float, is_tuning: bool, fields: dict) -> Rows:
    """Pre-train, ask, score."""
    config = configured(name, kind, seed, share, fields)
    with tempfile.TemporaryDirectory() as place:
        began = time.process_time()
        run = visr.load(pretraining.start(Path(place) / "run", config).path)
        spent = round(time.process_time() - began)
        if name in ("grid", "rooms"):
            rows = scores_of_grid(run, seed, is_tuning)
        else:
            rows = scores_of_episodes(run, seed, (TUNED if is_tuning else ASKED)[name])
    about = {
        "environment": name,
        "features": kind,
        "seed": seed,
        "num_features": config.agent.num_features,
        "steps": config.training.num_steps,
        "updates": config.replay.num_updates,
        "feature_updates": config.replay.feature_updates,
        "cpu_seconds": spent,
    }
    return [{**about, **{k: _rounded(v) for k, v in row.items()}} for row in rows]


def _rounded(x: object) -> object:
    return round(x, 3) if isinstance(x, float) else x


def main() -> None:
    """Append the rows of every cell as soon as it is done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environments", nargs="+", choices=tuple(KINDS))
    parser.add_argument("--kinds", nargs="+", default=None)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=NUMBER")
    parser.add_argument("--out", type=Path, default=Path("results/replay/features.csv"))
    chosen = parser.parse_args()
    fields = dict(text.split("=", 1) for text in chosen.set)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in chosen.seeds:
        for name in chosen.environments:
            for kind in chosen.kinds or KINDS[name]:
                rows = cell(name, kind, seed, chosen.share, chosen.tune, fields)
                for row in rows:
                    print(row, flush=True)
                is_new = not chosen.out.exists()
                with chosen.out.open("a", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                    if is_new:
                        writer.writeheader()
                    writer.writerows(rows)


if __name__ == "__main__":
    np.set_printoptions(precision=3)
    main()
