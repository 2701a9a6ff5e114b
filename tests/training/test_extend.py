"""`visr pretrain --resume RUN --num-steps MORE` trains a run further."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import visr
from visr import pretraining
from visr.cli import main
from visr.errors import UserError
from visr.storage.run_dir import RunDir
from visr.training import checkpoint
from visr.training.driver import Status


class Killed(Exception):
    """Ends training without a checkpoint."""


def kill_at(num_steps: int) -> Any:
    def kill(status: Status) -> None:
        if status.num_steps >= num_steps:
            raise Killed

    return kill


def planned_steps(path: Path) -> int:
    return json.loads((path / "config.json").read_text())["config"]["training"]["num_steps"]


def test_an_unfinished_run_that_is_extended_equals_one_planned_that_long(tmp_path: Path, tiny: Any):
    plan = {"checkpoint_every": 1_280, "log_every": 640, "learning_rate_decay": "none"}
    whole = pretraining.start(tmp_path / "whole", tiny(num_steps=7_680, **plan))
    with pytest.raises(Killed):
        pretraining.start(tmp_path / "run", tiny(num_steps=5_120, **plan), kill_at(2_560))
    run = pretraining.resume(tmp_path / "run", num_steps=7_680)
    (a, _), (b, _) = (checkpoint.load(checkpoint.newest(r)) for r in (whole, run))
    assert all(torch.equal(a[name], b[name]) for name in a)
    for name in ("config.json", "metrics.csv", "evaluation.csv"):
        assert (whole.path / name).read_bytes() == (run.path / name).read_bytes()


def test_a_finished_run_keeps_its_rows_and_gets_a_new_recording(tmp_path: Path, tiny: Any):
    config = tiny(env="CartPole-v1", num_steps=2_560, recorded_steps=64, log_every=640)
    run = pretraining.start(tmp_path / "run", config)
    rows, recorded = run.metrics.read_text(), run.recorded.read_bytes()
    extended = visr.resume(run.path, num_steps=5_120)
    assert extended.num_steps == 5_120
    assert planned_steps(run.path) == 5_120
    assert run.metrics.read_text().startswith(rows)
    assert len(run.metrics.read_text()) > len(rows)
    assert run.recorded.read_bytes() != recorded  # phi has changed


def test_an_extended_run_that_is_killed_goes_on_to_its_new_end(tmp_path: Path, tiny: Any):
    run = pretraining.start(tmp_path / "run", tiny(num_steps=2_560))
    with pytest.raises(Killed):
        pretraining.resume(run.path, observe=kill_at(3_200), num_steps=5_120)
    assert int(checkpoint.newest(pretraining.resume(run.path)).stem) == 5_120


def test_schedules_say_what_they_do(tmp_path: Path, tiny: Any, caplog: pytest.LogCaptureFixture):
    config = tiny(num_steps=2_560, learning_rate_decay="linear", phi_num_steps=1_280)
    run = pretraining.start(tmp_path / "run", config)
    pretraining.resume(run.path, num_steps=5_120)
    assert "reach 0 at step 5,120" in caplog.text
    assert "from 0% to 50% of their initial values" in caplog.text
    assert "phi is frozen after step 1,280, as before" in caplog.text


def test_saved_tasks_are_named_because_phi_changes(
    tmp_path: Path, tiny: Any, caplog: pytest.LogCaptureFixture
):
    run = visr.Run(pretraining.start(tmp_path / "run", tiny(num_steps=2_560)))
    run.skill(0).save(run.directory.task("left"))
    visr.resume(run.path, num_steps=3_840)
    assert "1 saved task" in caplog.text


def test_a_run_is_not_made_shorter(tmp_path: Path, tiny: Any, capsys: pytest.CaptureFixture[str]):
    run = pretraining.start(tmp_path / "run", tiny(num_steps=2_560))
    before = run.config_file.read_bytes()
    assert main(["pretrain", "--resume", str(run.path), "--num-steps", "1280"]) == 2
    assert "num_steps = 1,280 is fewer than the 2,560" in capsys.readouterr().err
    assert run.config_file.read_bytes() == before


def test_the_command_line_extends_a_run(
    tmp_path: Path, tiny: Any, capsys: pytest.CaptureFixture[str]
):
    run = pretraining.start(tmp_path / "run", tiny(num_steps=2_560))
    assert main(["pretrain", "--resume", str(run.path), "--num-steps", "3840", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_steps"] == 3_840
    assert planned_steps(run.path) == 3_840


def test_a_settings_file_cannot_change_a_resumed_run(
    tmp_path: Path, tiny: Any, capsys: pytest.CaptureFixture[str]
):
    run = pretraining.start(tmp_path / "run", tiny(num_steps=2_560))
    file = tmp_path / "other.toml"
    file.write_text("gamma = 0.5\n")
    assert main(["pretrain", "--resume", str(run.path), "--config", str(file)]) == 2
    assert "gamma = 0.5 differs" in capsys.readouterr().err


def test_a_baseline_that_plans_its_training_is_not_extended(tmp_path: Path, tiny: Any):
    run = RunDir.create(tmp_path / "run", tiny(algorithm="rainbow", num_steps=1_000))
    with pytest.raises(UserError, match="rainbow plans its training for 1,000 steps"):
        pretraining.resume(run.path, num_steps=2_000)
    assert planned_steps(run.path) == 1_000
