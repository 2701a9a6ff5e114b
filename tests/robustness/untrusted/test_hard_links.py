"""A hard link in a run is a second name of a file outside: no command changes that file."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import os
import random
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.conftest import tiny
from visr import pretraining
from visr.cli import main
from visr.storage import lock, new_files, tables
from visr.storage.files import write_bytes

ROOT = Path(__file__).parents[3]
COMMANDS = {
    "pretrain": "pretrain --resume {} --num-steps 25000",
    "infer": "infer {} --reward row --name goal",
    "refine": "refine {} goal --num-updates 20",
    "evaluate": "evaluate {} goal",
    "finetune": "finetune {} --task goal --num-steps 64 --out {}/finetuned/new",
    "task": "task mix {} goal 1 --out {}/tasks/mixed.json",
    "play": "play {} --task goal --max-steps 3 --video {}/play.gif",
    "film": "play {} --task goal --max-steps 3 --video {}/play.mp4",
    "export": "export {} goal {}/goal.onnx",
    "pack": "pack {} {}/packed.safetensors",
    "report": "report {}",
    "explore": "explore {} --export {}/atlas.html --skills 2",
    "reproduce": "reproduce grid --only visr --seeds 0 --num-steps 1300 --out {}/plan",
}
"""The commands that write into a run."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which every command was given once, so that every file is there."""
    place = tmp_path_factory.mktemp("finished") / "run"
    pretraining.start(place, tiny())
    for words in COMMANDS.values():
        assert main(words.format(place, place).split()) == 0
    return place


@pytest.mark.parametrize("verb", COMMANDS)
def test_no_command_changes_a_file_through_a_hard_link(verb: str, finished: Path, tmp_path: Path):
    """Every file of the run, and every temporary name of older versions, is a hard link to the outside."""
    run, outside = shutil.copytree(finished, tmp_path / "run"), tmp_path / "outside"
    shutil.rmtree(run / "finetuned")
    shutil.copytree(run, outside)
    files = [path for path in outside.rglob("*") if path.is_file()]
    for path in files:
        name = run / path.relative_to(outside)
        name.unlink()
        os.link(path, name)
        with contextlib.suppress(FileExistsError):
            os.link(path, name.with_name(f"{name.name}.partial"))
    for name in ("run.lock", "play.partial.gif", "play.partial.mp4"):
        (outside / name).write_text("precious\n")
        os.link(outside / name, run / name)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    main(COMMANDS[verb].format(run, run).split())
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


def test_rows_are_appended_to_a_copy_of_a_table_with_a_second_name(tmp_path: Path):
    """As after `cp -al` or `rsync --link-dest`: the copy stays as it was."""
    tables.append_rows(tmp_path / "metrics.csv", ["num_steps"], [[1]])
    os.link(tmp_path / "metrics.csv", tmp_path / "backup.csv")
    tables.append_rows(tmp_path / "metrics.csv", ["num_steps"], [[2]])
    assert (tmp_path / "backup.csv").read_text() == "num_steps\n1\n"
    assert (tmp_path / "metrics.csv").read_text() == "num_steps\n1\n2\n"


def test_a_hard_link_as_a_lock_file_is_left_unchanged_and_locks_nothing(tmp_path: Path):
    (tmp_path / "ours").write_text("precious")
    os.link(tmp_path / "ours", tmp_path / "run.lock")
    with lock.held(tmp_path / "run.lock", str):
        assert (tmp_path / "run.lock").read_text().startswith("process ")
        assert lock.is_held(tmp_path / "run.lock")
    assert (tmp_path / "ours").read_text() == "precious"


def test_a_held_lock_with_a_second_name_still_excludes(tmp_path: Path):
    with lock.held(tmp_path / "run.lock", str):
        os.link(tmp_path / "run.lock", tmp_path / "backup.lock")
        with pytest.raises(Exception, match="process"):
            lock.acquire(tmp_path / "run.lock", str, 0.0)


_HERE, _EXCHANGE = -100, 2
"""Constants of renameat2(2)."""


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux's")
def test_a_directory_swapped_for_a_link_during_writes_leads_nowhere_else(tmp_path: Path):
    """An attacker swaps run/tasks for a link, again and again, while files are written."""
    run, outside = tmp_path / "run", tmp_path / "outside"
    (run / "tasks").mkdir(parents=True)
    outside.mkdir()
    new_files.confine(run)
    (run / "link").symlink_to(outside)
    exchange, over = ctypes.CDLL(None, use_errno=True).renameat2, threading.Event()

    def swap() -> None:
        names = (os.fsencode(run / "tasks"), os.fsencode(run / "link"))
        while not over.is_set():
            assert exchange(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0
            time.sleep(random.uniform(0, 4e-3))  # so that some writes find the directory in place

    attacker = threading.Thread(target=swap)
    attacker.start()
    done = 0
    try:
        for number in range(300):
            with contextlib.suppress(Exception):
                write_bytes(run / "tasks" / f"{number}.json", b"{}")
                tables.append_rows(run / "tasks" / "rows.csv", ["num_steps"], [[number]])
                done += 1
    finally:
        over.set()
        attacker.join()
    assert done > 0
    assert list(outside.iterdir()) == []


def test_stale_temporary_files_are_removed_and_those_in_use_are_kept(tmp_path: Path):
    for name in ("a.json.partial", "a.json.0123abcd.partial", "b.json.0123abcd.partial"):
        (tmp_path / name).write_text("cut sh")
    with new_files.replacing(tmp_path / "a.json") as file:
        file.write(b"{}")
        write_bytes(tmp_path / "a.json", b"[]")  # another process
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "b.json.0123abcd.partial"]
    assert (tmp_path / "a.json").read_bytes() == b"{}"


WRITERS = {
    "write_text",
    "write_bytes",
    "touch",
    "savefig",
    "mkstemp",
    "NamedTemporaryFile",
    "tofile",
}
ALLOWED = {
    "visr/storage/new_files.py": "the one way",
    "visr/storage/lock.py": "a lock file that has one name",
    "visr/cli.py": "/dev/null",
    "visr/play/onnx.py": "/dev/null",
    "visr/report/style.py": "into memory",
}
"""Files that may open files for writing, and why."""


def opens_for_writing(call: ast.AST) -> bool:
    """Whether a call may open a file for writing; descriptors that are open already do not count."""
    if isinstance(call, ast.Attribute):
        return call.attr in ("O_WRONLY", "O_RDWR")
    if not isinstance(call, ast.Call):
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    text = ast.unparse(call)
    if name in WRITERS and not (name == "write_bytes" and isinstance(call.func, ast.Name)):
        return True
    if name != "open":
        return False
    modes = {n.value for n in ast.walk(call) if isinstance(n, ast.Constant)}
    has_mode = any(isinstance(m, str) and set("wax+") & set(m) and len(m) <= 3 for m in modes)
    is_new = text.startswith("open(new_files.create(")
    return has_mode and not is_new


def test_only_one_module_opens_files_for_writing():
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "visr").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if opens_for_writing(node)
    }
    assert found == ALLOWED.keys()


@pytest.mark.parametrize(
    "line",
    ["open(path, 'w')", "path.open('ab')", "path.write_text('')", "os.open(p, os.O_WRONLY)",
     "open(mode='x', file=p)", "path.write_bytes(b'')"],
)  # fmt: skip
def test_the_search_finds_every_way_to_write(line: str):
    assert any(map(opens_for_writing, ast.walk(ast.parse(line))))
