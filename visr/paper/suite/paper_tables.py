"""The paper's two tables, our lines beneath the published ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from visr import atari_games
from visr.paper.suite import published
from visr.paper.suite.game_suites import Part, Suite
from visr.paper.suite.published import PaperRow
from visr.paper.suite.read import short_count
from visr.paper.suite.rows import BOTTOM, MIDDLE, TOP, Entry
from visr.paper.suite.statistics import Aggregate
from visr.paper.suite.table import DASH, Row, Table, fixed

_SECTIONS = (TOP, MIDDLE, BOTTOM)
_COLUMNS = {True: ("Mdn", "M", ">0", ">H", "≥100 %"), False: ("Mdn", "M", ">0", "≥75 %", "≥100 %")}
"""With human scores, and with other references."""
_LAYOUT = (
    "@N is the amount of rewarded interaction. Top: unsupervised learning only; middle: "
    "data-limited reinforcement learning; bottom: after unsupervised pre-training."
)
_HUMAN = (
    "Mdn is the median over games, M the mean, >0 the number of games above random play, >H "
    "those at human level (75 % of the human score or more, as in Mnih et al., 2015), ≥100 % "
    f"those at the whole human score, which the paper does not print. {_LAYOUT} Lines called ours "
    "stand beneath the published ones they belong to, with the steps they trained for."
)
_MEASURED = (
    "Mdn is the median over games, M the mean, >0 the number of games above random play; the last "
    f"two columns count games at 75 % and at 100 % of the reference. {_LAYOUT}"
)
_DEVIATION = "± is the standard deviation over seeds of the aggregate"

Cells = Callable[[str, str], str]


def table_1(suite: Suite) -> Table:
    """As in the paper: on Atari, ours beneath the published figures; elsewhere ours alone."""
    title = f"Table 1: {suite.title}"
    return _table(suite, "table1", title, _reading(suite), lambda value, std: value)


def appendix(suite: Suite) -> Table:
    """The same with standard deviations over seeds."""
    question = "; a question mark is the paper's own." if suite.is_atari else "."
    words = f"{_reading(suite)} {_DEVIATION}{question}"
    title = f"{suite.title}, with standard deviations"
    table = _table(suite, "appendix", title, words, _give_or_take)
    plain = tuple(replace(row, bold=frozenset()) for row in table.rows)  # as the paper sets it
    return replace(table, rows=plain)


def _reading(suite: Suite) -> str:
    return _HUMAN if suite.is_atari else f"{suite.scale_words} {_MEASURED}"


def _give_or_take(value: str, std: str) -> str:
    return f"{value} ± {std}" if std and value != DASH else value


def _table(suite: Suite, name: str, title: str, reading: str, cell: Cells) -> Table:
    notes = " ".join(part.note for part in suite.parts if part.note)
    rows: list[Row] = []
    for section in _SECTIONS:
        found = list(_section_rows(suite, section, cell))
        rows += [
            replace(row, begins_section=bool(place == 0 and rows))
            for place, row in enumerate(found)
        ]
    columns = _COLUMNS[suite.is_atari]
    return Table(
        name=f"{suite.key}_{name}",
        title=title,
        caption=f"{reading} {notes}".strip(),
        columns=("Algorithm", *columns * len(suite.parts)),
        rows=tuple(rows),
        groups=tuple((part.title, len(columns)) for part in suite.parts),
    )


def _section_rows(suite: Suite, section: str, cell: Cells) -> Iterable[Row]:
    own = [
        e for e in suite.entries if e.key.section == section and "by search" not in e.key.algorithm
    ]
    by_name: dict[str, dict[str, PaperRow]] = {}
    for row in published.paper_table():
        if suite.is_atari and row.section == section:
            by_name.setdefault(row.name, {})[row.subset] = row
    for name, by_subset in by_name.items():
        rows = [by_subset[subset.key] for subset in atari_games.subsets()]
        yield _published_row(name, rows, cell)
        yield from (_our_row(suite, entry, cell) for entry in own if entry.key.name == name)
    rest = [entry for entry in own if entry.key.name not in by_name]
    yield from (_our_row(suite, entry, cell) for entry in rest)


def _published_row(name: str, rows: list[PaperRow], cell: Cells) -> Row:
    cells, bold = [name], set()
    for row in rows:
        stds = [s.replace("unknown(?)", "?") for s in (row.median_std, row.mean_std)]
        start = len(cells)
        cells += [cell(row.median or DASH, stds[0]), cell(row.mean or DASH, stds[1])]
        cells += [row.n_above_random or DASH, row.n_above_human or DASH, DASH]
        fields = ("median", "mean", "n_above_random", "n_above_human")
        bold |= {start + i for i, f in enumerate(fields) if f in row.bold_in_table1.split(";")}
    return Row(tuple(cells), bold=frozenset(bold))


def _our_row(suite: Suite, entry: Entry, cell: Cells) -> Row:
    cells = [f"{entry.key.name}, ours: {how_much(suite, entry)}"]
    for part in suite.parts:
        cells += _our_cells(suite.aggregates.get((entry.key, part.key)), cell)
    return Row(tuple(cells), is_ours=True)


def _our_cells(found: Aggregate | None, cell: Cells) -> list[str]:
    if found is None:
        return [DASH] * len(_COLUMNS[True])
    return [
        cell(fixed(found.median), _std(found.median_std)),
        cell(fixed(found.mean), _std(found.mean_std)),
        f"{found.num_above_random}",
        f"{found.num_at_75}",
        f"{found.num_at_100}",
    ]


def _std(deviation: float | None) -> str:
    return "" if deviation is None else f"{deviation:.2f}"


def how_much(suite: Suite, entry: Entry) -> str:
    """What stands behind a line of ours: steps, seeds, games."""
    steps = f"{short_count(entry.key.num_steps)} steps, " if entry.key.num_steps else ""
    counts = [f"{_played(entry, part)}/{len(part.games)}" for part in suite.parts]
    seeds = len(entry.seeds)
    whole = all(_played(entry, part) == len(part.games) for part in suite.parts)
    played = "" if whole else f", {' '.join(counts)} games"
    return f"{steps}{seeds} seed{'' if seeds == 1 else 's'}{played}"


def _played(entry: Entry, part: Part) -> int:
    return sum(game in entry.scores for game in part.games)
