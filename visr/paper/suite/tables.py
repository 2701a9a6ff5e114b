"""The tables of a suite: the paper's two, robust aggregates with intervals, and raw scores by game."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from visr import atari_games
from visr.atari_games import GameSet
from visr.paper.suite import published, statistics
from visr.paper.suite.game_suites import Suite, name_of
from visr.paper.suite.published import PaperRow
from visr.paper.suite.read import short_count
from visr.paper.suite.rows import BOTTOM, MIDDLE, TOP, Entry
from visr.paper.suite.statistics import Aggregate, Interval
from visr.paper.suite.table import DASH, Table, TableRow, fixed

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
_DEVIATION = "± is the standard deviation of the aggregate over seeds"
_BOOTSTRAP = (
    f"In brackets: {100 * statistics.LEVEL:g} % intervals from a bootstrap stratified by game "
    f"({statistics.REPLICATES:,} replicates); none if a game has only one seed. IQM is the "
    "interquartile mean over all runs: the mean of the middle half."
)

Format = Callable[[str, str], str]
"""A cell from a value and its standard deviation."""


def table_1(suite: Suite) -> Table:
    """Table 1: on Atari the published rows with ours below them, elsewhere ours alone."""
    title = f"Table 1: {suite.title}"
    return _paper_table(suite, "table1", title, _explanation(suite), lambda value, std: value)


def appendix(suite: Suite) -> Table:
    """The paper's appendix table: Table 1 with standard deviations over seeds, without bold numbers."""
    question = "; a question mark is the paper's own." if suite.is_atari else "."
    words = f"{_explanation(suite)} {_DEVIATION}{question}"
    title = f"{suite.title}, with standard deviations"
    table = _paper_table(suite, "appendix", title, words, with_error)
    return replace(table, rows=tuple(replace(row, bold=frozenset()) for row in table.rows))


def _explanation(suite: Suite) -> str:
    return _HUMAN if suite.is_atari else f"{suite.scale_words} {_MEASURED}"


def with_error(value: str, std: str) -> str:
    """A value with its standard deviation, if that is known."""
    return f"{value} ± {std}" if std and value != DASH else value


def _paper_table(suite: Suite, name: str, title: str, words: str, format: Format) -> Table:
    notes = " ".join(games.note for games in suite.game_sets if games.note)
    rows: list[TableRow] = []
    for section in (TOP, MIDDLE, BOTTOM):
        found = list(_section_rows(suite, section, format))
        rows += [replace(row, begins_section=bool(not i and rows)) for i, row in enumerate(found)]
    columns = _COLUMNS[suite.is_atari]
    return Table(
        name=f"{suite.key}_{name}",
        title=title,
        caption=f"{words} {notes}".strip(),
        columns=("Algorithm", *columns * len(suite.game_sets)),
        rows=tuple(rows),
        groups=tuple((games.title, len(columns)) for games in suite.game_sets),
    )


def _section_rows(suite: Suite, section: str, format: Format) -> Iterable[TableRow]:
    """Published rows, each followed by ours of the same name; then our other rows."""
    own = [e for e in suite.entries if e.key.section == section and not e.key.is_search]
    by_name: dict[str, dict[str, PaperRow]] = {}
    for row in published.paper_table():
        if suite.is_atari and row.section == section:
            by_name.setdefault(row.name, {})[row.subset] = row
    for name, by_subset in by_name.items():
        rows = [by_subset[subset.key] for subset in atari_games.game_sets()]
        yield _published_row(name, rows, format)
        yield from (_our_row(suite, entry, format) for entry in own if entry.key.name == name)
    rest = [entry for entry in own if entry.key.name not in by_name]
    yield from (_our_row(suite, entry, format) for entry in rest)


def _published_row(name: str, rows: list[PaperRow], format: Format) -> TableRow:
    cells, bold = [name], set()
    for row in rows:
        stds = [s.replace("unknown(?)", "?") for s in (row.median_std, row.mean_std)]
        start = len(cells)
        cells += [format(row.median or DASH, stds[0]), format(row.mean or DASH, stds[1])]
        cells += [row.n_above_random or DASH, row.n_above_human or DASH, DASH]
        fields = ("median", "mean", "n_above_random", "n_above_human")
        bold |= {start + i for i, f in enumerate(fields) if f in row.bold_in_table1.split(";")}
    return TableRow(tuple(cells), bold=frozenset(bold))


def _our_row(suite: Suite, entry: Entry, format: Format) -> TableRow:
    cells = [f"{entry.key.name}, ours: {_amount(suite, entry)}"]
    for games in suite.game_sets:
        found = suite.aggregates.get((entry.key, games.key))
        cells += [DASH] * 5 if found is None else _our_cells(found, format)
    return TableRow(tuple(cells), is_ours=True)


def _our_cells(found: Aggregate, format: Format) -> list[str]:
    stds = ["" if std is None else f"{std:.2f}" for std in (found.median_std, found.mean_std)]
    return [
        format(fixed(found.median), stds[0]),
        format(fixed(found.mean), stds[1]),
        *_counts(found),
    ]


def _counts(found: Aggregate) -> list[str]:
    return [f"{found.num_above_random}", f"{found.num_at_75}", f"{found.num_at_100}"]


def _amount(suite: Suite, entry: Entry) -> str:
    """The steps and seeds of an entry, and its games if not all were played."""
    steps = f"{short_count(entry.key.num_steps)} steps, " if entry.key.num_steps else ""
    played = [sum(game in entry.scores for game in games.games) for games in suite.game_sets]
    sizes = [len(games.games) for games in suite.game_sets]
    counts = " ".join(f"{n}/{size}" for n, size in zip(played, sizes, strict=True))
    seeds = len(entry.seeds)
    games = "" if played == sizes else f", {counts} games"
    return f"{steps}{seeds} seed{'' if seeds == 1 else 's'}{games}"


def robust(suite: Suite) -> list[Table]:
    """IQM, median and mean with intervals, a table for every game set with a score."""
    found = ((games, _robust_rows(suite, games)) for games in suite.game_sets)
    return [
        Table(
            name=f"{suite.key}_robust_{games.key}",
            title=f"{suite.title}, {games.title}: IQM, median and mean with intervals",
            caption=f"{suite.scale_words} {_BOOTSTRAP} {games.note}".strip(),
            columns=("Algorithm", "IQM", "Mdn", "M", ">0", "≥75 %", "≥100 %"),
            rows=rows,
        )
        for games, rows in found
        if rows
    ]


def _robust_rows(suite: Suite, games: GameSet) -> tuple[TableRow, ...]:
    rows = []
    for entry in suite.entries:
        found = suite.aggregates.get((entry.key, games.key))
        if found is not None:
            cells = [
                f"{entry.key.name} ({_amount(suite, entry)})",
                with_interval(found.iqm, found.iqm_interval),
                with_interval(found.median, found.median_interval),
                with_interval(found.mean, found.mean_interval),
                *_counts(found),
            ]
            rows.append(TableRow(tuple(cells), is_ours=True))
    return tuple(rows)


def with_interval(value: float, interval: Interval | None) -> str:
    """A value with its interval in brackets, if it has one."""
    if interval is None:
        return fixed(value)
    return f"{fixed(value)} [{fixed(interval.low)}, {fixed(interval.high)}]"


def game_scores(suite: Suite) -> Table | None:
    """Raw scores of every game: a row for each game, a column for each entry."""
    entries = [entry for entry in suite.entries if entry.scores]
    if not entries:
        return None
    rows = [
        TableRow((name_of(game), *(_raw(entry, game) for entry in entries)), is_ours=True)
        for game in suite.games
    ]
    return Table(
        name=f"{suite.key}_games",
        title=f"{suite.title}: raw scores by game",
        caption="Mean raw score of whole episodes, averaged over seeds, ± the standard deviation over seeds.",
        columns=("Game", *(_column(entry, entries) for entry in entries)),
        rows=tuple(rows),
    )


def _column(entry: Entry, entries: list[Entry]) -> str:
    """The entry's name, with its steps if entries with other steps have the same name."""
    same = [e for e in entries if e.key.name == entry.key.name]
    name = entry.key.name
    return name if len(same) == 1 else f"{name} ({entry.key.num_steps:,} steps)"


def _raw(entry: Entry, game: str) -> str:
    if game not in entry.scores:
        return DASH
    scores = list(entry.scores[game].values())
    std = f"{np.std(scores, ddof=1):.1f}" if len(scores) > 1 else ""
    return with_error(fixed(float(np.mean(scores)), 1), std)
