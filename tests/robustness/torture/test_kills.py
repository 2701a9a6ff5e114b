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
    # `reproduce` and the cluster are killed in tests/paper/reproduce and tests/cluster
    command = [
        sys.executable,
        "-m",
        "tests.robustness.torture.kills",
        "--kills",
        "5",
        "--seed",
        "8",
        "--only",
    ]
    command += ["pretrain", "finetune", "infer", "evaluate", "report"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["kills"], figures["losses"]) == (5, 0)
