"""The same commands with the same seed write the same bytes on the same machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLOCKS = {"timing.csv"}
"""Files that contain times."""

GRID = ["visr/Grid-v0", "--preset", "smoke", "--num-steps", "2560", "--checkpoint-every", "1280"]
CARTPOLE = [
    "CartPole-v1",
    "--num-steps",
    "6400",
    "--num-envs",
    "8",
    "--batch-size",
    "8",
    "--log-every",
    "1280",
]
CARTPOLE += ["--recorded-steps", "2000"]


RUN_EACH = """
import json, sys
from visr.cli import main
for words in json.loads(sys.argv[1]):
    assert main(words) == 0, words
"""


def visr(*commands: list[str], cwd: Path, threads: int = 1) -> str:
    """What commands print, one after another in a new process: each of its own would start for seconds."""
    done = subprocess.run(
        [sys.executable, "-c", RUN_EACH, json.dumps(commands)],
        cwd=cwd, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def files_of(cwd: Path) -> dict[str, bytes]:
    """The content of every file of the run, without files that contain times."""
    files = [p for p in sorted((cwd / "run").rglob("*")) if p.is_file() and p.name not in CLOCKS]
    return {str(p.relative_to(cwd)): p.read_bytes() for p in files if "tensorboard" not in p.parts}


def run_commands(cwd: Path, world: list[str], reward: str, threads: int) -> str:
    cwd.mkdir()
    trials = [] if world is GRID else ["--episodes", "3"]
    said = visr(
        ["pretrain", *world, "--out", "run"],
        ["infer", "run", "--reward", reward, "--name", "task"],
        ["evaluate", "run", "task", *trials],
        cwd=cwd,
        threads=threads,
    )
    (cwd / "run/timing.csv").unlink(missing_ok=True)  # the report shows the speed
    return said + visr(["report", "run"], cwd=cwd, threads=threads)


@pytest.mark.parametrize(("world", "reward"), [(GRID, "boxes:7"), (CARTPOLE, "angle < 0")])
def test_all_files_are_equal_for_one_and_for_two_threads(
    world: list[str], reward: str, tmp_path: Path
):
    said = run_commands(tmp_path / "a", world, reward, threads=1)
    assert said == run_commands(tmp_path / "b", world, reward, threads=2)
    one, other = files_of(tmp_path / "a"), files_of(tmp_path / "b")
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []
    assert any(name.endswith("report/index.html") for name in one)


def test_a_report_that_is_written_again_has_the_same_bytes(tmp_path: Path):
    visr(["pretrain", *GRID, "--out", "run"], ["report", "run"], cwd=tmp_path)
    before = files_of(tmp_path)
    visr(["report", "run"], cwd=tmp_path)
    assert files_of(tmp_path) == before
