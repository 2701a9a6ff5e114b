"""Results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from visr import strict_json, terminal
from visr.errors import one_line

_UNBROKEN = 10_000
"""Width of a table that goes to a file or a pipe, so that paths are not broken."""


def say(text: str) -> None:
    """Print one line on stderr."""
    terminal.say(text)


def show(
    result: dict[str, Any],
    as_json: bool,
    title: str = "",
    rows: Sequence[tuple[str, ...]] = (),
    header: tuple[str, ...] | None = None,
    *,
    path: Path | str | None = None,
    remarks: Sequence[str] = (),
) -> None:
    """Print a command's result: as one JSON object, or as a table, a path and, on stderr, remarks."""
    if as_json:
        emit(result)
        return
    if rows:
        table(title, rows, header)
    if path is not None:
        terminal.show(str(path))
    for remark in remarks:
        say(remark)


def emit(content: dict[str, Any]) -> None:
    """Print one JSON object on stdout; NaN and infinity become null, because JSON has neither."""
    terminal.show_lines(json.dumps(strict_json.without_nan(content), allow_nan=False))


def table(
    title: str, rows: Sequence[tuple[str, ...]], header: tuple[str, ...] | None = None
) -> None:
    """Print a small table on stdout; lines are broken only on a terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, show_header=bool(header))
    for index, name in enumerate(header or rows[0]):
        grid.add_column(name, justify="left" if index == 0 else "right")
    for row in rows:
        grid.add_row(*(one_line(cell, _UNBROKEN) for cell in row))
    width = None if sys.stdout.isatty() else _UNBROKEN
    console = Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)
    console.on_broken_pipe = _raise_broken_pipe  # rich would call sys.exit
    console.print(one_line(title, _UNBROKEN))
    console.print(grid)


def _raise_broken_pipe() -> None:
    raise BrokenPipeError
