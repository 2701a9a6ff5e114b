"""The directory of a run."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from visr import cli
from visr.config import RunConfig
from visr.errors import UserError
from visr.storage.files import read_json, write_bytes, write_json
from visr.storage.run_dir import RunDir, evaluation_of


def test_a_new_run_can_be_opened_and_has_its_configuration(tmp_path: Path):
    config = RunConfig(env="Taxi-v4")
    run = RunDir.create(tmp_path / "run", config)
    assert RunDir.open(str(run.path)).config() == config
    assert run.checkpoints() == run.task_files() == []
    assert run.last_row(run.metrics) == {}


def test_a_run_starts_only_in_an_empty_or_new_directory(tmp_path: Path):
    RunDir.create(tmp_path, RunConfig())
    before = (tmp_path / "config.json").read_bytes()
    with pytest.raises(UserError, match=f'visr.resume."{tmp_path}"'):
        RunDir.create(tmp_path, RunConfig())
    assert (tmp_path / "config.json").read_bytes() == before


def test_a_run_that_cannot_be_created_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UserError, match="No space left"):
        RunDir.create(tmp_path / "run", RunConfig())
    assert not (tmp_path / "run").exists()


def test_the_last_two_checkpoints_are_kept_and_incomplete_ones_removed(tmp_path: Path):
    run = RunDir.create(tmp_path / "run", RunConfig())
    for num_steps in (900, 5_000_000_000_000, 10_000, 0):
        write_bytes(run.checkpoint(num_steps), b"x")
    directory = run.checkpoint(0).parent
    for name in ("000000010000.safetensors.partial", "notes.txt", "9abc.safetensors"):
        (directory / name).write_bytes(b"x")
    assert [int(p.stem) for p in run.checkpoints()] == [0, 900, 10_000, 5_000_000_000_000]
    run.remove_old_checkpoints()
    assert [int(p.stem) for p in run.checkpoints()] == [10_000, 5_000_000_000_000]
    assert {p.name for p in directory.iterdir()} >= {"notes.txt", "9abc.safetensors"}
    assert not list(directory.glob("*.partial"))


def test_an_evaluation_is_stored_beside_its_task_and_is_not_listed_as_a_task(tmp_path: Path):
    run = RunDir(tmp_path)
    task = run.task("boxes-7")
    write_json(task, {})
    write_json(evaluation_of(task), {})
    assert evaluation_of(task) == tmp_path / "tasks" / "boxes-7.evaluation.json"
    assert run.task_files() == [task]


@pytest.mark.parametrize(("setting", "choice"), [("objective", "inverse"), ("bonus", "forward")])
def test_a_run_with_a_retired_choice_can_be_reported_and_nothing_else(
    setting: str, choice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = RunDir.create(tmp_path / "run", RunConfig(env="Taxi-v4"))
    content = read_json(run.config_file)
    content["config"]["agent"][setting] = choice
    write_json(run.config_file, content)
    assert cli.main(["report", str(run.path)]) == 0
    assert (run.report / "index.html").is_file()
    capsys.readouterr()
    for command in (["evaluate", str(run.path)], ["pretrain", "--resume", str(run.path)]):
        assert cli.main(command) == 2
        said = capsys.readouterr().err
        assert f"{setting} = {choice!r} was removed from visr" in said
        assert said.count("\n") == 1
