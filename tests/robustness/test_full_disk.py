"""Full and read-only disks: exit code 2, one sentence, and no earlier file is lost."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.robustness.bad_input.files import snapshot, task_with
from visr.cli import main
from visr.storage.run_dir import RunDir
from visr.training import checkpoint


def one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    err = re.sub(r"(?m)^pre-training: .*\n", "", err)  # a slow machine prints progress
    assert err.startswith("visr: ")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1, err
    assert err.rstrip("\n").endswith((".", "?"))
    assert "Traceback" not in err
    return err


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths, such as the default runs/, are below tmp_path."""
    monkeypatch.chdir(tmp_path)


# --------------------------------------------------------------- real small file systems


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mount a file system of a given size; skip the test where mounting is not permitted."""
    place = tmp_path / "disk"

    def mount(kibibytes: int) -> Path:
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(place)]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except FileNotFoundError:
            pytest.skip("there is no `mount` here: real full disks go untested")
        if done.returncode:
            pytest.skip(f"mounting is not permitted: real full disks go untested ({done.stderr!r})")
        return place

    yield mount
    if os.path.ismount(place):
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> None:
    """Leave no byte free."""
    with open(place / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017


def test_pretraining_onto_a_full_disk_leaves_nothing_there(
    small_disk: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
):
    disk = small_disk(64)
    fill(disk)
    assert main(["pretrain", "--preset", "smoke", "--out", str(disk / "run")]) == 2
    assert f"Cannot write {disk / 'run'}" in (sentence := one_sentence(capsys))
    assert "No space left on device; free some space or choose another place." in sentence
    assert [p.name for p in disk.iterdir()] == ["filler"]


# config.json fits; then not the first checkpoint; then not TensorBoard's file; then not the next one
@pytest.mark.parametrize("kibibytes", [64, 276, 400])
def test_a_disk_that_fills_up_while_training_is_one_sentence(
    kibibytes: int, small_disk: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
):
    run = RunDir(small_disk(kibibytes) / "run")
    assert main(["pretrain", "--preset", "smoke", "--out", str(run.path)]) == 2
    assert "No space left on device" in one_sentence(capsys)
    assert not list(run.path.rglob("*.partial"))
    for file in run.checkpoints():
        checkpoint.load(file)  # whole


def test_a_run_that_stopped_at_a_full_disk_continues_elsewhere_with_the_same_result(
    trained: Path,
    small_disk: Callable[[int], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    run = RunDir(small_disk(800) / "run")
    unused = shutil.ignore_patterns("*020480*", "tensorboard", "recorded.safetensors")
    shutil.copytree(trained, run.path, ignore=unused)
    earlier = checkpoint.newest(run).read_bytes()
    assert main(["pretrain", "--resume", str(run.path)]) == 2
    sentence = one_sentence(capsys)
    assert f"Cannot write {run.checkpoint(20_480)}: No space left on device" in sentence
    assert checkpoint.newest(run).read_bytes() == earlier
    assert len(list((run.path / "checkpoints").iterdir())) == 1

    shutil.copytree(run.path, tmp_path / "moved")
    assert main(["pretrain", "--resume", str(tmp_path / "moved"), "--json"]) == 0
    moved, whole = RunDir(tmp_path / "moved"), RunDir(trained)
    (a, _), (b, _) = (checkpoint.load(checkpoint.newest(r)) for r in (moved, whole))
    assert all(torch.equal(a[name], b[name]) for name in b)
    assert moved.metrics.read_bytes() == whole.metrics.read_bytes()
    assert moved.evaluation.read_bytes() == whole.evaluation.read_bytes()


@pytest.fixture
def asked(
    trained: Path, small_disk: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> Path:
    """A run on a small disk, with a task and its evaluation."""
    run = small_disk(2048) / "run"
    shutil.copytree(trained, run, ignore=shutil.ignore_patterns("recorded.safetensors"))
    for line in ("infer {} --reward goal:2,3 --name it", "evaluate {} it"):
        assert main(line.format(run).split()) == 0
    capsys.readouterr()
    return run


AGAIN = {
    "infer": "infer {} --reward goal:7,7 --name it",
    "evaluate": "evaluate {} it --gamma 0.5",
    "report": "report {}",
}


@pytest.mark.parametrize("verb", AGAIN)
def test_a_full_disk_leaves_earlier_tasks_and_evaluations_as_they_were(
    verb: str, asked: Path, capsys: pytest.CaptureFixture[str]
):
    fill(asked.parent)
    before = snapshot(asked)
    assert main(AGAIN[verb].format(asked).split()) == 2
    assert "No space left on device" in one_sentence(capsys)
    after = snapshot(asked)
    assert {name: after[name] for name in before} == before
    assert not list(asked.rglob("*.partial"))


@pytest.mark.parametrize("verb", ["infer", "evaluate", "pretrain", "resume"])
def test_a_read_only_disk_is_one_sentence(
    verb: str, asked: Path, capsys: pytest.CaptureFixture[str]
):
    (asked / "checkpoints" / "000000020480.safetensors").unlink()  # so that resuming has work to do
    before = snapshot(asked)
    subprocess.run(["mount", "-o", "remount,ro", str(asked.parent)], check=True)
    train = {
        "pretrain": "pretrain --preset smoke --out {}-new",
        "resume": "pretrain --resume {}",
    }
    assert main((AGAIN | train)[verb].format(asked).split()) == 2
    sentence = one_sentence(capsys)
    assert "Read-only file system; free some space or choose another place." in sentence
    assert snapshot(asked) == before


# ------------------------------------------------------------------- simulated failures


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_the_earlier_task_stays_when_a_write_fails(
    call: str,
    code: int,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    from visr.storage import new_files

    task_with()(tmp_path)
    before = snapshot(tmp_path)

    def refuse(path: Any, *rest: Any, **more: Any) -> Any:
        raise OSError(code, os.strerror(code))

    def refuse_writing(path: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
        return open(path, mode, *rest, **more) if "r" in mode else refuse(path)

    if call == "open":
        monkeypatch.setattr(new_files, "open", refuse_writing, raising=False)
    else:
        monkeypatch.setattr(os, call, refuse)
    line = ["infer", str(trained), "--reward", "row", "--out", str(tmp_path / "task.json")]
    assert main(line) == 2
    monkeypatch.undo()
    assert f"{tmp_path / 'task.json'}: {os.strerror(code)}" in one_sentence(capsys)
    assert snapshot(tmp_path) == before
