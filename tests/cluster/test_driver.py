"""The command line on a Ray of its own: killed, resumed, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from visr.storage.run_dir import RunDir
from visr.storage.tables import read_rows

pytestmark = pytest.mark.ray
COMMAND = [sys.executable, "-m", "visr.cli", "pretrain", "--cluster", "local", "--json"]
TRAIN = [
    *("--preset", "smoke", "--num-steps", "51200", "--num-envs", "24", "--num-actor-groups", "2"),
    *("--max-staleness", "3", "--publish-every", "2", "--evaluate-every", "51200"),
]

if not Path("/proc/self/environ").exists():
    pytest.skip("looks for processes in /proc", allow_module_level=True)


def start(mark: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", "VISR_TEST": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def family(mark: str) -> list[str]:
    """Command lines of all processes that inherited the mark."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"VISR_TEST={mark}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # it has just gone
            continue
    return [line for line in found if line]  # a zombie has none


def wait_until(condition: object, seconds: float = 600.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_driver_leaves_no_process_and_its_run_resumes(tmp_path: Path):
    run, mark = RunDir(tmp_path / "run"), uuid.uuid4().hex
    process = start(mark, *TRAIN, "--out", str(run.path))
    wait_until(lambda: len(run.checkpoints()) > 1 or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not family(mark))
    process = start(mark, "--resume", str(run.path))
    try:
        output, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    expected = ("Waiting for", "pre-training: ")  # if busy
    assert all(line.startswith(expected) for line in errors.splitlines()), errors
    assert output.count("\n") == 1
    assert json.loads(output)["num_steps"] == 51_200
    rows, vitals = read_rows(run.metrics), read_rows(run.cluster_stats)
    assert [row["num_steps"] for row in rows] == sorted({row["num_steps"] for row in rows})
    assert all(row["num_steps"] == row["num_updates"] * 32 * 40 for row in rows)
    assert rows[-1]["num_steps"] == vitals[-1]["num_steps"] == 51_200
    assert max(row["max_staleness"] for row in vitals) <= 3
    assert {p.name.split(".")[0] for p in run.tensorboard.iterdir()} == {"events"}
    wait_until(lambda: not family(mark), seconds=300)
