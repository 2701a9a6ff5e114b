"""Compare the training loops of two source trees, in turns of a fixed number of rounds.

git worktree add --detach /tmp/old COMMIT
python experiments/compare_versions.py /tmp/old . --preset minatar --env MinAtar/Breakout-v1
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    """Measure, and print one JSON object: seconds of the first tree over seconds of the second."""
    parser = argparse.ArgumentParser()
    parser.add_argument("trees", nargs="*", type=Path)
    parser.add_argument("--preset", default="grid")
    parser.add_argument("--env", default="visr/Grid-v0")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    if options.worker:
        work(options)
        return
    workers = [start(tree) for tree in options.trees]
    for worker in workers:
        ask(worker)  # warm-up
    turns = [[ask(worker) for worker in workers] for _ in range(options.turns)]
    for worker in workers:
        worker.stdin.close()  # pyright: ignore
        worker.wait()
    wall, cpu = np.array(turns).transpose(2, 0, 1)
    print(json.dumps({"preset": options.preset, "env": options.env, "turns": options.turns,
                      "wall": quartiles(wall[:, 0] / wall[:, 1]),
                      "cpu": quartiles(cpu[:, 0] / cpu[:, 1])}))  # fmt: skip


def quartiles(ratio: np.ndarray) -> list[float]:
    """First quartile, median and third quartile."""
    return np.quantile(ratio, [0.25, 0.5, 0.75]).round(3).tolist()


def start(tree: Path) -> subprocess.Popen[str]:
    """A process that trains with the package of this tree."""
    command = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:], "--worker"]
    env = {**os.environ, "PYTHONPATH": str(tree.resolve())}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=env, cwd=tree, **pipes)


def ask(worker: subprocess.Popen[str]) -> list[float]:
    """Seconds and CPU seconds of some rounds."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("\n")
    worker.stdin.flush()
    return json.loads(worker.stdout.readline())


def work(options: argparse.Namespace) -> None:
    """Train some rounds for every line of standard input."""
    from visr import config as configuration
    from visr.training.loop import Loop as loop_class

    try:
        from visr.config import presets
    except ImportError:  # before the restructuring
        from visr import presets  # pyright: ignore
    config = presets.get(options.preset)
    config = configuration.replace(config, env=options.env, num_steps=10**12, num_rewarded_envs=0)
    loop = loop_class(config)
    rounds = loop.rounds()
    for _ in range(3):
        next(rounds)
    for _ in sys.stdin:
        start, before = time.perf_counter(), cpu_seconds()
        for _ in range(options.rounds):
            next(rounds)
        found = [time.perf_counter() - start, cpu_seconds() - before]
        print(json.dumps(found), flush=True)
    rounds.close()


def cpu_seconds() -> float:
    """CPU time of this process and of its children."""
    me = os.getpid()
    children = Path(f"/proc/{me}/task/{me}/children").read_text().split()
    return time.process_time() + sum(time.clock_gettime((~int(pid) << 3) | 2) for pid in children)


if __name__ == "__main__":
    main()
