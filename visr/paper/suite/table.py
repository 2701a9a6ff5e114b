"""A table of text and numbers, written as CSV, Markdown and LaTeX; the page writes it as HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from visr.paper.suite.statistics import Interval
from visr.storage.tables import csv_text

DASH = "–"
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "≥": r"$\geq$", ">": "$>$", "<": "$<$", "·": r"$\cdot$", DASH: r"\textendash{}",
    "−": "$-$", "φ": r"$\phi$", "…": r"\dots{}", "→": r"$\to$",
}  # fmt: skip


@dataclass(frozen=True)
class TableRow:
    """A row; its first cell is a name, the others are numbers with an ASCII minus sign."""

    cells: tuple[str, ...]
    is_ours: bool = True
    """False for published numbers."""
    begins_section: bool = False
    bold: frozenset[int] = frozenset()
    """Indices of bold cells."""

    @property
    def typeset(self) -> list[str]:
        """The cells with a true minus sign in front of negative numbers."""
        return [re.sub(r"(^|[\[ ])-(?=\d)", "\\1−", cell) for cell in self.cells]


@dataclass(frozen=True)
class Table:
    """Rows under columns, which may be grouped."""

    name: str
    """Stem of its files."""
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    groups: tuple[tuple[str, int], ...] = ()
    """Titles over the columns after the first, and the number of columns of each."""
    text_columns: frozenset[int] = frozenset({0})
    """Indices of the columns with text, which are left-aligned."""
    is_folded: bool = False
    """Whether the page shows it only on a click."""

    @property
    def flat_columns(self) -> list[str]:
        """Column names, each with the title of its group."""
        prefixes = [f"{title}: " for title, size in self.groups for _ in range(size)]
        prefixes = ["", *(prefixes or [""] * (len(self.columns) - 1))]
        return [f"{p}{column}" for p, column in zip(prefixes, self.columns, strict=True)]

    @property
    def group_starts(self) -> list[int]:
        """Indices of the first column of each group."""
        return [1 + sum(size for _, size in self.groups[:i]) for i in range(len(self.groups))]

    def files(self) -> dict[str, str]:
        """The table in each format, by file name; LaTeX needs the packages booktabs and graphicx."""
        cells = [["" if c == DASH else c for c in row.cells] for row in self.rows]
        return {
            f"{self.name}.md": _TEMPLATES.get_template("table.md").render(table=self),
            f"{self.name}.csv": csv_text([self.flat_columns, *cells]),
            f"{self.name}.tex": _TEMPLATES.get_template("table.tex").render(table=self),
        }


def with_error(value: str, std: str) -> str:
    """A value with its standard deviation, if that is known."""
    return f"{value} ± {std}" if std and value != DASH else value


def with_interval(value: float, interval: Interval | None) -> str:
    """A value with its interval in brackets, if it has one."""
    if interval is None:
        return fixed(value)
    return f"{fixed(value)} [{fixed(interval.low)}, {fixed(interval.high)}]"


def fixed(x: float, digits: int = 2) -> str:
    """A number with that many digits, and no minus sign in front of zero."""
    shown = f"{x:.{digits}f}"
    return shown.removeprefix("-") if float(shown) == 0 else shown


def _pipes(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")


def _tex(words: str) -> str:
    return "".join(_LATEX.get(c, c if c.isascii() and c.isprintable() else "?") for c in words)


_TEMPLATES = Environment(
    loader=PackageLoader("visr.paper.suite"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    # LaTeX uses the usual delimiters itself
    block_start_string="<%",
    block_end_string="%>",
    variable_start_string="<<",
    variable_end_string=">>",
)
_TEMPLATES.filters |= {"pipes": _pipes, "tex": _tex}
_TEMPLATES.globals["zip"] = zip
