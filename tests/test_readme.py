"""The program and the commands of the README run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from visr.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text()
TINY_TRAINING = shlex.split("--num-steps 64 --num-envs 3 --batch-size 2 --unroll-length 4")
TINY_ATARI = shlex.split("--num-rewarded-envs 1 --max-episode-frames 600 --num-threads 1")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_python_program_runs(tmp_path: Path):
    (code,) = blocks("python")
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 3


def test_the_first_commands_are_the_demo_and_the_tests():
    assert re.findall(r"^make \w+", blocks("sh")[0], flags=re.MULTILINE) == [
        "make demo",
        "make test",
    ]


def test_the_commands_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("visr ")]
    assert [words[0] for words in commands[:4]] == ["pretrain", "infer", "evaluate", "report"]
    for words in commands:
        serves = words[0] == "explore" and "--export" not in words
        if not serves and "--cluster" not in words:  # tests/test_docs.py runs that one
            assert main(tiny(words)) == 0, words
    assert (tmp_path / "pacman.mp4").is_file()
    for run in ("first", "pacman"):
        assert (tmp_path / f"runs/{run}/report/index.html").is_file()


def tiny(words: list[str]) -> list[str]:
    """The same command with numbers so small that it takes seconds."""
    verb, is_pacman = words[0], any("acman" in word for word in words)
    words = ["smoke" if word == "demo" else word for word in words]
    if verb == "pretrain" and is_pacman:
        return [*words, *TINY_TRAINING, *TINY_ATARI]
    if verb == "pretrain" and "CartPole-v1" in words:
        return [*words, *TINY_TRAINING, "--recorded-steps", "500"]
    if verb == "evaluate" and is_pacman:
        return [*words, "--episodes", "1", "--rewarded-steps", "1200"]
    if verb == "pretrain":
        return [*words, "--num-steps", "2560"]
    if verb == "infer" and "env" in words:
        return [*words, "--episodes", "5", "--steps", "500", "--trials", "1"]
    extra = {
        "explore": ["--skills", "2"],
        "play": ["--max-steps", "5"],
        "doctor": ["--steps", "50"],
    }
    return [*words, *extra.get(verb, [])]
