"""Exceptions whose text is meant for the user, and functions that make text safe to print."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

_FLAG = re.compile(
    r"`(?:visr pretrain )?--resume (?P<run>[^`\s]+)`|`[^`]*`"
    r"|--(?P<no>no-)?(?P<flag>[a-z][a-z-]*)"
    r"(?:[ =](?P<value>\"[^\"]*\"|\d[\w.]*|ray://\S+|(?:auto|env|impala|local|none|projection|replay|visited|visr|warn)\b))?"
)
"""Quoted commands, and flags with the values that sentences give them."""
_ARGUMENTS = {"steps": "num_steps", "episodes": "num_episodes", "trials": "num_episodes"}
"""Arguments of Python whose flags have other names."""
_SWITCHES = ("accept_cost", "centred_features")
"""Arguments that a sentence advises to turn on."""
_is_command_line = False
_LONGEST = 10_000
"""Characters of a sentence."""


class _Sentence(Exception):
    """One sentence, written with flags (--torso auto) and shown in Python with arguments (torso="auto")."""

    def __str__(self) -> str:
        return for_reader(one_line(super().__str__(), _LONGEST))


class UserError(_Sentence):
    """Something the user can correct: one sentence that names the wrong value and what to do.

    The command line prints it on stderr and exits with code 2; in Python it is an ordinary exception.
    """


@contextlib.contextmanager
def command_line() -> Iterator[None]:
    """Inside, errors name flags."""
    global _is_command_line
    before, _is_command_line = _is_command_line, True
    try:
        yield
    finally:
        _is_command_line = before


def for_reader(text: str) -> str:
    """A sentence with flags, at the command line; elsewhere with arguments of Python."""
    return text if _is_command_line else with_arguments(text)


def with_arguments(text: str) -> str:
    """A sentence with arguments of Python for flags: torso="auto", num_steps=, visr.resume("runs/a")."""
    return _FLAG.sub(_argument, text)


def _argument(found: re.Match[str]) -> str:
    if found["run"]:
        return f'`visr.resume("{found["run"]}")`'
    if not found["flag"]:
        return found[0]  # another command
    name = found["flag"].replace("-", "_")
    if name == "resume":
        return "visr.resume"
    value = "False" if found["no"] else found["value"] or ("True" if name in _SWITCHES else "")
    is_word = value[:1].isalpha() and value not in ("True", "False")
    return f"{_ARGUMENTS.get(name, name)}=" + (f'"{value}"' if is_word else value)


class Stopped(_Sentence):
    """Training was asked to stop, and stopped cleanly."""

    def __init__(self, signal_number: int, saved_steps: int, resume_command: str) -> None:
        super().__init__(
            f"Stopped; the run is saved as of step {saved_steps:,}. Go on with `{resume_command}`."
        )
        self.signal_number = signal_number


class HelpShown(Exception):
    """The help of a command was printed; nothing is left to do."""


def short_repr(value: Any, most: int = 60) -> str:
    """The repr of a value on one line, cut to `most` characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # its __repr__ fails; Python prints no number of more than 4,300 digits
        is_number = isinstance(value, int)
        return "a number of thousands of digits" if is_number else f"a {type(value).__name__}"
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
    return printable(line)


def reason_of(error: object) -> str:
    """The words of an exception on one line, without the full stop."""
    return " ".join(str(error).split()).rstrip(".")


def printable(text: str) -> str:
    """`text` with escapes for control characters and for marks that reverse the direction of text."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]
