"""Command lines from dataclasses (tyro), with errors as one sentence."""

from __future__ import annotations

import contextlib
import io
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


def _first_words(page: str, verb: str) -> str:
    """What tyro complains of: the lines in its frame up to the first rule."""
    complaint: list[str] = []
    for line in page.splitlines():
        text = line.strip().strip("│").strip()
        if line.lstrip().startswith("╭"):
            continue
        if not text or set(text) <= set("─╰╯"):
            break
        complaint.append(text)
    said = " ".join(complaint) or "the options could not be read"
    return f"{said.rstrip('.')}; `visr {verb} --help` lists the options."
