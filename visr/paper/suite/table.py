"""A table of text and numbers, written as CSV, Markdown and LaTeX; the page writes it as HTML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass

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
    is_ours: bool = False
    begins_section: bool = False
    bold: frozenset[int] = frozenset()
    """Indices of bold cells."""

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

    def files(self) -> dict[str, str]:
        """The table in each format, by file name."""
        return {
            f"{self.name}.md": self.markdown(),
            f"{self.name}.csv": self.csv(),
            f"{self.name}.tex": self.latex(),
        }

    def flat_columns(self) -> list[str]:
        """Column names, each with the title of its group."""
        groups = [title for title, size in self.groups for _ in range(size)]
        others = self.columns[1:]
        if groups:
            others = tuple(f"{g}: {c}" for g, c in zip(groups, others, strict=True))
        return [self.columns[0], *others]

    def group_starts(self) -> list[int]:
        """Indices of the first column of each group."""
        return [1 + sum(size for _, size in self.groups[:i]) for i in range(len(self.groups))]

    def csv(self) -> str:
        """Comma-separated values; a dash is an empty cell."""
        content = io.StringIO()
        writer = csv.writer(content, lineterminator="\n")
        writer.writerow(self.flat_columns())
        writer.writerows([("" if c == DASH else c) for c in row.cells] for row in self.rows)
        return content.getvalue()

    def markdown(self) -> str:
        """A pipe table with its title and caption."""
        places = range(len(self.columns))
        lines = [f"**{_piped(self.title)}**", "", _line(map(_piped, self.flat_columns()))]
        lines.append(_line("---" if i in self.text_columns else "---:" for i in places))
        for row in self.rows:
            cells = map(_piped, row.typeset())
            lines.append(_line(f"**{c}**" if i in row.bold else c for i, c in enumerate(cells)))
        return "\n".join([*lines, "", _piped(self.caption), ""])

    def latex(self) -> str:
        """A table environment; it needs the packages booktabs and graphicx."""
        lines = [r"\begin{table}", rf"  \caption{{{_tex(f'{self.title}. {self.caption}')}}}"]
        lines += [r"  \centering", r"  \resizebox{\linewidth}{!}{%"]
        places = range(len(self.columns))
        sides = "".join("l" if i in self.text_columns else "r" for i in places)
        lines += [rf"  \begin{{tabular}}{{{sides}}}", r"    \toprule", *self._latex_groups()]
        lines.append(f"    {' & '.join(map(_tex, self.columns))} \\\\")
        for number, row in enumerate(self.rows):
            if row.begins_section or number == 0:
                lines.append(r"    \midrule")
            cells = map(_tex, row.typeset())
            cells = [rf"\textbf{{{c}}}" if i in row.bold else c for i, c in enumerate(cells)]
            lines.append(f"    {' & '.join(cells)} \\\\")
        lines += [r"    \bottomrule", r"  \end{tabular}}", r"\end{table}", ""]
        return "\n".join(lines)

    def _latex_groups(self) -> list[str]:
        if not self.groups:
            return []
        spans = [rf"\multicolumn{{{size}}}{{c}}{{{_tex(title)}}}" for title, size in self.groups]
        ends = zip(self.group_starts(), self.groups, strict=True)
        rules = [rf"\cmidrule(lr){{{start + 1}-{start + size}}}" for start, (_, size) in ends]
        return [f"    & {' & '.join(spans)} \\\\", f"    {''.join(rules)}"]


def fixed(x: float, digits: int = 2) -> str:
    """A number with that many digits, and no minus sign in front of zero."""
    shown = f"{x:.{digits}f}"
    return shown.removeprefix("-") if float(shown) == 0 else shown


def _piped(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _tex(words: str) -> str:
    return "".join(_LATEX.get(c, c if c.isascii() and c.isprintable() else "?") for c in words)
