"""The same learning on several nodes as on one machine? Several Ray nodes on this one, and a grid world.

    python experiments/cluster_nodes.py --num-steps 1000000 --out runs/nodes

Trains the preset `demo` alone, on 2 nodes in rounds, and on 2 and 4 nodes with actors that never wait for
each other, and prints each run's exact fractions of optimal.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from visr import config as configuration
from visr import presets, pretraining
from visr.cluster import probe
from visr.config import RunConfig

_ASYNCHRONOUS = {"num_actor_groups": 4, "max_staleness": 8}


def main() -> None:
    """Train four times, print once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-steps", type=int, default=1_000_000)
    parser.add_argument("--out", default="runs/nodes")
    options = parser.parse_args()
    fields = {"num_steps": options.num_steps, "phi_num_steps": 0, "num_processes": 1}
    fields |= {"evaluate_every": options.num_steps, "checkpoint_every": options.num_steps}
    config = configuration.replace(presets.get("demo"), **fields)
    apart = configuration.replace(config, **_ASYNCHRONOUS)
    out = Path(options.out)
    shutil.rmtree(out, ignore_errors=True)
    result = {"one machine": _train(out / "alone", config, None)}
    with probe.nodes(2, 1):
        result["2 nodes, in rounds"] = _train(out / "rounds", config, "auto")
    with probe.nodes(3, 2):
        result["2 nodes, max_staleness 8"] = _train(out / "two", apart, "auto")
    with probe.nodes(2, 1, 1, 1):
        result["4 nodes, max_staleness 8"] = _train(out / "four", apart, "auto")
    print(json.dumps(result, indent=2))


def _train(path: Path, config: RunConfig, cluster: str | None) -> dict[str, float]:
    run = pretraining.start(path, config, cluster=cluster)
    row = run.last_row(run.evaluation)
    wanted = ("num_steps", "span", "boxes", "goals")
    vitals = run.last_row(run.vitals)
    stale = {k: vitals[k] for k in ("staleness", "max_staleness") if k in vitals}
    return {name: round(row[name], 4) for name in wanted} | stale


if __name__ == "__main__":
    main()
