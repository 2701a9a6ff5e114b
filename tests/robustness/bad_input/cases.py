"""All cases of bad input, and the sentences that they print, as expected.json holds them.

python -m tests.robustness.bad_input.cases     records the sentences again
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from pathlib import Path

from tests.robustness.bad_input import command_cases as commands
from tests.robustness.bad_input import file_cases as files
from tests.robustness.bad_input.case import Case, ask, shortened
from visr.cli import main

CASES = [
    *(*commands.WORDS, *commands.NUMBERS, *commands.PLACES),
    *(*files.RESUMING, *files.RUNS, *files.REWARDS, *files.TASKS),
]
EXPECTED = Path(__file__).with_name("expected.json")


def sentence(err: str) -> str:
    """The sentence as expected.json holds it."""
    return shortened(err.removeprefix("visr: ").rstrip("\n"))


def _record(case: Case, trained: Path) -> str:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            return sentence(ask(case, trained).err)
        finally:
            os.chdir(before)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        with contextlib.redirect_stdout(io.StringIO()):
            main(["pretrain", "--preset", "smoke", "--out", f"{place}/trained"])
        recorded = {case.id: _record(case, Path(place, "trained")) for case in CASES}
    EXPECTED.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(EXPECTED)
