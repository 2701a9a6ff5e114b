"""Whole files: written completely or not at all, and read without trust."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from visr.errors import UserError
from visr.storage import new_files
from visr.storage.files import read_json, write_bytes, write_json
from visr.storage.records.task import Task
from visr.storage.tables import read_rows, truncate_after


def test_a_written_file_is_read_back_and_no_temporary_file_is_left(tmp_path: Path):
    path = tmp_path / "deep" / "down" / "file"
    write_bytes(path, b"one")
    write_bytes(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


class FullDisk(io.FileIO):
    """Writes half of the content, then fails."""

    def write(self, content: Any, /) -> int:
        super().write(bytes(content)[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_temporary_one(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_bytes(tmp_path / "file", b"old")

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    if step in ("open", "write"):
        opened = refuse if step == "open" else FullDisk
        monkeypatch.setattr(new_files, "open", opened, raising=False)
    else:
        monkeypatch.setattr(os, step, refuse)
    with pytest.raises(UserError, match=r"Cannot write .*/file: (Read-only|No space left)"):
        write_bytes(tmp_path / "file", b"new and longer")
    monkeypatch.undo()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_file_is_synced_before_it_replaces_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        done.append("sync directory" if is_directory else "sync")
        sync(descriptor)

    def rename(source: Any, target: Any, **places: int) -> None:
        done.append("rename")
        replace(source, target, **places)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    write_bytes(tmp_path / "file", b"new")
    assert done == ["sync", "rename", "sync directory"]


@pytest.mark.parametrize("place", [".", "/", ""])
def test_a_path_without_a_file_name_is_refused(place: str):
    with pytest.raises(UserError, match="Is a directory"):
        write_bytes(Path(place), b"")


def test_json_is_read_back_and_nan_is_refused(tmp_path: Path):
    write_json(tmp_path / "a.json", {"b": 1, "a": [0.1, None]})
    assert (tmp_path / "a.json").read_bytes().endswith(b"}\n")
    assert read_json(tmp_path / "a.json") == {"b": 1, "a": [0.1, None]}
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert read_json(tmp_path / "a.json")["b"] == 1


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b'{"a": 1', b"[" * 100_000, b"1" * 5_000, b"\xef\xbb\xbf{}"]
)
def test_damaged_json_is_a_user_error_that_names_it(content: bytes, tmp_path: Path):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UserError, match=r"config\.json is damaged"):
        read_json(tmp_path / "config.json")


def test_a_json_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "config.json"
    path.write_text("{}")
    os.truncate(path, 64 * 1024 * 1024 + 1)  # sparse: needs no disk space
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: pytest.fail("read"))
    with pytest.raises(UserError, match="larger than"):
        read_json(path)


def test_a_directory_instead_of_a_file_is_a_user_error(tmp_path: Path):
    for read in (read_rows, read_json, lambda path: truncate_after(path, 1), Task.load):
        with pytest.raises(UserError, match="Is a directory"):
            read(tmp_path)
