"""What a run leaves on disk: all or nothing, byte for byte, and never trusted when read."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from visr.config import RunConfig
from visr.errors import UserError
from visr.storage import files
from visr.storage.files import read_json, write_bytes, write_json
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir, evaluation_of
from visr.storage.tables import append_rows, read_rows, truncate_after

COLUMNS = ["num_steps", "loss"]
ROWS = [[100, 0.1 + 0.2], [200, 1e-300], [300, -5]]
TABLE = b"num_steps,loss\n100,0.30000000000000004\n200,1e-300\n300,-5\n"


# ------------------------------------------------------------------------ atomic writes


def test_what_is_written_is_read_and_nothing_else_is_left(tmp_path: Path):
    path = tmp_path / "deep" / "down" / "file"
    write_bytes(path, b"one")
    write_bytes(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


class FullDisk(io.FileIO):
    """Takes half of what it is given."""

    def write(self, content: Any, /) -> int:
        super().write(bytes(content)[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_trace(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_bytes(tmp_path / "file", b"old")

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    if step in ("open", "write"):
        opened = refuse if step == "open" else FullDisk
        monkeypatch.setattr(files, "open", opened, raising=False)
    else:
        monkeypatch.setattr(os, step, refuse)
    with pytest.raises(UserError, match=r"Cannot write .*/file: (Read-only|No space left)"):
        write_bytes(tmp_path / "file", b"new and longer")
    monkeypatch.undo()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_file_is_synced_before_it_takes_the_old_ones_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        done.append("sync directory" if is_directory else "sync")
        sync(descriptor)

    def rename(source: Any, target: Any) -> None:
        done.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    write_bytes(tmp_path / "file", b"new")
    assert done == ["sync", "rename", "sync directory"]


@pytest.mark.parametrize("place", [".", "/", ""])
def test_a_place_without_a_name_is_refused(place: str):
    with pytest.raises(UserError, match="Is a directory"):
        write_bytes(Path(place), b"")


def test_equal_content_is_equal_json_and_nan_is_no_content(tmp_path: Path):
    write_json(tmp_path / "a.json", {"b": 1, "a": [0.1, None]})
    assert (tmp_path / "a.json").read_bytes().endswith(b"}\n")
    assert read_json(tmp_path / "a.json") == {"b": 1, "a": [0.1, None]}
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert read_json(tmp_path / "a.json")["b"] == 1


# ----------------------------------------------------------------------- tables of rows


def test_rows_are_appended_under_one_header_and_read_back(tmp_path: Path):
    path = tmp_path / "metrics.csv"
    assert read_rows(path) == []
    append_rows(path, COLUMNS, ROWS[:1])
    append_rows(path, COLUMNS, ROWS[1:])
    assert path.read_bytes() == TABLE
    assert read_rows(path) == [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]


def test_a_half_written_last_line_is_no_row(tmp_path: Path):
    path = tmp_path / "metrics.csv"
    path.write_bytes(TABLE + b"400,0.00")
    assert len(read_rows(path)) == 3
    path.write_bytes(b"num_st")
    assert read_rows(path) == []


@pytest.mark.parametrize("cut", range(len(TABLE)))
def test_rows_cut_anywhere_and_written_again_are_the_same_bytes(cut: int, tmp_path: Path):
    """A process killed in the middle of a row, resumed from the checkpoint of step 100."""
    path = tmp_path / "metrics.csv"
    path.write_bytes(TABLE[:cut])
    truncate_after(path, 100)
    known = len(read_rows(path))
    append_rows(path, COLUMNS, ROWS[known:])
    assert known == (cut >= TABLE.index(b"200"))
    assert path.read_bytes() == TABLE


@pytest.mark.parametrize(
    ("num_steps", "lines"), [(0, 1), (99, 1), (100, 2), (250, 3), (300, 4), (10**12, 4)]
)
def test_rows_after_a_checkpoint_are_forgotten_byte_for_byte(
    num_steps: int, lines: int, tmp_path: Path
):
    path = tmp_path / "metrics.csv"
    path.write_bytes(TABLE)
    truncate_after(path, num_steps)
    assert path.read_bytes() == b"".join(TABLE.splitlines(keepends=True)[:lines])


def test_forgetting_rows_of_a_table_that_is_not_there_makes_none(tmp_path: Path):
    truncate_after(tmp_path / "metrics.csv", 100)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00\x01\n", b"num_steps\n\x80,1\n", b"num_steps\nx\n", b"num_steps\n1,2\n",
     b"num_steps,loss\n1\n", b"num_steps\n\x00\n"],
)  # fmt: skip
def test_a_damaged_table_is_a_user_error_that_names_it(content: bytes, tmp_path: Path):
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"metrics\.csv is damaged"):
        read_rows(path)


@pytest.mark.parametrize("content", [b"\xff\n", b"num_steps\nx\n", b"num_steps\n\n"])
def test_a_damaged_table_is_not_cut(content: bytes, tmp_path: Path):
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"metrics\.csv is damaged"):
        truncate_after(path, 100)
    assert path.read_bytes() == content


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=some.binary(max_size=60))
def test_whatever_a_table_holds_reading_it_raises_nothing_but_user_errors(
    content: bytes, tmp_path: Path
):
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    for read in (read_rows, lambda path: truncate_after(path, 100)):
        with contextlib.suppress(UserError):
            read(path)


def test_a_directory_in_a_files_place_is_a_user_error(tmp_path: Path):
    for read in (read_rows, read_json, lambda path: truncate_after(path, 1), Task.load):
        with pytest.raises(UserError, match="Is a directory"):
            read(tmp_path)


# ---------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b'{"a": 1', b"[" * 100_000, b"1" * 5_000, b"\xef\xbb\xbf{}"]
)
def test_damaged_json_is_a_user_error_that_names_it(content: bytes, tmp_path: Path):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UserError, match=r"config\.json is damaged"):
        read_json(tmp_path / "config.json")


def test_json_of_enormous_size_is_not_even_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "config.json"
    path.write_text("{}")
    os.truncate(path, 64 * 1024 * 1024 + 1)  # sparse: takes no room
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: pytest.fail("read"))
    with pytest.raises(UserError, match="larger than"):
        read_json(path)


# --------------------------------------------------------------------------- directories


def test_a_new_run_can_be_opened_and_says_what_was_asked_for(tmp_path: Path):
    config = RunConfig(env="Taxi-v4")
    run = RunDir.create(tmp_path / "run", config)
    assert RunDir.open(str(run.path)).config() == config
    assert run.checkpoints() == run.task_files() == []
    assert run.last_row(run.metrics) == {}


def test_a_run_may_begin_in_an_empty_directory_but_not_in_another(tmp_path: Path):
    RunDir.create(tmp_path, RunConfig())
    before = (tmp_path / "config.json").read_bytes()
    with pytest.raises(UserError, match=f"--resume {tmp_path}"):
        RunDir.create(tmp_path, RunConfig())
    assert (tmp_path / "config.json").read_bytes() == before


def test_a_run_that_cannot_begin_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UserError, match="No space left"):
        RunDir.create(tmp_path / "run", RunConfig())
    assert not (tmp_path / "run").exists()


def test_the_last_two_checkpoints_are_kept_and_half_written_ones_are_not(tmp_path: Path):
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


def test_evaluations_live_beside_their_tasks_and_are_not_tasks(tmp_path: Path):
    run = RunDir(tmp_path)
    task = run.task("boxes-7")
    write_json(task, {})
    write_json(evaluation_of(task), {})
    assert evaluation_of(task) == tmp_path / "tasks" / "boxes-7.evaluation.json"
    assert run.task_files() == [task]


# --------------------------------------------------------------------------------- tasks

TASK: dict[str, Any] = {
    "format": 1, "name": "goal", "env": "visr/Grid-v0", "w": [0.6, 0.8], "method": "by hand",
    "r_squared": 0.5, "condition_number": None, "standard_error": [0.1, None], "num_steps": 4,
    "num_rewarded": 1, "reward": [0.0, 1.0, 0.0, 0.0],
}  # fmt: skip


def load(tmp_path: Path, content: Any) -> Task:
    (tmp_path / "task.json").write_text(json.dumps(content))
    return Task.load(tmp_path / "task.json")


def test_a_task_is_what_its_file_says(tmp_path: Path):
    task = load(tmp_path, TASK)
    np.testing.assert_array_equal(task.w, [0.6, 0.8])
    np.testing.assert_array_equal(task.standard_error, [0.1, np.inf])
    assert task.condition_number == np.inf
    assert task.to_dict() == TASK
    task.save(tmp_path / "again.json")
    assert Task.load(tmp_path / "again.json").to_dict() == TASK


@pytest.mark.parametrize(
    "change",
    [
        {"num_steps": float("inf")}, {"num_steps": float("nan")}, {"num_steps": "many"},
        {"num_rewarded": None}, {"w": [1.0, 1.0]}, {"w": []}, {"w": [[0.6, 0.8]]}, {"w": "x"},
        {"w": [float("nan"), 1]}, {"w": [10**400, 0]}, {"w": [1e308, 1e308]}, {"w": None},
        {"standard_error": [0.1]}, {"standard_error": 3}, {"standard_error": ["x", 1]},
        {"r_squared": None}, {"r_squared": float("nan")}, {"r_squared": float("-inf")},
        {"condition_number": "x"}, {"condition_number": 10**400}, {"reward": [1e308] * 4},
        {"reward": [[1.0], [2.0, 3.0]]}, {"reward": {}}, {"format": 2}, {"format": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_task_that_cannot_be_is_a_user_error_that_names_its_file(
    change: dict[str, Any], tmp_path: Path
):
    with pytest.raises(UserError, match=r"task\.json is (not )?a task"):
        load(tmp_path, TASK | change)


@pytest.mark.parametrize("field", sorted(TASK.keys() - {"reward"}))
def test_a_task_without_one_of_its_fields_is_a_user_error(field: str, tmp_path: Path):
    with pytest.raises(UserError, match=field):
        load(tmp_path, {name: value for name, value in TASK.items() if name != field})


FLOATS = some.floats(allow_subnormal=False)  # training before us may have turned subnormals off
json_values = some.recursive(
    some.none() | some.booleans() | some.integers() | FLOATS | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(field=some.sampled_from(sorted(TASK)), value=json_values)
def test_whatever_a_task_file_says_loading_it_raises_nothing_but_user_errors(
    field: str, value: Any, tmp_path: Path
):
    try:
        task = load(tmp_path, TASK | {field: value})
    except UserError:
        return
    assert np.linalg.norm(task.w) == pytest.approx(1)
    assert np.isfinite(task.r_squared)
