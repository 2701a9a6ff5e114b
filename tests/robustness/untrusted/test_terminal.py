"""Control characters in untrusted files are escaped before they reach a terminal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from visr.cli import main
from visr.errors import one_line, short_repr
from visr.storage.files import read_json

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eabc\r\n\x00"


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A run with a task whose name has control characters."""
    shutil.copytree(trained, tmp_path / "run")
    assert main(["infer", str(tmp_path / "run"), "--reward", "goal:2,3", "--name", "goal"]) == 0
    file = tmp_path / "run" / "tasks" / "goal.json"
    file.write_text(json.dumps(read_json(file) | {"name": EVIL, "method": EVIL}))
    return tmp_path / "run"


@pytest.mark.parametrize(
    "line", ["task list {}", "evaluate {} goal", "play {} --task goal", "task list {} --json"]
)
def test_names_are_printed_without_control_characters(
    line: str, run: Path, capsys: pytest.CaptureFixture[str]
):
    capsys.readouterr()
    assert main(line.format(run).split()) == 0
    out, err = capsys.readouterr()
    for text in (out, err):
        assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert "\\u001b" in out or "\\x1b" in out


def test_a_message_is_one_printable_line_of_limited_length():
    assert one_line(EVIL) == "\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202eabc \\x00"
    assert one_line("  a\n\tb  ") == "a b"
    long = one_line("x" * 10**6 + " the end.")
    assert len(long) <= 1_000
    assert long.endswith("the end.")


def test_a_value_in_a_message_is_cut():
    assert short_repr(5) == "5"
    assert short_repr("x" * 100) == "'" + "x" * 56 + "..."
    assert short_repr(10**5000) == "a number of thousands of digits"
