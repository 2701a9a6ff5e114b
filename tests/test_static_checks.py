"""ruff and pyright find nothing; as tests they run beside the others. `make lint` runs them alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent


@pytest.mark.parametrize("words", ["ruff check", "ruff format --check", "pyright"])
def test_the_code_passes(words: str):
    command, *arguments = words.split()
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    line = [str(BIN / command), *arguments]
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
