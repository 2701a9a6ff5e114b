"""Exceptions whose text is meant for the user, and functions that make text safe to print."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any


class UserError(Exception):
    """Something the user can correct: one sentence that names the wrong value and what to do.

    The command line prints it on stderr and exits with code 2; in Python it is an ordinary exception.
    """


class Stopped(Exception):
    """Training was asked to stop, and stopped cleanly."""

    def __init__(self, signal_number: int, saved_steps: int, resume_command: str) -> None:
        super().__init__(
            f"Stopped; the run is saved as of step {saved_steps:,}. Go on with `{resume_command}`."
        )
        self.signal_number = signal_number


def short_repr(value: Any, most: int = 60) -> str:
    """The repr of a value on one line, cut to `most` characters."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python prints no number of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def did_you_mean(name: str, known: Iterable[str], otherwise: str, form: str = "{}") -> str:
    """A question that names the nearest of the known names, or `otherwise` if none is near."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {form.format(near[0])}?" if near else otherwise


def one_line(text: str, most: int = 1_000) -> str:
    """`text` on one line, cut in the middle; control characters are escaped.

    Text from an untrusted file must not control the terminal.
    """
    line = " ".join(text.split())
    line = line if len(line) <= most else f"{line[: most - 300]} ... {line[-295:]}"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def encodable(text: str) -> str:
    """`text` with lone surrogates escaped: JSON may hold them, but UTF-8 cannot encode them."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@contextlib.contextmanager
def needing(module: str, extra: str, what: str = "This") -> Iterator[None]:
    """If an import inside fails because `module` is not installed, name the extra that installs it."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] != module:
            raise
        raise UserError(f'{what} needs {module}: pip install "visr[{extra}]".') from None
