"""The short version of the failpoints in `make torture`: some calls of storage fail in every verb but one."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.torture import file_calls
from tests.robustness.torture.failpoints import Failpoint, spread
from tests.robustness.torture.file_calls import Call, Numbered
from visr.errors import UserError
from visr.storage.files import read_json, write_json
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows
from visr.training import checkpoint

ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(900)  # busy machines are slow
def test_after_a_failed_call_every_verb_says_so_and_a_retry_ends_with_the_same_bytes():
    # `reproduce` starts processes, which is slow: `make torture` lets its calls fail
    command = [sys.executable, "-m", "tests.robustness.torture.failpoints", "--faults", "22"]
    command += ["--only", "pretrain", "replay", "resume", "infer", "evaluate", "finetune", "refine"]
    command += ["report", "pack"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["faults"], figures["losses"]) == (22, 0)


def calls_of(tmp_path: Path, act: object, failpoint: Failpoint) -> tuple[str, ...]:
    inside = Numbered(tmp_path / "calls.txt", file_calls.is_of_storage, failpoint)
    try:
        with inside:
            act()  # pyright: ignore
    finally:
        noted = inside.noted()
    return noted


@pytest.mark.parametrize("fault", ["EIO", "ENOMEM", "ENOSPC", "short", "torn"])
def test_a_file_is_the_old_one_or_the_new_one_whichever_call_fails(fault: str, tmp_path: Path):
    path = tmp_path / "new" / "x.json"
    whole = calls_of(tmp_path, lambda: write_json(path, {"a": 1}), Failpoint())
    assert {"open", "mkdir", "write", "fsync", "rename", "lock"} <= set(whole)
    for n in range(1, len(whole) + 1):
        write_json(path, {"a": 0})
        try:
            calls_of(tmp_path, lambda: write_json(path, {"a": 1}), Failpoint(fault, n))
        except UserError as error:
            assert "Cannot write" in str(error)  # noqa: PT017
        assert read_json(path) in ({"a": 0}, {"a": 1})
        assert [p.name for p in path.parent.iterdir()] == ["x.json"]


@pytest.mark.parametrize("fault", ["EIO", "ENOSPC", "torn"])
def test_a_row_is_appended_whole_or_not_at_all(fault: str, tmp_path: Path):
    path = tmp_path / "x.csv"
    append_rows(path, ["a", "b"], [[1, 2]])
    before = path.read_text()
    whole = calls_of(tmp_path, lambda: append_rows(path, ["a", "b"], [[3, 4]]), Failpoint())
    assert path.read_text() == before + "3,4\n"
    for n in range(1, len(whole) + 1):
        path.write_text(before)
        try:
            calls_of(tmp_path, lambda: append_rows(path, ["a", "b"], [[3, 4]]), Failpoint(fault, n))
        except UserError as error:
            assert "Cannot write" in str(error)  # noqa: PT017
        assert path.read_text() in (before, before + "3,4\n")


def test_a_checkpoint_that_cannot_be_read_is_damaged_but_lack_of_memory_is_not(
    trained: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    run = RunDir(trained)
    older, newest = run.checkpoints()

    def reading(fault: str) -> Numbered:
        act = Failpoint(fault, 1)
        return Numbered(tmp_path / "calls.txt", lambda call: call.path == str(newest), act)

    with reading("ENOMEM"), pytest.raises(UserError, match="Cannot allocate memory; end other"):
        checkpoint.newest_intact(run)
    with reading("EIO"):
        assert checkpoint.newest_intact(run)[0] == older
    assert f"{newest} is damaged or cut short" in caplog.text


def test_failpoints_reach_buffered_writes_and_leave_other_files_alone(tmp_path: Path):
    def fail(_number: int, call: Call) -> None:
        if call.kind == "write":
            raise OSError(errno.EIO, os.strerror(errno.EIO), call.path)

    def only(call: Call) -> bool:
        return call.path.endswith("bad.txt")

    with Numbered(tmp_path / "calls.txt", only, fail) as _:
        with open(tmp_path / "good.txt", "w") as file:
            file.write("x")
        file = open(tmp_path / "bad.txt", "w")  # noqa: SIM115
        file.write("x")
        with pytest.raises(OSError, match="Input/output error"):
            file.close()
    assert (tmp_path / "good.txt").read_text() == "x"


def test_a_spread_has_every_kind_of_call_and_fault_before_any_twice():
    import random

    points = [(n, kind, fault) for n, kind in enumerate("aabbbbbb", 1) for fault in ("EIO", "torn")]
    chosen = [points[i][1:] for i in spread(points, 4, random.Random(0))]
    assert sorted(chosen) == [("a", "EIO"), ("a", "torn"), ("b", "EIO"), ("b", "torn")]


def test_a_checkpoint_is_not_saved_without_the_checksum_of_a_table(trained: Path, tmp_path: Path):
    """A table that cannot be read now is an error; a damaged one does not stop training."""
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    act = Failpoint("EIO", 1)
    with (
        Numbered(tmp_path / "calls.txt", lambda call: call.path == str(run.metrics), act),
        pytest.raises(UserError, match=r"Cannot read .*metrics.csv: Input/output error"),
    ):
        run.table_checksums(10**9)
    run.metrics.write_text("num_steps\nspoilt\n")
    assert run.table_checksums(10**9).keys() == {"evaluation.csv"}
