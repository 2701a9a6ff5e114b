"""A table of words and numbers, and the four ways to write it down."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass

from visr.report.html import text

DASH = "–"
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "≥": r"$\geq$", ">": "$>$", "<": "$<$", "·": r"$\cdot$", DASH: r"\textendash{}",
    "−": "$-$", "φ": r"$\phi$", "…": r"\dots{}", "→": r"$\to$",
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A line; its first cell is a name, the others are numbers with a plain minus sign."""

    cells: tuple[str, ...]
    is_ours: bool = False
    begins_section: bool = False
    bold: frozenset[int] = frozenset()
    """Places of the cells to set bold."""


@dataclass(frozen=True)
class Table:
    """Lines under columns, which may stand in groups."""

    name: str
    """Of its files."""
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    groups: tuple[tuple[str, int], ...] = ()
    """Titles over the columns after the first, and how many columns each spans."""
    words: frozenset[int] = frozenset()
    """Places of further columns that hold words, and so are set flush left."""

    def files(self) -> dict[str, str]:
        """The table in each of its formats, by file name."""
        return {
            f"{self.name}.md": self.markdown(),
            f"{self.name}.csv": self.csv(),
            f"{self.name}.tex": self.latex(),
            f"{self.name}.html": self.html(),
        }

    def flat_columns(self) -> list[str]:
        """Each column's name with its group's."""
        groups = [title for title, size in self.groups for _ in range(size)]
        others = self.columns[1:]
        if groups:
            others = tuple(f"{g}: {c}" for g, c in zip(groups, others, strict=True))
        return [self.columns[0], *others]

    def csv(self) -> str:
        """Comma-separated, a dash as nothing."""
        content = io.StringIO()
        writer = csv.writer(content, lineterminator="\n")
        writer.writerow(self.flat_columns())
        writer.writerows([("" if c == DASH else c) for c in row.cells] for row in self.rows)
        return content.getvalue()

    def markdown(self) -> str:
        """A pipe table under its title."""
        lines = [f"**{_piped(self.title)}**", "", _line(map(_piped, self.flat_columns()))]
        lines.append(
            _line("---" if self._is_words(i) else "---:" for i in range(len(self.columns)))
        )
        for row in self.rows:
            cells = [_piped(_minus(cell)) for cell in row.cells]
            lines.append(_line(f"**{c}**" if i in row.bold else c for i, c in enumerate(cells)))
        return "\n".join([*lines, "", _piped(self.caption), ""])

    def latex(self) -> str:
        """A table environment that wants the packages booktabs and graphicx."""
        lines = [r"\begin{table}", rf"  \caption{{{_tex(f'{self.title}. {self.caption}')}}}"]
        lines += [r"  \centering", r"  \resizebox{\linewidth}{!}{%"]
        sides = "".join("l" if self._is_words(i) else "r" for i in range(len(self.columns)))
        lines += [rf"  \begin{{tabular}}{{{sides}}}", r"    \toprule"]
        lines += self._latex_groups()
        lines.append(f"    {' & '.join(map(_tex, self.columns))} \\\\")
        for number, row in enumerate(self.rows):
            if row.begins_section or number == 0:
                lines.append(r"    \midrule")
            cells = [_tex(_minus(cell)) for cell in row.cells]
            cells = [rf"\textbf{{{c}}}" if i in row.bold else c for i, c in enumerate(cells)]
            lines.append(f"    {' & '.join(cells)} \\\\")
        lines += [r"    \bottomrule", r"  \end{tabular}}", r"\end{table}", ""]
        return "\n".join(lines)

    def _latex_groups(self) -> list[str]:
        if not self.groups:
            return []
        spans = [rf"\multicolumn{{{size}}}{{c}}{{{_tex(title)}}}" for title, size in self.groups]
        rules, start = [], 2
        for _, size in self.groups:
            rules.append(rf"\cmidrule(lr){{{start}-{start + size - 1}}}")
            start += size
        return [f"    & {' & '.join(spans)} \\\\", f"    {''.join(rules)}"]

    def html(self) -> str:
        """A table element, ready for the page."""
        body = "".join(self._html_row(row) for row in self.rows)
        return (
            f'<div class="scroll"><table class="results">\n<thead>{self._html_head()}</thead>\n'
            f"<tbody>\n{body}</tbody></table></div>\n"
        )

    def _html_head(self) -> str:
        groups = "".join(
            f'<th scope="colgroup" colspan="{size}" class="group">{text(title)}</th>'
            for title, size in self.groups
        )
        first = f"<tr><td></td>{groups}</tr>\n" if groups else ""
        names = "".join(
            f'<th scope="col" class="{self._kind(i)}">{text(c)}</th>'
            for i, c in enumerate(self.columns[1:], start=1)
        )
        return f'{first}<tr><th scope="col">{text(self.columns[0])}</th>{names}</tr>'

    def _html_row(self, row: Row) -> str:
        kinds = [k for k, is_it in (("ours", row.is_ours), ("rule", row.begins_section)) if is_it]
        cells = []
        for place, cell in enumerate(row.cells[1:], start=1):
            shown = text(_minus(cell))
            shown = f"<strong>{shown}</strong>" if place in row.bold else shown
            cells.append(f'<td class="{self._kind(place)}">{shown}</td>')
        kind = f' class="{" ".join(kinds)}"' if kinds else ""
        return (
            f'<tr{kind}><th scope="row"><bdi>{text(row.cells[0])}</bdi></th>{"".join(cells)}</tr>\n'
        )

    def _is_words(self, place: int) -> bool:
        return place == 0 or place in self.words

    def _kind(self, place: int) -> str:
        """The class of a cell in that column."""
        start = " start" if place in self._starts() else ""
        return f"{'words' if self._is_words(place) else 'number'}{start}"

    def _starts(self) -> set[int]:
        """Places where a group of columns begins."""
        starts, place = set(), 1
        for _, size in self.groups:
            starts.add(place)
            place += size
        return starts


def fixed(x: float, digits: int = 2) -> str:
    """So many digits, and no minus sign before a zero."""
    shown = f"{x:.{digits}f}"
    return shown.removeprefix("-") if float(shown) == 0 else shown


def _minus(cell: str) -> str:
    """A true minus sign before every number, and only there."""
    return re.sub(r"(^|[\[ ])-(?=\d)", "\\1−", cell)


def _piped(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _tex(words: str) -> str:
    return "".join(_LATEX.get(c, c if c.isascii() and c.isprintable() else "?") for c in words)
