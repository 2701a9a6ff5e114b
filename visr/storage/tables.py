"""CSV files of numbers: rows are appended, and removed again when a run resumes from a checkpoint."""

from __future__ import annotations

import csv
import errno
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from visr.errors import UserError
from visr.storage import new_files
from visr.storage.files import open_regular, read_bytes, reading, write_bytes, writing

_LARGEST = 1024 * 1024 * 1024
_MOST = 2**63
"""The largest count."""


def append_rows(path: Path, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Append rows, after a header if the file is new; a file of an older version keeps its columns."""
    with writing(path):
        if not path.exists() or path.stat().st_size == 0:
            rows = [columns, *rows]
        else:
            known = _header(path)
            rows = [
                [dict(zip(columns, row, strict=True)).get(k, "nan") for k in known] for row in rows
            ]
        new_files.append(path, csv_text(rows).encode())


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as lines of comma-separated values."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _header(path: Path) -> list[str]:
    with open_regular(path) as file:
        return file.readline().decode("utf-8", "replace").rstrip("\n").split(",")


def read_rows(path: Path) -> list[dict[str, float]]:
    """The rows of a CSV file of numbers, without an incomplete last line; none if it is missing."""
    reader = csv.DictReader(io.StringIO("".join(complete_lines(path))))
    try:
        return [{k: _number(k, v) for k, v in row.items()} for row in reader]
    except (TypeError, ValueError, AttributeError, csv.Error):
        raise UserError(
            f"{path} is damaged: a row does not fit its header; restore it, or move it away."
        ) from None


def _number(column: str, text: str) -> float:
    """A number; in a column of counts it is a whole one."""
    number = float(text)
    if column.startswith("num_") and not (0 <= number <= _MOST and number.is_integer()):
        raise ValueError(f"{column} is not a count")
    return number


def truncate_after(path: Path, num_steps: int) -> None:
    """Remove the rows of later steps: afterwards the file is as it was at `num_steps`, byte for byte."""
    with writing(path):
        if path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if path.exists():
        write_bytes(path, rows_until(path, num_steps).encode())


def rows_until(path: Path, num_steps: int) -> str:
    """The text of a CSV file up to `num_steps`, its first column."""
    header, *rows = complete_lines(path) or [""]
    try:
        kept = [row for row in rows if _number("num_steps", row.split(",")[0]) <= num_steps]
    except ValueError:
        raise UserError(
            f"{path} is damaged: a row begins with no count of steps; restore it, or move it away."
        ) from None
    return "".join([header, *kept])


def complete_lines(path: Path) -> list[str]:
    """The lines of a text file, without an incomplete last one; none if it is missing."""
    with reading(path):
        if not path.exists():
            return []
        lines = read_bytes(path, _LARGEST).decode("utf-8").splitlines(keepends=True)
    return [line for line in lines if line.endswith("\n")]
