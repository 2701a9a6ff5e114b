"""The tables of a suite: the paper's two, robust aggregates with intervals, and raw scores by game.

A table is written as CSV, Markdown and LaTeX; the page writes it as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from visr.paper.suite import published, statistics
from visr.paper.suite.cells import csv_cells, markdown
from visr.paper.suite.entries import BOTTOM, MIDDLE, TOP, Entry, Suite, name_of
from visr.paper.suite.published import PaperRow
from visr.paper.suite.read import short_count
from visr.paper.suite.statistics import Aggregate, Interval

DASH = "–"
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "≥": r"$\geq$", ">": "$>$", "<": "$<$", "·": r"$\cdot$", DASH: r"\textendash{}",
    "−": "$-$", "φ": r"$\phi$", "…": r"\dots{}", "→": r"$\to$",
}  # fmt: skip
_COLUMNS = {True: ("Mdn", "M", ">0", ">H", "≥100 %"), False: ("Mdn", "M", ">0", "≥75 %", "≥100 %")}
"""For Atari, with human scores; and for games with other references."""
_LAYOUT = (
    "@N is the number of rewarded steps. Top: unsupervised learning only; middle: data-limited "
    "reinforcement learning; bottom: after unsupervised pre-training."
)
_HUMAN = (
    "Mdn is the median over games, M the mean, >0 the number of games above random play, >H the "
    "number at human level (75 % of the human score or more, as in Mnih et al., 2015), ≥100 % the "
    f"number at the full human score, which the paper does not print. {_LAYOUT} Rows called ours "
    "are below the published rows of the same agent and give the steps of training."
)
_MEASURED = (
    "Mdn is the median over games, M the mean, >0 the number of games above random play; the last "
    f"two columns are the numbers of games at 75 % and at 100 % of the reference. {_LAYOUT}"
)
_BOOTSTRAP = (
    f"In brackets: {100 * statistics.LEVEL:g} % intervals from a bootstrap stratified by game "
    f"({statistics.REPLICATES:,} replicates); none if a game has only one seed. IQM is the "
    "interquartile mean over all runs: the mean of the middle half."
)


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
            f"{self.name}.csv": csv_cells([self.flat_columns, *cells]),
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
_TEMPLATES.filters |= {"markdown": markdown, "tex": _tex}
_TEMPLATES.globals["zip"] = zip


def table_1(suite: Suite) -> Table:
    """Table 1: on Atari the published rows with ours below them, elsewhere ours alone."""
    table = _paper_table(suite, "table1", f"Table 1: {suite.title}")
    rows = (replace(r, cells=tuple(c.partition(" ±")[0] for c in r.cells)) for r in table.rows)
    return replace(table, rows=tuple(rows))


def appendix(suite: Suite) -> Table:
    """The paper's appendix table: Table 1 with standard deviations over seeds, without bold numbers."""
    question = "; a question mark is the paper's own." if suite.is_atari else "."
    words = f" ± is the standard deviation of the aggregate over seeds{question}"
    table = _paper_table(suite, "appendix", f"{suite.title}, with standard deviations", words)
    return replace(table, rows=tuple(replace(row, bold=frozenset()) for row in table.rows))


def _paper_table(suite: Suite, name: str, title: str, words: str = "") -> Table:
    """Aggregates with deviations, in the paper's three sections."""
    explanation = _HUMAN if suite.is_atari else f"{suite.scale_words} {_MEASURED}"
    notes = " ".join(games.note for games in suite.game_sets if games.note)
    rows: list[TableRow] = []
    for section in (TOP, MIDDLE, BOTTOM):
        found = list(_section_rows(suite, section))
        rows += [replace(row, begins_section=bool(not i and rows)) for i, row in enumerate(found)]
    columns = _COLUMNS[suite.is_atari]
    return Table(
        name=f"{suite.key}_{name}",
        title=title,
        caption=f"{explanation}{words} {notes}".strip(),
        columns=("Algorithm", *columns * len(suite.game_sets)),
        rows=tuple(rows),
        groups=tuple((games.title, len(columns)) for games in suite.game_sets),
    )


def _section_rows(suite: Suite, section: str) -> Iterable[TableRow]:
    """Published rows, each followed by ours of the same name; then our other rows."""
    own = [e for e in suite.entries if e.key.section == section and not e.key.is_search]
    by_name: dict[str, list[PaperRow]] = {}
    for row in published.paper_table() if suite.is_atari else ():
        if row.section == section:
            by_name.setdefault(row.name, []).append(row)  # one for each game set, in their order
    for name, rows in by_name.items():
        yield _published_row(name, rows)
        yield from (_our_row(suite, entry) for entry in own if entry.key.name == name)
    yield from (_our_row(suite, entry) for entry in own if entry.key.name not in by_name)


def _published_row(name: str, rows: list[PaperRow]) -> TableRow:
    cells, bold = [name], set()
    for row in rows:
        printed = row.bold_in_table1.split(";")
        fields = ("median", "mean", "n_above_random", "n_above_human")
        bold |= {len(cells) + i for i, field in enumerate(fields) if field in printed}
        for value, std in ((row.median, row.median_std), (row.mean, row.mean_std)):
            cells.append(with_error(value or DASH, std.replace("unknown(?)", "?")))
        cells += [row.n_above_random or DASH, row.n_above_human or DASH, DASH]
    return TableRow(tuple(cells), is_ours=False, bold=frozenset(bold))


def _our_row(suite: Suite, entry: Entry) -> TableRow:
    cells = [f"{entry.key.name}, ours: {_amount(suite, entry)}"]
    for games in suite.game_sets:
        found = suite.aggregates.get((entry.key, games.key))
        if found is None:
            cells += [DASH] * 5
            continue
        for value, std in ((found.median, found.median_std), (found.mean, found.mean_std)):
            cells.append(with_error(fixed(value), "" if std is None else f"{std:.2f}"))
        cells += _counts(found)
    return TableRow(tuple(cells))


def _counts(found: Aggregate) -> list[str]:
    return [f"{found.num_above_random}", f"{found.num_at_75}", f"{found.num_at_100}"]


def _amount(suite: Suite, entry: Entry) -> str:
    """The steps and seeds of an entry, and its games if not all were played."""
    steps = f"{short_count(entry.key.num_steps)} steps, " if entry.key.num_steps else ""
    played = [sum(game in entry.scores for game in games.games) for games in suite.game_sets]
    sizes = [len(games.games) for games in suite.game_sets]
    counts = " ".join(f"{n}/{size}" for n, size in zip(played, sizes, strict=True))
    fewest, most = entry.seeds_per_game
    seeds = f"{most}" if fewest == most else f"{fewest} to {most}"
    games = "" if played == sizes else f", {counts} games"
    return f"{steps}{seeds} seed{'' if most == 1 else 's'}{games}"


def robust(suite: Suite) -> list[Table]:
    """IQM, median and mean with intervals, a table for every game set with a score."""
    tables = []
    for games in suite.game_sets:
        found = [(e, suite.aggregates.get((e.key, games.key))) for e in suite.entries]
        rows = tuple(_robust_row(suite, entry, of) for entry, of in found if of is not None)
        if rows:
            table = Table(
                name=f"{suite.key}_robust_{games.key}",
                title=f"{suite.title}, {games.title}: IQM, median and mean with intervals",
                caption=f"{suite.scale_words} {_BOOTSTRAP} {games.note}".strip(),
                columns=("Algorithm", "IQM", "Mdn", "M", ">0", "≥75 %", "≥100 %"),
                rows=rows,
            )
            tables.append(table)
    return tables


def _robust_row(suite: Suite, entry: Entry, found: Aggregate) -> TableRow:
    cells = (
        f"{entry.key.name} ({_amount(suite, entry)})",
        with_interval(found.iqm, found.iqm_interval),
        with_interval(found.median, found.median_interval),
        with_interval(found.mean, found.mean_interval),
        *_counts(found),
    )
    return TableRow(cells)


def game_scores(suite: Suite) -> Table | None:
    """Raw scores of every game: a row for each game, a column for each entry."""
    if not suite.entries:
        return None
    names = [entry.key.name for entry in suite.entries]
    columns = [
        name if names.count(name) == 1 else f"{name} ({entry.key.num_steps:,} steps)"
        for name, entry in zip(names, suite.entries, strict=True)
    ]
    return Table(
        name=f"{suite.key}_games",
        title=f"{suite.title}: raw scores by game",
        caption="Mean raw score of whole episodes, averaged over seeds, ± the standard deviation over seeds.",
        columns=("Game", *columns),
        rows=tuple(
            TableRow((name_of(game), *(_raw(entry, game) for entry in suite.entries)))
            for game in suite.games
        ),
    )


def _raw(entry: Entry, game: str) -> str:
    if game not in entry.scores:
        return DASH
    scores = list(entry.scores[game].values())
    std = f"{np.std(scores, ddof=1):.1f}" if len(scores) > 1 else ""
    return with_error(fixed(entry.mean(game), 1), std)
