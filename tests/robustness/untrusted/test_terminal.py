"""Control characters in untrusted files are escaped before they reach a terminal."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from visr import terminal
from visr.cli import main
from visr.errors import UserError, one_line, short_repr
from visr.storage.files import read_json
from visr.storage.records.task import Task

SOURCE = Path(__file__).parents[3] / "visr"
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


ALLOWED = {
    "terminal.py": "the one way",
    "commands/output.py": "a table; its cells are printable",
    "commands/options.py": "the help",
    "commands/pretrain.py": "the help",
    "training/progress.py": "a progress bar",
    "paper/reproduce/command.py": "a progress bar of our own names",
}
"""Files that write to the terminal themselves."""


def test_only_one_module_prints():
    def prints(node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            return ast.unparse(node.func) in (
                "print",
                "Console",
                "sys.stdout.write",
                "sys.stderr.write",
            )
        return isinstance(node, ast.Attribute) and ast.unparse(node) == "logging.getLogger"

    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(map(prints, ast.walk(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found == ALLOWED.keys()


def test_log_messages_are_one_printable_line(caplog: pytest.LogCaptureFixture):
    for name in ("visr", "visr.cluster"):
        terminal.logger(name).warning("visr: %s is odd.", EVIL)
    for record in caplog.records:
        assert record.getMessage() == f"visr: {one_line(EVIL)} is odd."


def test_errors_and_summaries_in_python_are_printable():
    assert str(UserError(f"{EVIL} is odd.")).isprintable()
    assert repr(Task(name=EVIL, w=np.ones(2))).isprintable()


def test_pythons_own_tracebacks_and_warnings_are_escaped(tmp_path: Path):
    code = (
        "import sys, warnings; from visr import terminal; terminal.guard_process(); "
        f"print({EVIL + chr(0xDCFF)!r}.strip()[-1:]); warnings.warn({EVIL!r}); raise KeyError({EVIL!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False
    )
    said = done.stderr.decode()
    assert "Traceback" in said
    assert all(letter.isprintable() or letter == "\n" for letter in said)


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
