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
    assert [words[1] for words in commands] == ["pretrain", "infer", "evaluate", "report"]
    for _, *words in commands:
        # The demo's two minutes, cut to seconds.
        smaller = ["smoke" if word == "demo" else word for word in words]
        assert main(smaller) == 0, words
    assert (tmp_path / "runs/first/report/index.html").is_file()


def test_every_file_the_readme_points_to_is_there():
    root = Path(__file__).parent.parent
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (root / link).exists()] == []
