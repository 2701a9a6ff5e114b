"""Python processes that visr starts: they import nothing from the working directory.

`python -m` puts the working directory first on the module path, which may be an untrusted run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_HOME = Path(__file__).resolve().parents[1]
"""The directory from which visr itself is imported."""


def command(module: str) -> list[str]:
    """The command that runs a module of visr."""
    return [sys.executable, "-P", "-m", module]


def environment() -> dict[str, str]:
    """Variables of a child process: one thread, our module path, never the working directory."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": os.pathsep.join(filter(_is_safe, sys.path)),
    }


def _is_safe(place: str) -> bool:
    """Whether a part of the module path is absolute, and not the working directory unless visr is there."""
    here = Path(place)
    return here.is_absolute() and (here.resolve() == _HOME or here.resolve() != Path.cwd())
