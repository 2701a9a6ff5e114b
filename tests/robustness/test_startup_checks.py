"""Little memory, a deleted working directory, environments that exit: one sentence, exit code 2."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import visr
from visr import startup_checks
from visr.cli import VERBS, main
from visr.errors import UserError

VISR = [sys.executable, "-P", "-m", "visr"]
EXITS = """
import gymnasium, sys
from gymnasium import spaces

if {where!r} == "import":
    sys.exit(0)

class Exits(gymnasium.Env):
    observation_space, action_space = spaces.Discrete(3), spaces.Discrete(2)

    def __init__(self, render_mode=None):
        if {where!r} == "init":
            sys.exit(0)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        if {where!r} == "reset":
            sys.exit(0)
        return 0, {{}}

    def step(self, action):
        if {where!r} == "step":
            sys.exit(0)
        return 1, 0.0, False, False, {{}}
"""


def limited(kind: int, size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(kind, (size, size))


def refused(words: list[str], **options: object) -> str:
    done = subprocess.run([*VISR, *words], capture_output=True, text=True, check=False, **options)  # pyright: ignore
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("kind", "name"), [(resource.RLIMIT_AS, "ulimit -v"), (resource.RLIMIT_DATA, "ulimit -d")]
)
def test_too_little_memory_is_one_sentence_before_torch_is_imported(kind: int, name: str):
    said = refused(["infer", "x", "--reward", "row"], preexec_fn=limited(kind, 300_000_000))
    assert "There is not enough memory: this process may use 300 MB" in said
    assert name in said


@pytest.mark.parametrize("size", [60, 100, 120, 140])
@pytest.mark.parametrize("kind", [resource.RLIMIT_AS, resource.RLIMIT_DATA])
@pytest.mark.parametrize("words", [["list", "envs"], ["report", "x"]])
def test_commands_without_torch_notice_it_before_numpy_is_imported(
    words: list[str], kind: int, size: int
):
    """OpenBLAS, which numpy loads, would end or interrupt the process."""
    said = refused(words, preexec_fn=limited(kind, size * 10**6))
    assert "There is not enough memory" in said


def test_a_small_container_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "memory.max").write_text("134217728\n")
    monkeypatch.setattr(startup_checks, "_LIMITS", (str(tmp_path / "memory.max"),))
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(UserError, match="134 MB of memory"):
        startup_checks.check()
    (tmp_path / "memory.max").write_text("max\n")
    startup_checks.check()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_notices_that_its_working_directory_was_deleted(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    before = os.getcwd()
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    try:
        (tmp_path / "gone").rmdir()
        assert main([verb]) == 2
        assert "The working directory was deleted" in capsys.readouterr().err
        assert main(["--help"]) == 0
    finally:
        os.chdir(before)


@pytest.mark.parametrize("where", ["import", "init", "reset", "step"])
def test_an_environment_that_exits_is_an_error(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VISR_TRUST", raising=False)
    (tmp_path / "exits.py").write_text(EXITS.format(where=where))
    words = [
        "pretrain",
        "exits.py:Exits",
        "--num-steps",
        "64",
        "--num-envs",
        "2",
        "--algorithm",
        "visr",
    ]
    assert main([*words, "--out", "run"]) == 2
    assert "SystemExit" in capsys.readouterr().err
    assert main(["doctor", "exits.py:Exits", "--steps", "10"]) == 2
    with pytest.raises(UserError, match="SystemExit"):
        visr.pretrain("exits.py:Exits", num_steps=64, num_envs=2, algorithm="visr", out="other")


def test_a_command_that_is_ended_by_sys_exit_has_not_succeeded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("visr.commands.list._entries", lambda _: sys.exit(0))
    assert main(["list", "envs"]) == 2
    assert "ended it with sys.exit(0)" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [3, None, b"x", "a\0b"])
def test_a_task_is_loaded_from_a_path_only(wrong: object):
    with pytest.raises(UserError, match="path = "):
        visr.Task.load(wrong)  # pyright: ignore
