"""What the README shows is what happens."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from visr.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_python_of_the_readme_runs(tmp_path: Path):
    (code,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 3


def test_the_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    commands = [
        shlex.split(line, comments=True)
        for block in blocks("sh")
        for line in block.splitlines()
        if line.startswith("visr ")
    ]
    verbs = [words[1] for words in commands]
    assert verbs[:4] == ["pretrain", "infer", "evaluate", "report"]
    assert verbs[4:8] == ["pretrain", "evaluate", "play", "report"]
    assert verbs[8:13] == ["doctor", "pretrain", "infer", "infer", "export"]
    assert verbs[13:] == ["explore", "explore", "pretrain"]
    for _, verb, *words in commands:
        if verb == "explore" and "--export" not in words:
            continue  # it serves until it is stopped
        arguments = ["smoke" if word == "demo" else word for word in words]
        assert main([verb, *arguments, *_smaller(verb, words)]) == 0, words
    assert (tmp_path / "pacman.mp4").is_file()
    for run in ("first", "pacman"):
        assert (tmp_path / f"runs/{run}/report/index.html").is_file()


def _smaller(verb: str, words: list[str]) -> tuple[str, ...]:
    """Minutes, or an afternoon, cut to seconds."""
    few = ("--num-steps", "64", "--num-envs", "3", "--batch-size", "2", "--unroll-length", "4")
    pacman = any("pacman" in word or "MsPacman" in word for word in words)
    if verb == "pretrain" and pacman:
        rest = ("--num-rewarded-envs", "1", "--max-episode-frames", "600", "--num-threads", "1")
        return (*few, *rest)
    if verb == "pretrain" and "--cluster" in words:
        return ("--num-steps", "1280")
    if verb == "pretrain" and "CartPole-v1" in words:
        return (*few, "--recorded-steps", "500")
    if verb == "evaluate" and pacman:
        return ("--episodes", "1", "--rewarded-steps", "1200")
    if verb == "explore":
        return ("--skills", "2")
    return ("--max-steps", "5") if verb == "play" else ()


def test_every_file_the_readme_points_to_is_there():
    root = Path(__file__).parent.parent
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (root / link).exists()] == []
