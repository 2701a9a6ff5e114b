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
    grid, atari = commands[:4], commands[4:]
    assert [words[1] for words in grid] == ["pretrain", "infer", "evaluate", "report"]
    assert [words[1] for words in atari] == ["pretrain", "evaluate", "play", "report"]
    # Two minutes, or an afternoon, cut to seconds.
    smaller = {
        "pretrain": (
            *("--num-steps", "64", "--num-envs", "3", "--batch-size", "2", "--unroll-length", "4"),
            *("--num-rewarded-envs", "1", "--max-episode-frames", "600", "--num-threads", "1"),
        ),
        "evaluate": ("--episodes", "1", "--rewarded-steps", "1200"),
        "play": ("--max-steps", "5"),
        "report": (),
    }
    for _, *words in grid:
        assert main(["smoke" if word == "demo" else word for word in words]) == 0, words
    for _, verb, *words in atari:
        assert main([verb, *words, *smaller[verb]]) == 0, words
    assert (tmp_path / "pacman.mp4").is_file()
    for run in ("first", "pacman"):
        assert (tmp_path / f"runs/{run}/report/index.html").is_file()


def test_every_file_the_readme_points_to_is_there():
    root = Path(__file__).parent.parent
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (root / link).exists()] == []
