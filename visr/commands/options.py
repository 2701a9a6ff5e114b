"""Command lines from dataclasses (tyro), with errors as one sentence."""

from __future__ import annotations

import contextlib
import difflib
import io
import re
from typing import Any, TypeVar

import tyro

from visr.errors import UserError

T = TypeVar("T")


def parse(kind: type[T], args: list[str], verb: str, default: T | None = None) -> T:
    """The options of a verb; a mistake in them is a UserError instead of tyro's framed page."""
    page = io.StringIO()
    extra: dict[str, Any] = {} if default is None else {"default": default}
    try:
        with contextlib.redirect_stderr(page):
            return tyro.cli(
                kind,
                args=args,
                prog=f"visr {verb}",
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
                **extra,
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UserError(_first_words(page.getvalue(), verb)) from None


def refuse(chosen: object, names: tuple[str, ...], reason: str) -> None:
    """An option that would do nothing is a mistake."""
    for name in names:
        if getattr(chosen, name) is not getattr(type(chosen), name):  # not as by default
            raise UserError(f"--{name.replace('_', '-')} {reason}; leave it out.")


def _first_words(page: str, verb: str) -> str:
    """What tyro complains of and what it would suggest, out of its framed page."""
    complaint, *others = _paragraphs(page) or ["the options could not be read"]
    for python in (" Got errors:", "; use sys."):  # what follows speaks of Python
        complaint = complaint.partition(python)[0]
    hints = [text for text in others if text.startswith("Perhaps you")]
    meant = [option for text in hints for option in re.findall(r"--[\w-]+", text)]
    given = re.findall(r"--[\w-]+", complaint)
    near = difflib.get_close_matches(given[0], meant, n=1, cutoff=0) if given else []
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{complaint.rstrip('.')}; {hint}`visr {verb} --help` lists the options."


def _paragraphs(page: str) -> list[str]:
    """The texts between the rules of a frame, without its title; rules are dashes where utf-8 is not."""
    paragraphs: list[list[str]] = [[]]
    for line in page.splitlines():
        text = line.strip(" │")
        if text.startswith("╭"):
            continue
        if text and set(text) <= set("-─╰╯"):
            paragraphs.append([])
        elif text:
            paragraphs[-1].append(text)
    texts = [" ".join(lines) for lines in paragraphs if lines]
    return texts if "╭" in page else texts[1:]
