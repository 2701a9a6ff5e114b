"""Compare training on several Ray nodes with training on one machine, on a grid world.

    python experiments/cluster_nodes.py --seeds 0 1 2 --json results/cluster/nodes.json

Trains the preset `demo` without Ray, on 2 and 4 nodes synchronously, and on 2 and 4 nodes
asynchronously, and prints the exact fractions of optimal of each. All nodes are on this machine; existing
runs are kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path

from experiments import ray_latency as latency
from visr import config as configuration
from visr import pretraining
from visr.config import RunConfig, presets
from visr.storage.run_dir import RunDir

_ASYNCHRONOUS = {"num_actor_groups": 4, "max_staleness": 8}
_WAYS: dict[str, tuple[tuple[int, ...], dict[str, int]]] = {
    "one machine": ((), {}),
    "2 nodes, in rounds": ((2, 1), {}),
    "4 nodes, in rounds": ((1, 1, 1, 1), {"num_actor_groups": 3}),
    "one machine, 3 groups": ((), {"num_actor_groups": 3}),
    "2 nodes, max_staleness 8": ((3, 2), _ASYNCHRONOUS),
    "4 nodes, max_staleness 8": ((2, 1, 1, 1), _ASYNCHRONOUS),
}
"""CPUs of every node, and what differs from the preset; three groups and a learner fill four nodes."""


def main() -> None:
    """Train the missing runs and print all results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-steps", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", choices=list(_WAYS), default=list(_WAYS))
    parser.add_argument("--out", type=Path, default=Path("runs/nodes"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    steps = options.num_steps
    fields = {"num_steps": steps, "phi_num_steps": 0, "num_processes": 1}
    fields |= {"evaluate_every": steps, "checkpoint_every": steps}
    config = configuration.replace(presets.get("demo-visr"), **fields)
    result: dict[str, dict[str, dict[str, float]]] = {}
    for seed in options.seeds:
        for name in options.only:
            path = options.out / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
            found = _trained(path, configuration.replace(config, seed=seed), *_WAYS[name])
            result.setdefault(name, {})[f"seed {seed}"] = found
            print(f"{name}, seed {seed}: {found}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def _trained(
    path: Path, config: RunConfig, nodes: tuple[int, ...], fields: dict[str, int]
) -> dict[str, float]:
    config = configuration.replace(config, **fields)
    if not path.exists():
        with latency.nodes(*nodes) if nodes else contextlib.nullcontext():
            pretraining.start(path, config, cluster="auto" if nodes else None)
    run = RunDir.open(path)
    row, vitals = run.last_row(run.evaluation), run.last_row(run.cluster_stats)
    stale = {k: vitals[k] for k in ("staleness", "max_staleness") if k in vitals}
    return {name: round(row[name], 4) for name in ("num_steps", "span", "boxes", "goals")} | stale


if __name__ == "__main__":
    main()
