"""Only one process trains in a run; readers are never blocked."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from visr.cli import main
from visr.errors import UserError
from visr.storage import lock
from visr.storage.files import write_json
from visr.storage.run_dir import RunDir

HOLD = """
import sys
from visr.storage.run_dir import RunDir
with RunDir(sys.argv[1]).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(run: Path) -> subprocess.Popen[str]:
    """Another process that holds the run's lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_told_who_trains_and_readers_are_not(
    trained: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    assert not run.is_in_use
    process = holder(run.path)
    try:
        assert run.is_in_use
        for _ in range(2):
            assert main(["pretrain", "--resume", str(run.path)]) == 2
            sentence = capsys.readouterr().err
            assert sentence.count("\n") == 1
            assert (
                f"{run.path} is in use: process {process.pid} on {socket.gethostname()}" in sentence
            )
            assert "wait for it, stop it, or choose another directory" in sentence
        for line in (["infer", str(run.path), "--reward", "row"], ["task", "list", str(run.path)]):
            assert main(line) == 0
        capsys.readouterr()
    finally:
        process.send_signal(signal.SIGKILL)  # the lock needs no cleaning up
        process.communicate()
    assert main(["pretrain", "--resume", str(run.path)]) == 0
    assert not (run.path / "run.lock").exists()


FORK = """
import os, sys, time
from visr.storage.run_dir import RunDir
with RunDir(sys.argv[1]).locked():
    child = os.fork()
    if child == 0:
        print("forked", os.getpid(), flush=True)
        time.sleep(600)
    time.sleep(600)
"""


def test_a_forked_child_does_not_hold_the_lock_of_its_dead_parent(trained: Path, tmp_path: Path):
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    command = [sys.executable, "-c", FORK, str(run.path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline().split()[1])
    try:
        assert run.is_in_use
        process.kill()
        process.wait()
        os.kill(child, 0)  # it lives
        assert not run.is_in_use
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


END = """
import os, sys
from pathlib import Path
from visr.storage import lock
path = Path(sys.argv[1])
with lock.held(path, str):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        print(lock.is_held(path))
"""


def test_a_forked_child_that_ends_leaves_the_lock_to_its_parent(tmp_path: Path):
    command = [sys.executable, "-c", END, str(tmp_path / "lock")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    assert not (tmp_path / "lock").exists()


def test_a_run_about_to_begin_is_held_too_and_leaves_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with RunDir(tmp_path / "run").locked():
        assert main(["pretrain", "--preset", "smoke", "--out", str(tmp_path / "run")]) == 2
        assert f"is in use: process {os.getpid()}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_removed_lock_file_is_replaced_and_still_excludes(tmp_path: Path):
    path = tmp_path / "lock"
    with lock.held(path, str):
        path.unlink()
        with lock.held(path, str), pytest.raises(UserError), lock.held(path, str, 0.0):
            pass
        assert not path.exists()


def test_an_unreadable_note_in_the_lock_file_is_not_shown(tmp_path: Path):
    path = tmp_path / "lock"
    with lock.held(path, str):
        path.write_text("\x1b[31mprocess\n" * 100)
        with pytest.raises(UserError, match=re.compile("^another process$")):
            lock.acquire(path, str, 0.0)


def write_many(path: Path, letter: str) -> None:
    for size in range(200):
        write_json(path, {"text": letter * 50 * size})


def test_two_concurrent_writers_never_leave_a_mixed_file(tmp_path: Path):
    """As two `visr infer` with one name do."""
    from visr.storage.files import read_json

    path = tmp_path / "task.json"
    write_json(path, {"text": ""})
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_many, args=(path, letter)) for letter in "ab"]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert len(set(read_json(path)["text"])) <= 1
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert [p.name for p in tmp_path.iterdir()] == ["task.json"]
