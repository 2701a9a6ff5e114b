"""Links, pipes and devices in an untrusted run: nothing outside is written, and no read blocks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from visr.cli import main
from visr.errors import UserError
from visr.storage import tables
from visr.storage.files import write_json

PRECIOUS = "precious\n"


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A run to tamper with, beside a file that must not change."""
    (tmp_path / "ours.txt").write_text(PRECIOUS)
    return shutil.copytree(trained, tmp_path / "run")


def sentence(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The error message of a command that is refused."""
    capsys.readouterr()
    assert main([str(word) for word in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("name", ["run.lock", "metrics.csv"])
def test_a_linked_lock_or_table_is_refused(
    name: str, run: Path, capsys: pytest.CaptureFixture[str]
):
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(run.parent / "ours.txt")
    words = ["pretrain", "--resume", run, "--num-steps", 100_000]
    assert sentence(capsys, *words)
    assert (run.parent / "ours.txt").read_text() == PRECIOUS


def test_rows_are_not_appended_through_a_dangling_link(tmp_path: Path):
    (tmp_path / "metrics.csv").symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(UserError, match=r"metrics.csv is a link to another place"):
        tables.append_rows(tmp_path / "metrics.csv", ["num_steps"], [[1]])
    assert not (tmp_path / "elsewhere.csv").exists()


@pytest.mark.parametrize(
    "place", ["tasks", "report", "checkpoints", "finetuned", "finetuned/play", "tensorboard"]
)
def test_a_linked_directory_inside_a_run_is_refused(
    place: str, run: Path, capsys: pytest.CaptureFixture[str]
):
    elsewhere = run.parent / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(run / place, ignore_errors=True)
    (run / place).parent.mkdir(exist_ok=True)
    (run / place).symlink_to(elsewhere)
    assert f"{place} is a link to {elsewhere}" in sentence(capsys, "report", run)
    assert f"{place} is a link to {elsewhere}" in sentence(capsys, "task", "list", run)
    assert list(elsewhere.iterdir()) == []


def test_a_report_of_many_runs_is_not_written_through_a_link(
    run: Path, capsys: pytest.CaptureFixture[str]
):
    (run.parent / "site").mkdir()
    (run.parent / "report").symlink_to(run.parent / "site")
    assert "report is a link to" in sentence(capsys, "report", run.parent)
    assert list((run.parent / "site").iterdir()) == []


@pytest.mark.parametrize("name", ["logs", "runs", "runs/visr"])
def test_a_plan_is_not_written_through_a_link(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    plan, elsewhere = tmp_path / "plan", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (plan / name).parent.mkdir(parents=True)
    (plan / name).symlink_to(elsewhere)
    words = ["reproduce", "grid", "--only", "visr", "--seeds", "0", "--num-steps", "1300"]
    assert main([*words, "--out", str(plan)]) != 0
    assert f"{Path(name).name} is a link to another place" in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []


@pytest.mark.timeout(60)  # reading a pipe would block for ever
@pytest.mark.parametrize("name", ["metrics.csv", "portrait.safetensors", "tasks/a.json"])
def test_a_pipe_in_a_run_does_not_block(name: str, run: Path, capsys: pytest.CaptureFixture[str]):
    (run / name).unlink(missing_ok=True)
    (run / name).parent.mkdir(exist_ok=True)
    os.mkfifo(run / name)
    said = sentence(capsys, "report", run)
    assert name in said
    assert "It is a pipe or a device" in said


def test_a_device_in_a_run_is_refused(run: Path, capsys: pytest.CaptureFixture[str]):
    (run / "metrics.csv").unlink()
    (run / "metrics.csv").symlink_to("/dev/zero")
    assert "It is a pipe or a device" in sentence(capsys, "report", run)


@pytest.mark.timeout(60)
def test_a_pipe_instead_of_the_newest_checkpoint_falls_back_to_the_previous_one(
    run: Path, caplog: pytest.LogCaptureFixture
):
    os.mkfifo(run / "checkpoints" / "999999999999.safetensors")
    assert main(["infer", str(run), "--reward", "row"]) == 0
    assert "999999999999.safetensors is damaged" in caplog.text


def test_writing_to_a_link_replaces_the_link_and_not_its_target(tmp_path: Path):
    (tmp_path / "ours.txt").write_text(PRECIOUS)
    (tmp_path / "task.json").symlink_to(tmp_path / "ours.txt")
    write_json(tmp_path / "task.json", {"a": 1})
    assert not (tmp_path / "task.json").is_symlink()
    assert (tmp_path / "ours.txt").read_text() == PRECIOUS
