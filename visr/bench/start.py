"""Start-up: the time to the help text, of `import visr`, and to the first trained steps."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from visr import child_processes
from visr.bench.meter import compared, rate, take_turns

_COMMANDS = {
    "help": ["-m", "visr", "--help"],
    "import": ["-c", "import visr"],
    "training": ["-m", "visr", "pretrain", "--preset", "smoke", "--num-steps", "1"],
    "python": ["-c", "pass"],
    "libraries": ["-c", "import torch, gymnasium"],
}
_LIMITS = {"help": "python", "import": "python", "training": "libraries"}
"""What no command can be faster than."""


def start(seconds: float) -> dict[str, Any]:
    """Whole processes against Python alone; `training` is a whole run of one round, against its libraries."""
    with tempfile.TemporaryDirectory() as directory:
        jobs = {name: partial(_run, name, Path(directory)) for name in _COMMANDS}
        turns = take_turns(jobs, seconds)
    found = {}
    for name, limit in _LIMITS.items():
        numbers = compared(turns[name], turns[limit], "cpu", "starts")
        found[name] = {"seconds": 1 / rate(turns[name], "cpu"), **numbers}
    return found


def _run(name: str, directory: Path) -> int:
    out = []
    if name == "training":
        out = ["--out", str(directory / str(len(list(directory.iterdir()))))]
    command = [sys.executable, *_COMMANDS[name], *out]
    environment = child_processes.environment()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return 1
