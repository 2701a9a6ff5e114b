"""`python -m tests.robustness.torture.episodes`: 10,000 episodes; memory and open files stay flat."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import visr

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LOTS = 10
_TOLERANCE = 1.05


def held() -> tuple[float, int]:
    """Resident megabytes and open files of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * _PAGE / 1e6, len(os.listdir("/proc/self/fd"))


def main() -> int:
    """Train for a moment, then play and look after every tenth of the episodes."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.robustness.torture.episodes", description=__doc__
    )
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--env", default="CartPole-v1")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="visr-episodes-") as scratch:
        small: dict[str, Any] = {"num_steps": 1_280, "num_envs": 32, "recorded_steps": 0}
        run = visr.pretrain(chosen.env, out=Path(scratch) / "run", **small)
        lots, looks = [], []
        for seed in range(_LOTS):
            played = run.try_task(run.skill(seed), num_episodes=chosen.episodes // _LOTS, seed=seed)
            lots.append(len(played.scores))
            looks.append(held())
    (before, files_before), (after, files_after) = looks[1], looks[-1]
    flat = after <= before * _TOLERANCE and files_after <= files_before
    figures = {"env": chosen.env, "episodes": int(np.sum(lots)), "flat": flat}
    figures |= {"megabytes": [round(before), round(after)], "files": [files_before, files_after]}
    print(json.dumps(figures))
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
