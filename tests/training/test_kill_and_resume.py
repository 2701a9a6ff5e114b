"""A training process that is killed and resumed ends with the same bytes as one that was not.

`make torture` kills at many more moments.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import safetensors
import torch

from visr import pretraining
from visr.errors import Stopped
from visr.storage.run_dir import RunDir
from visr.training import checkpoint
from visr.training.driver import Status

COMMAND = [sys.executable, "-m", "visr.cli", "pretrain"]
TRAIN = ["--preset", "smoke", "--num-steps", "15360", "--checkpoint-every", "2560"]


def start(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*COMMAND, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_checkpoint(process: subprocess.Popen[str], run: RunDir, num_steps: int) -> None:
    deadline = time.monotonic() + 600
    while not any(int(p.stem) >= num_steps for p in run.checkpoints()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def assert_identical(a: RunDir, b: RunDir) -> None:
    """Weights, optimisers, random state, environments: all of the last checkpoint; and all metrics."""
    (tensors, counts), (others, other_counts) = (
        checkpoint.load(checkpoint.newest(r)) for r in (a, b)
    )
    assert counts == other_counts
    assert tensors.keys() == others.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, others[name]), name
    for file in ("metrics.csv", "evaluation.csv", "portrait.safetensors"):
        assert (a.path / file).read_bytes() == (b.path / file).read_bytes(), file


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    path = tmp_path_factory.mktemp("whole") / "run"
    process = start(*TRAIN, "--out", str(path))
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return RunDir.open(path)


def test_a_run_killed_twice_with_sigkill_ends_bit_identical(uninterrupted: RunDir, tmp_path: Path):
    run = RunDir(tmp_path / "run")
    arguments = [*TRAIN, "--out", str(run.path)]
    for num_steps in (0, 5_120):
        process = start(*arguments)
        wait_for_checkpoint(process, run, num_steps)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        arguments = ["--resume", str(run.path)]
    process = start(*arguments)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    assert_identical(run, uninterrupted)


@pytest.mark.parametrize(
    ("number", "code", "num_processes"), [(signal.SIGINT, 130, "2"), (signal.SIGTERM, 143, "1")]
)
def test_a_run_that_is_asked_to_stop_saves_all_work_and_says_how_to_resume(
    uninterrupted: RunDir, tmp_path: Path, number: signal.Signals, code: int, num_processes: str
):
    run = RunDir(tmp_path / "run")
    process = start(*TRAIN, "--out", str(run.path), "--num-processes", num_processes)
    wait_for_checkpoint(process, run, 2_560)
    os.killpg(process.pid, number)  # as a terminal and `timeout` do
    output, errors = process.communicate(timeout=600)
    assert process.returncode == code
    assert output == ""
    assert f"visr pretrain --resume {run.path}" in errors
    assert "Traceback" not in errors
    process = start("--resume", str(run.path), "--json")
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    assert json.loads(output)["num_steps"] == 15_360
    assert_identical(run, uninterrupted)


class UnsaveableEnv(gymnasium.Env[Any, Any]):
    """A walk on a ring; its state cannot be saved."""

    observation_space = gymnasium.spaces.Discrete(12)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._at, self._age = int(self.np_random.integers(12)), 0
        return np.int64(self._at), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._at = (self._at + (1 if action else -1)) % 12
        self._age += 1
        return np.int64(self._at), 0.0, bool(self.np_random.random() < 0.05), self._age >= 30, {}


@pytest.fixture
def unsaveable_id() -> Any:
    gymnasium.register("tests/Unsaveable-v0", entry_point=lambda **_: UnsaveableEnv())
    yield "tests/Unsaveable-v0"
    del gymnasium.registry["tests/Unsaveable-v0"]


def test_environments_that_cannot_be_saved_are_reset_at_checkpoints_so_that_runs_resume_exactly(
    unsaveable_id: str, tmp_path: Path, tiny: Any
):
    config = tiny(env=unsaveable_id, num_steps=5_120, checkpoint_every=1_280)
    whole = pretraining.start(tmp_path / "whole", config)

    class Killed(Exception):
        pass

    def kill(status: Status) -> None:
        if status.num_steps >= 3_200:
            raise Killed

    with pytest.raises(Killed):
        pretraining.start(tmp_path / "killed", config, observe=kill)
    resumed = pretraining.resume(tmp_path / "killed")
    (a, _), (b, _) = (checkpoint.load(checkpoint.newest(r)) for r in (whole, resumed))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert whole.metrics.read_bytes() == resumed.metrics.read_bytes()


def test_ctrl_c_saves_environments_that_cannot_be_saved_by_resetting_them(tmp_path: Path):
    run = RunDir(tmp_path / "run")
    rows = ["--log-every", "5120", "--checkpoint-every", "1000000000"]
    size = ["--num-envs", "32", "--hidden-sizes", "16", "--recorded-steps", "0"]
    process = start("CartPole-v1", *rows, *size, "--num-steps", "1000000", "--out", str(run.path))
    deadline = time.monotonic() + 600
    while not run.metrics.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    saved = int(checkpoint.newest(run).stem)
    assert saved >= 5_120  # all steps up to the signal
    assert f"saved as of step {saved:,}" in errors
    copies = [shutil.copytree(run.path, tmp_path / name) for name in ("a", "b")]
    a, b = (first_weights_after(path, saved + 20_000) for path in copies)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def first_weights_after(path: Path, num_steps: int) -> dict[str, torch.Tensor]:
    """Resume, stop at `num_steps`, and return the checkpoint."""

    def stop(status: Status) -> None:
        if status.num_steps >= num_steps:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Stopped):
        pretraining.resume(path, observe=stop)
    return checkpoint.load(checkpoint.newest(RunDir(path)))[0]


def test_a_run_killed_before_its_first_checkpoint_starts_over(tmp_path: Path, tiny: Any):
    whole = pretraining.start(tmp_path / "whole", tiny())
    killed = RunDir.create(tmp_path / "killed", tiny())  # what a kill at the very start leaves
    assert not killed.checkpoints()
    assert_identical(pretraining.resume(killed.path), whole)


def test_only_the_last_two_checkpoints_are_kept_and_both_are_complete(uninterrupted: RunDir):
    directory = uninterrupted.path / "checkpoints"
    assert sorted(p.name for p in directory.iterdir()) == [
        "000000012800.safetensors",
        "000000015360.safetensors",
    ]
    with safetensors.safe_open(str(checkpoint.newest(uninterrupted)), framework="pt") as file:
        assert "learner.agent.psi.readout.weight" in file.keys()  # noqa: SIM118
