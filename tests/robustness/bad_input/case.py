"""One case of bad input, and how it is run."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.robustness.bad_input.files import Given, snapshot
from visr.cli import main


class Case(NamedTuple):
    """A command line that cannot be carried out, and what its answer must say."""

    line: str
    """The command line as a shell splits it; `run` is a finished run, `out` does not exist."""
    names: str
    """The offending value, as the sentence shows it."""
    offers: str
    """The way out."""
    given: Given | None = None
    """Makes or damages files first."""
    file: str = ""
    """What is wrong with the file, where the line does not say it."""

    @property
    def id(self) -> str:
        """The line, shortened, and what is wrong with the file."""
        line = self.line.encode("unicode_escape").decode("ascii")
        return f"{shortened(line)} ({self.file})" if self.file else shortened(line)

    @property
    def needs_run(self) -> bool:
        """Whether the line or the damage is about a finished run."""
        return any(word == "run" or word.startswith("run/") for word in shlex.split(self.line))


class Answer(NamedTuple):
    """What a command line printed and changed."""

    code: int
    out: str
    err: str
    changes: list[str]
    """Files and directories that differ afterwards."""


def ask(case: Case, trained: Path) -> Answer:
    """Run the case in the working directory, which is empty."""
    here = Path.cwd()
    if case.needs_run:
        shutil.copytree(trained, here / "run")
    if case.given is not None:
        case.given(here)
    before = snapshot(here)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(shlex.split(case.line))
    after = snapshot(here)
    changes = [name for name in {*before, *after} if before.get(name, 0) != after.get(name, 0)]
    return Answer(code, out.getvalue(), err.getvalue(), changes)


def assert_one_sentence(err: str) -> None:
    """A printable line that begins with `visr: ` and ends like a sentence."""
    assert err.startswith("visr: ")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1, err
    assert len(err) < 1_100
    assert err[:-1].isprintable()
    assert err.rstrip("\n").endswith((".", "?"))
    assert "Traceback" not in err


def shortened(text: str) -> str:
    """The text with `xxx...[100]` for a hundred x."""
    return re.sub(r"(.)\1{30,}", lambda found: f"{found[1] * 3}...[{len(found[0])}]", text)
