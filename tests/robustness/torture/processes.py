"""The command line in processes that die on demand: at a moment, or at the n-th thing done to a file."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TOUCHING = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
"""Python's own audit events (PEP 578), each told just before it happens."""
_LONGEST = 600.0


@dataclass(frozen=True)
class Ended:
    """What became of a command."""

    code: int
    """Exit code, or minus the signal's number."""
    out: str
    err: str
    seconds: float
    num_events: int
    """Things that it did to files below its place."""

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


def visr(
    *arguments: str,
    place: Path,
    after_seconds: float | None = None,
    at_event: int | None = None,
    inside: AbstractContextManager[object] | None = None,
) -> Ended:
    """Run `visr ARGUMENTS`, and SIGKILL it after so long or at that event, if it is not done by then.

    The command runs in the context `inside`, which is entered in its process.

    A fork of this process, which has torch in memory already: the interpreter's start is not what
    shall be tortured, and takes most of a short command's time.
    """
    outputs = [place / f"{name}.txt" for name in ("stdout", "stderr", "events")]
    sys.stdout.flush()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _be_the_command(list(arguments), place, outputs, at_event, inside or nullcontext())
    code = _wait(child, began, after_seconds)
    events = outputs[2].stat().st_size if outputs[2].exists() else 0
    out, err = (path.read_text() if path.exists() else "" for path in outputs[:2])
    for path in outputs:
        path.unlink(missing_ok=True)
    return Ended(code, out, err, time.monotonic() - began, events)


def _wait(child: int, began: float, after_seconds: float | None) -> int:
    deadline = began + (_LONGEST if after_seconds is None else after_seconds)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            assert after_seconds is not None, f"process {child} does not end"
            os.kill(child, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        time.sleep(0.001)


def _be_the_command(
    arguments: list[str],
    place: Path,
    outputs: list[Path],
    at_event: int | None,
    inside: AbstractContextManager[object],
) -> None:
    """The child's life; it never returns."""
    code = 70
    try:
        os.setsid()
        for path, descriptor in zip(outputs, (1, 2), strict=False):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        tally = os.open(outputs[2], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        sys.addaudithook(_counter(str(place) + os.sep, tally, at_event))
        from visr.cli import main

        with inside:
            code = main(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _counter(below: str, tally: int, at_event: int | None) -> Callable[[str, Any], None]:
    count, write = 0, os.write  # `inside` may replace it

    def hook(event: str, args: Any) -> None:
        nonlocal count
        if event in _TOUCHING and str(args[0]).startswith(below):
            count += 1
            write(tally, b".")
            if count == at_event:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook
