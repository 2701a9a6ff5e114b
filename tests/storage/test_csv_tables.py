"""CSV files of a run: appended, truncated byte for byte, and read without trust."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from visr.errors import UserError
from visr.storage.tables import append_rows, read_rows, truncate_after

COLUMNS = ["num_steps", "loss"]
ROWS = [[100, 0.1 + 0.2], [200, 1e-300], [300, -5]]
TABLE = b"num_steps,loss\n100,0.30000000000000004\n200,1e-300\n300,-5\n"


def test_rows_are_appended_under_one_header_and_read_back(tmp_path: Path):
    path = tmp_path / "metrics.csv"
    assert read_rows(path) == []
    append_rows(path, COLUMNS, ROWS[:1])
    append_rows(path, COLUMNS, ROWS[1:])
    assert path.read_bytes() == TABLE
    assert read_rows(path) == [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]


def test_an_incomplete_last_line_is_ignored(tmp_path: Path):
    path = tmp_path / "metrics.csv"
    path.write_bytes(TABLE + b"400,0.00")
    assert len(read_rows(path)) == 3
    path.write_bytes(b"num_st")
    assert read_rows(path) == []


def test_a_table_cut_anywhere_and_resumed_has_the_same_bytes(tmp_path: Path):
    """A process killed in the middle of a row, resumed from the checkpoint of step 100."""
    path = tmp_path / "metrics.csv"
    for cut in range(len(TABLE)):
        path.write_bytes(TABLE[:cut])
        truncate_after(path, 100)
        known = len(read_rows(path))
        append_rows(path, COLUMNS, ROWS[known:])
        assert known == (cut >= TABLE.index(b"200"))
        assert path.read_bytes() == TABLE
        path.unlink()


@pytest.mark.parametrize(
    ("num_steps", "lines"), [(0, 1), (99, 1), (100, 2), (250, 3), (300, 4), (10**12, 4)]
)
def test_truncating_leaves_the_bytes_of_the_rows_before(num_steps: int, lines: int, tmp_path: Path):
    path = tmp_path / "metrics.csv"
    path.write_bytes(TABLE)
    truncate_after(path, num_steps)
    assert path.read_bytes() == b"".join(TABLE.splitlines(keepends=True)[:lines])


def test_truncating_a_missing_table_creates_no_file(tmp_path: Path):
    truncate_after(tmp_path / "metrics.csv", 100)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00\x01\n", b"num_steps\n\x80,1\n", b"num_steps\nx\n", b"num_steps\n1,2\n",
     b"num_steps,loss\n1\n", b"num_steps\n\x00\n"],
)  # fmt: skip
def test_a_damaged_table_is_a_user_error_that_names_it(content: bytes, tmp_path: Path):
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"metrics\.csv is damaged"):
        read_rows(path)


@pytest.mark.parametrize("content", [b"\xff\n", b"num_steps\nx\n", b"num_steps\n\n"])
def test_a_damaged_table_is_not_truncated(content: bytes, tmp_path: Path):
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"metrics\.csv is damaged"):
        truncate_after(path, 100)
    assert path.read_bytes() == content


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=some.binary(max_size=60))
def test_reading_any_bytes_as_a_table_raises_only_user_errors(content: bytes, tmp_path: Path):
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    for read in (read_rows, lambda path: truncate_after(path, 100)):
        with contextlib.suppress(UserError):
            read(path)
