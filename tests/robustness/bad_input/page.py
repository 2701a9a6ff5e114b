"""Write docs/bad_input.md from what the cases print: `python -m tests.robustness.bad_input.page`."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.robustness.bad_input.cases import TABLE, Case
from tests.robustness.bad_input.files import snapshot
from visr.cli import main

PAGE = Path(__file__).parents[3] / "docs" / "bad_input.md"
COMMAND = "python -m tests.robustness.bad_input.page"
_HEAD = """# Bad input

Every one of these command lines exits with code 2, prints nothing on stdout and the one sentence shown on
stderr, and leaves the disk as it was. `run` is a finished run; where a case needs a damaged file,
`tests/robustness/bad_input/files.py` makes it. `tests/robustness/bad_input/test_table.py` runs them
all and fails if this page says anything else; `{command}` writes it.

{count} cases are shown.
"""


class Answer(NamedTuple):
    """What came of a command line."""

    code: int
    out: str
    err: str
    changes: list[str]
    """Files and directories that differ afterwards."""


def ask(case: Case, trained: Path) -> Answer:
    """Run the case here, in the working directory, which is empty."""
    here = Path.cwd()
    words = shlex.split(case.line)
    if any(word == "run" or word.startswith("run/") for word in words):
        shutil.copytree(trained, here / "run")
    if case.given is not None:
        case.given(here)
    before = snapshot(here)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    after = snapshot(here)
    changes = [name for name in {*before, *after} if before.get(name, 0) != after.get(name, 0)]
    return Answer(code, out.getvalue(), err.getvalue(), changes)


def row(case: Case, sentence: str) -> str:
    """A line of the page."""
    line = case.line.encode("unicode_escape").decode() if not case.line.isprintable() else case.line
    cells = (f"visr {line}", sentence.removeprefix("visr: ").rstrip("\n"))
    return "| {} | {} | {} |".format(case.id, *(f"`` {_shortened(cell)} ``" for cell in cells))


def _shortened(text: str) -> str:
    """Without endless repetitions; bars would end a cell."""
    return re.sub(r"(.)\1{30,}", r"\1\1\1...", text).replace("|", "\\|")


def _page(trained: Path) -> str:
    parts = []
    for title, cases in TABLE.items():
        rows = [row(c, _asked_elsewhere(c, trained).err) for c in cases if c.is_alike_everywhere]
        parts.append(
            "\n".join([f"## {title}\n", "| case | command | says |", "|---|---|---|", *rows])
        )
    count = sum(case.is_alike_everywhere for cases in TABLE.values() for case in cases)
    return "\n\n".join([_HEAD.format(command=COMMAND, count=count).rstrip(), *parts]) + "\n"


def _asked_elsewhere(case: Case, trained: Path) -> Answer:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            return ask(case, trained)
        finally:
            os.chdir(before)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        trained = Path(place, "trained")
        with contextlib.redirect_stdout(io.StringIO()):
            main(["pretrain", "--preset", "smoke", "--out", str(trained)])
        PAGE.write_text(_page(trained), encoding="utf-8")
    print(PAGE)
