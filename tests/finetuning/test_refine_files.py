"""Refined tasks in files, and the command that refines."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import visr
from visr.cli import main
from visr.errors import UserError
from visr.storage.records.task import Task

pytestmark = pytest.mark.usefixtures("short_slices")


def test_a_saved_task_has_the_same_policy(grid: visr.Run, tmp_path: Path):
    task = grid.refine(grid.infer("row > 3"), num_updates=400)
    path = tmp_path / "bottom.json"
    task.save(path)
    again = Task.load(path)
    states = np.arange(25)
    assert grid.policy(again)(states).tolist() == grid.policy(task)(states).tolist()
    assert len(list(tmp_path.glob("*.safetensors"))) == 2  # the policy's weights and the learner's
    grid.infer("row > 3").save(path)  # an instant task leaves no weights behind
    assert not list(tmp_path.glob("*.safetensors"))


def test_lost_or_damaged_weights_are_reported(grid: visr.Run, tmp_path: Path):
    path = tmp_path / "bottom.json"
    grid.refine(grid.infer("row > 3"), num_updates=400).save(path)
    weights = tmp_path / json.loads(path.read_text())["refinement"]["file"]
    content = weights.read_bytes()
    weights.write_bytes(content[:-4] + b"\0\1\2\3")
    with pytest.raises(UserError, match="damaged"):
        Task.load(path)
    weights.unlink()
    with pytest.raises(UserError, match="is missing"):
        Task.load(path)


def test_a_save_that_fails_keeps_the_earlier_task(
    grid: visr.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "bottom.json"
    first = grid.refine(grid.infer("row > 3"), num_updates=400)
    first.save(path)

    def full(*_: object) -> None:
        raise UserError("the disk is full")

    monkeypatch.setattr("visr.storage.records.task.write_json", full)
    with pytest.raises(UserError, match="full"):
        grid.refine(grid.infer("col > 3"), num_updates=400).save(path)
    loaded = Task.load(path).refinement
    assert loaded is not None
    assert first.refinement is not None
    assert all(np.array_equal(loaded.weights[k], v) for k, v in first.refinement.weights.items())


# ---- the command


def test_the_command_refines_and_resumes(grid_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["infer", str(grid_path), "--reward", "row > 2", "--name", "low"]) == 0
    assert main(["refine", str(grid_path), "low", "--num-updates", "20"]) == 0
    assert "refined policy" in capsys.readouterr().out
    assert main(["refine", str(grid_path), "low", "--resume", "--until-done", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["num_updates"] > 20
    assert found["is_done"]
    assert main(["evaluate", str(grid_path), "low-refined", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fraction_of_optimal"] == pytest.approx(1)
    assert main(["play", str(grid_path), "--task", "low-refined", "--max-steps", "5"]) == 0


def test_a_resumed_refinement_continues_with_the_optimiser(pole_path: Path, tmp_path: Path):
    run, path = visr.load(pole_path), tmp_path / "side.json"
    run.refine(run.infer("x0 > 0.1"), num_updates=40).save(path)
    saved = Task.load(path)
    task = run.refine(saved, num_updates=20, resume=True)
    assert task.refinement is not None
    assert task.refinement.num_updates == 60
    assert set(task.refinement.learner["adam.0.step"].ravel()) == {60}
    afresh = run.refine(saved, num_updates=20)
    assert afresh.refinement is not None
    assert set(afresh.refinement.learner["adam.0.step"].ravel()) == {20}
    task.save(path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 2
    (tmp_path / json.loads(path.read_text())["refinement"]["learner_file"]).unlink()
    again = Task.load(path)  # it still acts
    with pytest.raises(UserError, match="refine the task again"):
        run.refine(again, num_updates=20, resume=True)


def test_a_damaged_learner_is_refused(pole_path: Path):
    run = visr.load(pole_path)
    task = run.refine(run.infer("x0 > 0.1"), num_updates=20)
    assert task.refinement is not None
    for learner in ({"q": np.zeros(3)}, {**task.refinement.learner, "rng": np.zeros(3)}):
        changed = dataclasses.replace(task.refinement, learner=learner)
        with pytest.raises(UserError, match="does not fit"):
            run.refine(dataclasses.replace(task, refinement=changed), num_updates=20, resume=True)


def test_nothing_to_resume_is_an_error(grid_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["infer", str(grid_path), "--reward", "col > 2", "--name", "right"]) == 0
    assert main(["refine", str(grid_path), "right", "--resume"]) == 2
    assert "leave out --resume" in capsys.readouterr().err


def test_ctrl_c_keeps_the_best_so_far(pole_path: Path):
    assert main(["infer", str(pole_path), "--reward", "x0 > 0.1", "--name", "side"]) == 0
    command = [sys.executable, "-m", "visr", "refine", str(pole_path), "side", "--seconds", "300"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "refining" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 130
    task = visr.load(pole_path).tasks["side-refined"]
    assert task.refinement is not None
    assert task.refinement.num_updates > 0
