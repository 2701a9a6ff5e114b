"""What a process needs before torch or numpy is imported: a working directory, and memory to import it into.

Without these the import fails half-way, with a traceback or a crash.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from visr.errors import UserError

MEGABYTE = 10**6
NEEDED = {
    "address space (ulimit -v)": (800, 400),
    "data (ulimit -d)": (400, 300),
    "memory (of its container)": (350, 150),
}
"""Megabytes of each kind: torch and the smallest run, and without torch numpy and a report. The import of
torch alone takes 640, 220 and 225; `visr report` 280, 240 and 130."""
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def check(needs_torch: bool = True) -> None:
    """Refuse to start where the working directory was deleted or memory is too small."""
    try:
        os.getcwd()
    except OSError:
        raise UserError(
            "The working directory was deleted; change to another one with `cd`, and start again."
        ) from None
    if ("torch" if needs_torch else "numpy") in sys.modules:
        return
    for kind, limit in _memory_limits().items():
        needed = NEEDED[kind][0 if needs_torch else 1]
        if limit < needed * MEGABYTE:
            raise UserError(
                f"There is not enough memory: this process may use {limit // MEGABYTE:,} MB of {kind}, and "
                f"visr needs {needed:,} MB; raise the limit."
            )


def _memory_limits() -> dict[str, int]:
    """Bytes by kind, as far as they are limited."""
    limits: dict[str, int] = {}
    with contextlib.suppress(ImportError, OSError):  # no Unix
        import resource

        kinds = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
        for name, kind in zip(NEEDED, kinds, strict=False):
            if (limit := resource.getrlimit(kind)[0]) != resource.RLIM_INFINITY:
                limits[name] = limit
    for file in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # another system, or the word `max`
            limits[list(NEEDED)[-1]] = int(Path(file).read_text())
    return limits
