"""The short version of `make torture`: kill commands at random."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(900)  # busy machines are slow
def test_commands_killed_at_random_end_with_the_same_files():
    # `report`, `reproduce` and the cluster are slow: `make torture` kills them; the last two are also killed
    # in tests/paper/reproduce and tests/cluster
    command = [
        sys.executable,
        "-m",
        "tests.robustness.torture.kills",
        "--kills",
        "12",
        "--seed",
        "8",
        "--only",
    ]
    command += ["infer", "evaluate", "pack", "finetune", "pretrain", "replay", "pretrain-2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["kills"], figures["losses"]) == (12, 0)
