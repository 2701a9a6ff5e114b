"""The one exception that is meant for the user's eyes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


class UserError(Exception):
    """Something the user can mend: one sentence that names the offending value and the way out.

    The command line prints it on stderr and exits with code 2; Python code sees an ordinary exception.
    """


def said(value: Any, most: int = 60) -> str:
    """At most so many characters of a value's repr, for a sentence about it."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no number of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def one_line(text: str, most: int = 1_000) -> str:
    """`text` on one line, of something endless its beginning and end; control characters are spelled out.

    What stands in a stranger's file must not reach a terminal as an order to it.
    """
    line = " ".join(text.split())
    line = line if len(line) <= most else f"{line[: most - 300]} ... {line[-295:]}"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def encodable(text: str) -> str:
    """`text` with its halves of surrogate pairs spelled out: JSON may hold them, and no file takes them."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@contextlib.contextmanager
def needing(module: str, extra: str) -> Iterator[None]:
    """Imports inside that lack `module` become a sentence that names the extra with it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise UserError(
            f'This needs {module}; install it with `pip install "visr[{extra}]"`.'
        ) from None
