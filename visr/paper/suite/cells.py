"""Untrusted text in tables: no cell of a spreadsheet is a formula, and Markdown is shown as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from visr.storage.tables import csv_text

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "＝", "＋", "－", "＠")
"""Spreadsheets take a cell that begins with one of these for a formula or a command."""
_UNSEEN = re.compile(r"[^\S\t]+|[\u00ad\u200b-\u200f\u2060\ufeff]+")
"""Spaces and marks without a width, which may precede a formula."""
_NUMBER = re.compile(
    r"[-+]?\d[\d.,]*(e[-+]?\d+)?%?( ± [\d.,]+| \[[-+\d., ]+\])?|[-+]?(nan|inf)",
    re.ASCII | re.IGNORECASE,
)
_MARKDOWN = re.compile(r"[\\`*_<>|~&$\]]|\[|://|www\.", re.IGNORECASE)
_INTERVAL = re.compile(r"\[[-+−\d., ]+\](?![(\[:])", re.ASCII)


def csv_cells(rows: Iterable[Sequence[object]]) -> str:
    """CSV for spreadsheets: text that would be a formula begins with a single quote."""
    return csv_text([[_quoted(cell) for cell in row] for row in rows])


def _quoted(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    # readers begin a row at a lone \r, which csv leaves unquoted
    cell = re.sub(r"[\r\n]", " ", cell)
    is_formula = _UNSEEN.sub("", cell).startswith(_FORMULA) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if is_formula else cell


def markdown(text: str) -> str:
    """One line whose characters have no meaning in Markdown or HTML; intervals keep their brackets."""
    line, shown, place = " ".join(text.split()), "", 0
    for interval in _INTERVAL.finditer(line):
        shown += _escaped(line[place : interval.start()]) + interval.group()
        place = interval.end()
    return shown + _escaped(line[place:])


def _escaped(text: str) -> str:
    """Every character of _MARKDOWN after a backslash; `://` and `www.` make a link without one."""
    return _MARKDOWN.sub(
        lambda found: f"{found[0][:-1]}\\{found[0][-1]}" if len(found[0]) > 1 else f"\\{found[0]}",
        text,
    )
