"""Metrics go to TensorBoard, and with `--wandb` to Weights & Biases."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from visr.cli import main

SMALL = ["--preset", "smoke", "--num-steps", "2560", "--log-every", "1280"]


def test_without_wandb_the_flag_says_what_to_install_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    imports = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "wandb":
            raise ModuleNotFoundError("No module named 'wandb'", name="wandb")
        return imports(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert main(["pretrain", *SMALL, "--out", str(tmp_path / "run"), "--wandb"]) == 2
    assert capsys.readouterr().err == 'visr: --wandb needs wandb: pip install "visr[wandb]".\n'
    assert not (tmp_path / "run").exists()


def test_agents_that_write_no_metrics_refuse_wandb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("visr.training.metric_loggers.require_wandb", lambda: None)
    words = ["--algorithm", "dqn", "--wandb", "--out", str(tmp_path / "run")]
    assert main(["pretrain", "CartPole-v1", *words]) == 2
    assert "dqn does not log to wandb" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def run_offline(tmp_path: Path, *words: str) -> dict[str, Any]:
    """Train in another process, because wandb leaves threads and a service; returns the result."""
    places = {f"WANDB_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "CACHE", "DATA")}
    done = subprocess.run(
        [sys.executable, "-m", "visr", "pretrain", *words, "--wandb", "--json"],
        env={**os.environ, **places, "WANDB_MODE": "offline", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_wandb_gets_the_metrics_offline_and_a_resumed_run_continues_its_log(tmp_path: Path):
    pytest.importorskip("wandb", exc_type=ImportError)
    run = tmp_path / "run"
    run_offline(tmp_path, *SMALL, "--out", str(run))
    run_offline(tmp_path, "--resume", str(run), "--num-steps", "3840")
    files = sorted(run.glob("wandb/offline-run-*/*.wandb"))
    assert len(files) == 2
    assert len({file.stem.removeprefix("run-") for file in files}) == 1  # one id
    for name in ("psi_loss", "intrinsic_reward", "fraction_of_optimal/boxes"):
        assert all(name.encode() in file.read_bytes() for file in files), name
    assert b"3840" in files[1].read_bytes()
    assert b"3840" not in files[0].read_bytes()
