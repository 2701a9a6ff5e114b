"""All text that visr prints: names in it may come from untrusted files, and must not control the terminal.

Control characters, escape sequences, marks that reverse the direction of text, and line breaks within a
name are shown as escapes (\\x1b). What a program reads is JSON (`--json`), which holds names unchanged.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
import warnings
from types import TracebackType
from typing import Any

from visr.errors import one_line, printable

_LONGEST = 10_000
"""Characters of a line."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def show(text: str) -> None:
    """Print one line of a result on stdout, such as a path."""
    print(printable(text))


def show_lines(text: str) -> None:
    """Print lines of our own on stdout; only their line breaks stay."""
    print("\n".join(map(printable, text.split("\n"))))


def say(text: str, flush: bool = False) -> None:
    """Print one line on stderr."""
    print(one_line(text, _LONGEST), file=sys.stderr, flush=flush)


def count(text: str) -> None:
    """Replace the line on a terminal that counts progress; an empty text ends it."""
    if sys.stderr.isatty():
        print(f"\r{printable(text)}" if text else "", end="" if text else "\n", file=sys.stderr)


class _OneLine(logging.Filter):
    """Makes each message one printable line before any handler sees it."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = one_line(record.getMessage(), _LONGEST), None
        return True


_FILTER = _OneLine()


def logger(name: str = "visr") -> logging.Logger:
    """The logger of that name, whose messages are printable."""
    found = logging.getLogger(name)
    found.addFilter(_FILTER)
    return found


def guard_process() -> None:
    """Also escape what Python prints: tracebacks, warnings, and characters that stdout cannot encode."""
    sys.excepthook = _print_traceback
    warnings.showwarning = _print_warning
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # pyright: ignore


def _print_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    for line in "".join(traceback.format_exception(kind, error, trace)).rstrip("\n").split("\n"):
        print(printable(line), file=sys.stderr)


def _print_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any
) -> None:
    text = _COLOUR.sub("", str(message))  # Gymnasium colours its own
    say(f"{filename}:{lineno}: {category.__name__}: {text}")
