"""Cells of tables: formulas are quoted, Markdown is escaped, numbers stay as they are."""

from __future__ import annotations

import csv
import io

import pytest

from visr.paper.suite import cells
from visr.paper.suite.tables import Table, TableRow

FORMULAS = [
    "=1+1", "=HYPERLINK(A1)", "+cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "\r=1",
    " =1", "＝1+1", "-1 ± =2", "-x", "|x", "%x", "-1 [=2]", "\u00a0=1", "\x0b=1", "\u200b=1",
    "\ufeff=1", " \u2003+A1", "\u200e@x",
]  # fmt: skip
NUMBERS = [
    "-1", "-0.43", "+3", "-1.5 ± 0.20", "-0.43 [-0.60, -0.20]", "-1e-05", "12%", "nan", "-inf", "-1,000",
]  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_a_cell_that_would_be_a_formula_is_quoted(text: str):
    ((cell,),) = csv.reader(io.StringIO(cells.csv_cells([[text]]), newline=""))
    assert cell == "'" + text.replace("\r", " ")


@pytest.mark.parametrize("text", [*NUMBERS, "", "VISR @100k", "a=b", "1-2"])
def test_numbers_and_other_text_stay_as_they_are(text: str):
    assert cells._quoted(text) == text
    assert cells._quoted(-1.5) == -1.5


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<img src=x>", "\\<img src=x\\>"),
        ("[a](b)", "\\[a\\](b)"),
        ("![a](b)", "!\\[a\\](b)"),
        ("[1](b)", "\\[1\\](b)"),
        ("**x** _y_ `z`", "\\*\\*x\\*\\* \\_y\\_ \\`z\\`"),
        ("a|b\nc", "a\\|b c"),
        ("\\|", "\\\\\\|"),
        ("http://x.example", "http:/\\/x.example"),
        ("www.x.example", "www\\.x.example"),
        ("&lt;", "\\&lt;"),
        ("0.5 [0.1, 0.9]", "0.5 [0.1, 0.9]"),
        ("GPI VISR @100k", "GPI VISR @100k"),
    ],
)
def test_markdown_is_shown_as_it_is(text: str, shown: str):
    assert cells.markdown(text) == shown


def test_a_name_in_a_table_of_the_paper_is_neither_formula_nor_markdown():
    name = "=1+1|<b>[x](y)"
    table = Table("t", name, name, (name, "score"), (TableRow((name, "-0.43 ± 0.10")),))
    files = table.files()
    for row in csv.reader(io.StringIO(files["t.csv"])):
        assert row[0] == f"'{name}"
    assert "-0.43 ± 0.10" in files["t.csv"]
    assert name not in files["t.md"]
    assert "<b>" not in files["t.md"].replace("\\<b\\>", "")
