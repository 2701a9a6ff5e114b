"""The program and the commands of the README run and print what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from visr.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
TINY_REPLAY = shlex.split("--num-steps 2000 --num-updates 20 --warmup-steps 1000")
NUMBER = re.compile(r"-?\d+\.\d+")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 120


def test_the_python_program_prints_what_the_readme_shows(tmp_path: Path):
    (code,), (shown,) = blocks("python"), blocks("text")
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert NUMBER.sub("", done.stdout) == NUMBER.sub("", shown)
    printed, expected = map(numbers, (done.stdout, shown))
    assert printed == pytest.approx(expected, abs=0.02)
    assert printed[1] > 0.95  # the fraction of optimal


def numbers(text: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(text)]


def test_the_first_commands_are_the_demo_and_the_tests():
    assert re.findall(r"^make \w+", blocks("sh")[0], flags=re.MULTILINE) == [
        "make demo",
        "make test",
    ]


def test_the_moving_picture_is_small_and_moves():
    from PIL import Image

    (name,) = re.findall(r"\]\((docs/images/[\w.]+gif)\)", README)
    assert (ROOT / name).stat().st_size < 1_000_000
    with Image.open(ROOT / name) as picture:
        assert getattr(picture, "n_frames", 1) > 20


def test_the_commands_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("visr ")]
    assert [words[0] for words in commands[:4]] == ["pretrain", "infer", "evaluate", "report"]
    for words in commands:
        if words[0] != "explore":  # it serves until it is stopped; tests/explorer/ starts it
            assert main(tiny(words)) == 0, words
    assert (tmp_path / "runs/first/report/index.html").is_file()


def tiny(words: list[str]) -> list[str]:
    """The same command with numbers so small that it takes seconds."""
    if words[0] == "pretrain" and "CartPole-v1" in words:
        return [*words, *TINY_REPLAY, "--recorded-steps", "500"]
    if words[0] == "pretrain":
        words = ["smoke" if word == "demo" else word for word in words]
        return [*words, "--num-steps", "2560"]
    extra = {"doctor": ["--steps", "50"]}
    if words[0] == "evaluate" and "up" in words:
        return [*words, "--episodes", "2"]
    return [*words, *extra.get(words[0], [])]
