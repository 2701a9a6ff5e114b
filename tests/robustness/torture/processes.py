"""The command line in processes that are struck on demand: at a moment, or at the n-th call on a file."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.robustness.torture.file_calls import Call, Numbered

_LONGEST = 600.0
LEAVING = 60.0
"""Seconds in which the workers of a dead process must have ended."""
_MARK = "VISR_TORTURED"
"""A variable by which the processes of one command are known."""

STOP_AND_KILL = "SIGSTOP, SIGKILL"
BLOWS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", STOP_AND_KILL)
Whom = Literal["parent", "worker", "both"]


@dataclass(frozen=True)
class Blow:
    """A signal, to whom, and when: after so long, or at the n-th call that touches a file of its place."""

    signal: str
    whom: Whom = "parent"
    after_seconds: float | None = None
    at_call: int | None = None
    """Then the process strikes itself, just before the call."""


@dataclass(frozen=True)
class Ended:
    """What became of a command."""

    code: int
    """Exit code, or minus the signal's number."""
    out: str
    err: str
    seconds: float
    calls: tuple[str, ...] = ()
    """Calls that touched files, as `inside` noted them."""
    struck: str = ""
    """Who got the signal; nobody if the command was done before."""
    left: tuple[int, ...] = ()
    """Processes that it started and that did not end."""


def visr(
    *arguments: str,
    place: Path,
    blow: Blow | None = None,
    inside: Numbered | None = None,
    look: Callable[[], None] = lambda: None,
    leaving: float = LEAVING,
) -> Ended:
    """Run `visr ARGUMENTS` and strike it, if it is not done by then; `look` is called when it has just ended.

    A fork of this process, which has torch in memory already: starting the interpreter is not what
    is tested, and takes most of a short command's time. The context `inside` is entered in it.
    """
    outputs = [place / f"{name}.txt" for name in ("stdout", "stderr")]
    mark = f"{random.SystemRandom().getrandbits(64):x}"
    sys.stdout.flush()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _be_the_command(list(arguments), outputs, mark, inside or nullcontext())
    code, struck = _wait(child, began, mark, blow)
    seconds = time.monotonic() - began
    look()
    left = _wait_for_workers(mark, leaving)
    out, err = (path.read_text() if path.exists() else "" for path in outputs)
    for path in outputs:
        path.unlink(missing_ok=True)
    calls = inside.noted() if inside else ()
    return Ended(code, out, err, seconds, calls, struck, left)


def strike_at(place: Path, blow: Blow | None) -> Numbered:
    """A context that numbers the calls that touch files below `place`, and strikes at one of them."""
    below = str(place) + os.sep

    def act(number: int, _call: Call) -> None:
        if blow is not None and number == blow.at_call:
            os.kill(os.getpid(), signal.Signals[blow.signal.partition(",")[0]])

    return Numbered(place / "calls.txt", lambda call: call.path.startswith(below), act)


def workers(mark: str) -> list[int]:
    """Processes that a command has started: its mark is in their environment."""
    wanted, found = f"{_MARK}={mark}".encode(), []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if entry.isdecimal() and wanted in file.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:  # not a process, another user's, or it has ended
            continue
    return sorted(found)


def _wait_for_workers(mark: str, leaving: float) -> tuple[int, ...]:
    """Those that are left after a while; they are ended."""
    deadline = time.monotonic() + leaving
    while left := workers(mark):
        if time.monotonic() > deadline:
            for worker in left:
                _send(worker, signal.SIGKILL)
            break
        time.sleep(0.02)
    return tuple(left)


def _wait(child: int, began: float, mark: str, blow: Blow | None) -> tuple[int, str]:
    """Exit code, and who was struck."""
    moment = None if blow is None else blow.after_seconds
    struck, deadline = "", began + _LONGEST
    while True:
        done, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
        if done and os.WIFSTOPPED(status):  # it stopped itself at a call
            struck = "parent"
            _send(child, signal.SIGKILL)
            continue
        if done:
            by_itself = (
                blow is not None and blow.at_call is not None and _has_ended_by(status, blow)
            )
            return os.waitstatus_to_exitcode(status), struck or ("parent" if by_itself else "")
        if blow and moment is not None and time.monotonic() > began + moment:
            struck, moment = _strike(child, mark, blow), None
        if time.monotonic() > deadline:
            _send(child, signal.SIGKILL)
            raise AssertionError(f"process {child} does not end: {blow}")
        time.sleep(0.001)


def _has_ended_by(status: int, blow: Blow) -> bool:
    """Whether the signal that a process sent to itself ended it, at once or by its own handler."""
    number = signal.Signals[blow.signal.partition(",")[0]]
    return os.waitstatus_to_exitcode(status) in (-number, 128 + number)


def _strike(child: int, mark: str, blow: Blow) -> str:
    """Send the signals; a command without workers is struck itself."""
    helpers = workers(mark) if blow.whom != "parent" else []
    struck = [*([child] if blow.whom == "both" or not helpers else []), *helpers]
    for name in blow.signal.split(", "):
        for process in struck:
            _send(process, signal.Signals[name])
        if name == "SIGSTOP":
            time.sleep(0.05)
    if not helpers:
        return "parent"
    return "both" if child in struck else "worker"


def _send(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)


def _be_the_command(
    arguments: list[str],
    outputs: list[Path],
    mark: str,
    inside: AbstractContextManager[object],
) -> None:
    """The child's life; it never returns."""
    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` ignores it
        os.environ[_MARK] = mark
        for path, descriptor in zip(outputs, (1, 2), strict=True):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
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
