"""Same seed, same machine, same bytes: everything that a run leaves behind, made twice by real commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CLOCKS = {"timing.csv"}
"""The one file of a run that says how fast it went."""

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


def visr(*words: str, cwd: Path, threads: int = 1) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "visr", *words],
        cwd=cwd, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def left_behind(cwd: Path) -> dict[str, bytes]:
    """Every file of the run by its name, but the clock's and TensorBoard's, which has times in it."""
    files = [p for p in sorted((cwd / "run").rglob("*")) if p.is_file() and p.name not in CLOCKS]
    return {str(p.relative_to(cwd)): p.read_bytes() for p in files if "tensorboard" not in p.parts}


def whole_story(cwd: Path, world: list[str], reward: str, threads: int) -> list[str]:
    cwd.mkdir()
    said = [visr("pretrain", *world, "--out", "run", cwd=cwd, threads=threads)]
    said.append(
        visr("infer", "run", "--reward", reward, "--name", "wish", cwd=cwd, threads=threads)
    )
    trials = [] if world is GRID else ["--episodes", "3"]
    said.append(visr("evaluate", "run", "wish", *trials, cwd=cwd, threads=threads))
    (cwd / "run/timing.csv").unlink(missing_ok=True)  # the report says how fast it went
    said.append(visr("report", "run", cwd=cwd, threads=threads))
    return said


@pytest.mark.parametrize(("world", "reward"), [(GRID, "boxes:7"), (CARTPOLE, "angle < 0")])
def test_everything_is_the_same_twice_and_with_more_threads(
    world: list[str], reward: str, tmp_path: Path
):
    said = whole_story(tmp_path / "a", world, reward, threads=1)
    assert said == whole_story(tmp_path / "b", world, reward, threads=2)
    one, other = left_behind(tmp_path / "a"), left_behind(tmp_path / "b")
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []
    assert any(name.endswith("report/index.html") for name in one)


def test_a_report_made_again_is_the_same_bytes(tmp_path: Path):
    visr("pretrain", *GRID, "--out", "run", cwd=tmp_path)
    visr("report", "run", cwd=tmp_path)
    before = left_behind(tmp_path)
    visr("report", "run", cwd=tmp_path)
    assert left_behind(tmp_path) == before
