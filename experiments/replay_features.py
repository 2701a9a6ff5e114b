"""All features of a step on the same settings and seed: one row for each environment and kind, in a CSV file.

python experiments/replay_features.py grid rooms cartpole breakout --seeds 0 --share 0.5
`--share` scales the default steps and updates; `--tune` asks for other tasks than the scored ones.
`--explain 40000` only fits the features to so many random steps, and reports the R^2 of rewards (not `fb`).
"""

import argparse
import csv
import tempfile
import time
from pathlib import Path

import torch

import visr
from visr import config as configuration
from visr import envs, pretraining
from visr.config import RunConfig, presets
from visr.evaluation.grid_benchmark import GridBenchmark
from visr.inference import block_sums, grid_rewards, recording
from visr.inference.steps import RewardedSteps
from visr.ops.regression import predicted, solve
from visr.training.replay_loop import ReplayLoop

LEARNED = ("phi", "laplacian", "inverse", "self-predictive", "fb")
KINDS = {
    "grid": ("projection", *LEARNED),
    "rooms": ("projection", *LEARNED),
    "cartpole": ("projection", *LEARNED),
    "breakout": ("events", "pooled", *LEARNED),
}
ENVIRONMENTS = {
    "grid": ("visr/Grid-v0", {}),
    "rooms": ("visr/Grid-v0", {"layout": "four-rooms", "height": 11, "width": 11}),
    "cartpole": ("CartPole-v1", {}),
    "breakout": ("MinAtar/Breakout-v1", {}),
}
ASKED = {"cartpole": ("env", "x0 > 0.5", "abs(x1) > 0.5"), "breakout": ("env",)}
TUNED = {"cartpole": ("env", "x0 < -0.5", "x3 > 0.3"), "breakout": ("env",)}
"""Rewards to choose settings by; the environments' own are scored as well, on another seed."""
COLUMNS = (
    *("environment", "features", "seed", "num_features", "steps", "updates", "feature_updates"),
    *("cpu_seconds", "asked", "score", "planned", "standard_error", "r_squared"),
)
Rows = list[dict[str, object]]


def configured(name: str, kind: str, seed: int, share: float, fields: dict[str, str]) -> RunConfig:
    """The default settings of an environment, with these features and a share of its steps and updates."""
    env, more = ENVIRONMENTS[name]
    base = presets.for_environment(env, "fb" if kind == "fb" else "replay")
    base = configuration.replace(base, env=env, seed=seed, **more)
    chosen = {} if kind == "fb" else {"transition_features": kind}
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
    """Mean fraction of optimal of 50 pairs of boxes and 50 goals; `planned` is planning on phi . w."""
    benchmark = GridBenchmark.for_environment(run.config)
    assert benchmark is not None
    if is_tuning:
        for name in ("boxes", "goals"):
            rewards = grid_rewards.family(name, benchmark.world, seed=7)
            benchmark.families[name] = rewards
    found = benchmark.scores(run.agent)
    rows: Rows = [{"asked": name, "score": found[f"{name}_gpi"]} for name in ("boxes", "goals")]
    if run.config.agent.algorithm != "fb":  # its tasks do not predict the reward
        for row in rows:
            row["planned"] = found[f"{row['asked']}_planned"]
    return rows


def scores_of_episodes(run: visr.Run, seed: int, rewards: tuple[str, ...]) -> Rows:
    """Mean asked returns of 30 episodes, and the held-out R^2 of each reward."""
    rows: Rows = []
    for reward in rewards:
        settings = {"num_episodes": 10**6, "num_steps": 30_000, "seed": seed + 1}
        compared = run.compare(reward, **(settings if reward == "env" else {}))
        fits = [name for name in compared.estimates if "search" not in name]
        best = compared.best if compared.best in fits else fits[0]
        if compared.validations and compared.best not in fits:
            best = max(fits, key=lambda name: compared.validations[name].r_squared)
        prompt = run.inference.prompt(reward=reward)
        task = run.inference.to_task(prompt, compared, best)
        played = run.evaluate_episodes(task, gpi=True, num_episodes=30, seed=seed).asked
        row: dict[str, object] = {"asked": reward, "score": played.mean}
        row["standard_error"] = played.standard_error
        if best in compared.validations:
            row["r_squared"] = compared.validations[best].r_squared
        rows.append(row)
    return rows


def explained(name: str, kind: str, seed: int, num_steps: int, fields: dict[str, str]) -> Rows:
    """Held-out R^2 of each reward by features fitted to the same random steps; psi learns nothing."""
    config = configured(name, kind, seed, 1.0, fields)
    loop = ReplayLoop(configuration.replace(config, num_steps=num_steps))
    (pool,), taken = loop.actor_pools, 0
    while taken < num_steps:
        pool.begin(loop.agent.psi, loop.practice.pursuit)
        (unroll,) = pool.collect()
        loop.recorded.add(unroll)
        taken += unroll.num_steps
    steps = loop.recorded.sample(torch.Generator().manual_seed(seed), num_steps)
    began = time.process_time()
    loop.agent.fit(steps)
    spent = round(time.process_time() - began)
    recorded = recording.of_unrolls(loop.agent, config, steps)
    rows: Rows = []
    for reward in ASKED[name]:
        given = steps.reward.T[~steps.is_reset.T].double().numpy()
        rewarded = RewardedSteps(recorded.phi, given, recorded.episode)
        if reward != "env":
            rewarded = recorded.rewarded(reward, envs.space_codec(config))
        if rewarded.is_constant:
            continue
        others, held_out = block_sums.split(rewarded.blocks())
        fits = [solve(others, centred=True, ridge=ridge) for ridge in (0.0, 0.01, 0.1, 1.0)]
        best = max(predicted(held_out, fit) for fit in fits)
        rows.append({"asked": reward, "r_squared": best})
    loop.close()
    return [{**_about(name, kind, seed, loop.config, spent), "updates": 0, **row} for row in rows]


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
    return [{**_about(name, kind, seed, config, spent), **row} for row in rows]


def _about(name: str, kind: str, seed: int, config: RunConfig, spent: int) -> dict[str, object]:
    return {
        "environment": name,
        "features": kind,
        "seed": seed,
        "num_features": config.agent.num_features,
        "steps": config.training.num_steps,
        "updates": config.replay.num_updates,
        "feature_updates": config.replay.feature_updates,
        "cpu_seconds": spent,
    }


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
    parser.add_argument("--explain", type=int, default=0, metavar="STEPS")
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=NUMBER")
    parser.add_argument("--out", type=Path, default=Path("results/replay/features.csv"))
    chosen = parser.parse_args()
    fields = dict(text.split("=", 1) for text in chosen.set)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in chosen.seeds:
        for name in chosen.environments:
            for kind in chosen.kinds or KINDS[name]:
                if chosen.explain:
                    rows = explained(name, kind, seed, chosen.explain, fields)
                else:
                    rows = cell(name, kind, seed, chosen.share, chosen.tune, fields)
                rows = [{k: _rounded(v) for k, v in row.items()} for row in rows]
                for row in rows:
                    print(row, flush=True)
                is_new = not chosen.out.exists()
                with chosen.out.open("a", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                    if is_new:
                        writer.writeheader()
                    writer.writerows(rows)


if __name__ == "__main__":
    main()
