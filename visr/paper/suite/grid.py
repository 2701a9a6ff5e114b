"""Grid worlds, where values are exact: runs, and tables or curves that were kept of earlier ones."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from visr.config import GRID
from visr.errors import UserError
from visr.paper.suite.drawing import Drawing, colour
from visr.paper.suite.game_suites import Part, Suite
from visr.paper.suite.read import Run, Trouble, find, short_count
from visr.paper.suite.rows import BOTTOM, Entry, Key, adapted_name, agent_name
from visr.paper.suite.table import DASH, Row, Table, fixed
from visr.report import curves, read, style
from visr.report.read import Columns, Floats
from visr.report.style import Theme
from visr.storage import safe_open
from visr.storage.files import reading
from visr.storage.run_dir import RunDir

FAMILIES = ("boxes", "goals")
"""Tasks that mean the same to every agent; random w are each agent's own."""
_COLUMNS = {
    "span": "own", "span_gpi": "GPI", "boxes": "own", "boxes_gpi": "GPI", "boxes_planned": "planned",
    "goals": "own", "goals_gpi": "GPI", "goals_planned": "planned",
}  # fmt: skip
_GROUPS = (("Random w", 2), ("Two boxes", 3), ("Goal cells", 3))
_SEEDED = re.compile(r"(.+)-(\d+)")
_HUES = ("blue", "vermilion", "green", "purple", "orange", "sky", "grey")
_MARKS = {"-": "—", "--": "- -", ":": "···"}
"""How a legend writes a line's dashes, which tell lines apart once the colours are used up."""
_LEGEND_COLUMNS, _LEGEND_ROW = 4, 0.15
"""Entries beside each other, and inches for each line of them."""


@dataclass(frozen=True, eq=False)
class Line:
    """What one grid run ended with, and how it got there if that was kept."""

    label: str
    seed: int
    num_steps: float
    last: dict[str, float]
    curve: Columns
    is_run: bool = False
    """Else it is a CSV file that was kept of one."""


def gather(root: Path, runs: Sequence[Run]) -> tuple[list[Line], list[Trouble]]:
    """Of runs, of curves kept as CSV files, and of tables of final values."""
    lines = [_line_of_run(run) for run in runs if run.env == GRID and run.evaluation]
    kept: list[Line] = []
    troubles = []
    for path in _csv_files(root):
        try:
            kept += _kept(path)
        except UserError as error:
            name = path.relative_to(root).as_posix()
            troubles.append(Trouble(name, str(error).replace(str(path), path.name)))
    known = {(line.label, line.seed) for line in [*lines, *kept] if line.curve}
    kept = [line for line in kept if line.curve or (line.label, line.seed) not in known]
    return lines + sorted(kept, key=lambda line: (line.label, line.seed)), troubles


def _line_of_run(run: Run) -> Line:
    last = {k: float(v[-1]) for k, v in run.evaluation.items() if k != "num_steps"}
    label = adapted_name(run.agent) or agent_name(run)
    return Line(
        f"{label}, {short_count(run.num_steps)}", run.seed, run.age, last, run.evaluation, True
    )


def _csv_files(root: Path) -> list[Path]:
    """Those outside of runs, by name; nothing inside a report."""
    inside, found = set(find(root)), []
    with reading(root):
        for place, folders, files in os.walk(root):
            if Path(place) in inside:
                folders.clear()
                continue
            folders[:] = sorted(set(folders) - {RunDir(root).report.name})
            found += [Path(place) / file for file in sorted(files) if file.endswith(".csv")]
    return found


def _kept(path: Path) -> list[Line]:
    """Lines of a CSV file with a column `boxes`; none where it speaks of something else."""
    try:
        with reading(path), io.TextIOWrapper(safe_open.to_read(path), "utf-8", newline="") as file:
            header = next(csv.reader(file), [])
            if not {"num_steps", "boxes"} <= set(header):
                return []
            if header[0] == "num_steps":
                return [_line_of_curve(path)]
            rows = [dict(zip(header, row, strict=True)) for row in csv.reader(file)]
        return [_line_of_row(row, header[0]) for row in rows]
    except (ValueError, KeyError, csv.Error):
        raise UserError(f"{path} is damaged: a row does not fit its header.") from None


def _line_of_curve(path: Path) -> Line:
    curve = read.columns(path)
    if not curve:
        raise UserError(f"{path} holds no rows.")
    found = _SEEDED.fullmatch(path.stem)
    label, seed = (found[1], int(found[2])) if found else (path.stem, 0)
    last = {k: float(v[-1]) for k, v in curve.items() if k != "num_steps"}
    num_steps = float(curve["num_steps"][-1])
    return Line(f"{style.plain(label)}, {short_count(num_steps)}", seed, num_steps, last, curve)


def _line_of_row(row: dict[str, str], name: str) -> Line:
    values = {k: float(v) for k, v in row.items() if k in _COLUMNS}
    num_steps = float(row["num_steps"])
    label = f"{style.plain(row[name])}, {short_count(num_steps)}"
    return Line(label, int(row.get("seed", 0)), num_steps, values, {})


def _apart(lines: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """Those of runs, and what was kept of others."""
    return [line for line in lines if line.is_run], [line for line in lines if not line.is_run]


def _by_label(lines: Sequence[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line.label, []).append(line)
    return found


def tables(lines: Sequence[Line]) -> list[Table]:
    """Exact fractions of optimal at the end: of runs, and apart from them of what was kept of others."""
    runs, kept = _apart(lines)
    found = [
        _table("grid", "Grid world: fraction of optimal", runs),
        _table("grid_kept", "Grid world: fraction of optimal, kept of other runs", kept),
    ]
    return [table for table in found if table is not None]


def _table(name: str, title: str, lines: Sequence[Line]) -> Table | None:
    """Means over seeds, a row a label."""
    if not lines:
        return None
    rows = []
    for label, own in _by_label(lines).items():
        seeds = f"{len(own)} seed{'' if len(own) == 1 else 's'}"
        cells = [_fraction([line.last[c] for line in own if c in line.last]) for c in _COLUMNS]
        rows.append(Row((f"{label} steps, {seeds}", *cells), is_ours=True))
    return Table(
        name=name,
        title=title,
        caption=(
            "Exact, not sampled: 0 is what a random policy is worth, 1 what an optimal one is. "
            "Own is w's own policy, GPI improves over its neighbours, planned is perfect "
            "planning on φ·w: what the features permit. ± is the standard deviation over seeds."
        ),
        columns=("Run", *_COLUMNS.values()),
        rows=tuple(rows),
        groups=_GROUPS,
    )


def _fraction(values: list[float]) -> str:
    values = [x for x in values if np.isfinite(x)]
    if not values:
        return DASH
    mean = float(np.mean(values))
    if len(values) == 1:
        return fixed(mean, 3)
    return f"{fixed(mean, 2)} ± {np.std(values, ddof=1):.2f}"


def suite(runs: Sequence[Run]) -> Suite | None:
    """Agents on the families of tasks that mean the same to all of them, as if these were games."""
    entries: dict[Key, Entry] = {}
    for run in runs:
        if run.env != GRID or not run.has_score:
            continue
        name = adapted_name(run.agent)
        key = Key(name or agent_name(run), "all states", BOTTOM, run.num_steps)
        ending = "_gpi" if name is not None and name.startswith("GPI") else ""
        for family in FAMILIES:
            column = run.evaluation.get(family + ending, run.evaluation.get(family))
            if column is not None and np.isfinite(column[-1]):
                scores = entries.setdefault(key, Entry(key)).scores.setdefault(family, {})
                scores.setdefault(run.seed, float(column[-1]))
    if not entries:
        return None
    order = sorted(entries, key=lambda key: (key.algorithm, key.num_steps))
    return Suite(
        "grid", "Grid world", (), tuple(entries[key] for key in order),
        parts=(Part("all", "boxes and goals", FAMILIES),),
        scale=dict.fromkeys(FAMILIES, (0.0, 1.0)),
        unit="fraction of optimal, %",
        scale_words="0 is a random policy, 100 an optimal one.",
    )  # fmt: skip


def over_training(lines: Sequence[Line]) -> list[Drawing]:
    """Fraction of optimal over training: of runs, and apart from them of curves that were kept."""
    runs, kept = _apart(lines)
    drawings = [
        _curves("grid_curves", "Grid world over training", runs),
        _curves("grid_kept_curves", "Grid world over training: curves kept of other runs", kept),
    ]
    return [drawing for drawing in drawings if drawing is not None]


def _curves(name: str, title: str, lines: Sequence[Line]) -> Drawing | None:
    """A panel a family, a colour a label."""
    by_label = _by_label([line for line in lines if line.curve])
    if not by_label:
        return None
    rows = [
        (label, line.seed, float(step), family.key, float(value))
        for label, own in by_label.items()
        for line in own
        for family in style.FAMILIES
        if family.key in line.curve
        for step, value in zip(line.curve["num_steps"], _acting(line, family.key), strict=True)
    ]
    return Drawing(
        name,
        title,
        f"Fraction of optimal over training for {', '.join(by_label)}, three families of tasks.",
        "Fraction of optimal, a line a seed, for random w, two boxes and goal cells: by GPI for "
        "agents named so, else by w's own policy.",
        lambda theme: _draw(theme, by_label),
        ("run", "seed", "num_steps", "family", "fraction_of_optimal"),
        rows,
    )


def _acting(line: Line, family: str) -> Floats:
    """As the agent acts: by GPI, if its name says so."""
    by_gpi = line.curve.get(f"{family}_gpi")
    return by_gpi if by_gpi is not None and line.label.startswith("GPI") else line.curve[family]


def _draw(theme: Theme, by_label: dict[str, list[Line]]) -> Figure:
    num_rows = math.ceil(len(by_label) / _LEGEND_COLUMNS)
    height = 2.25 + _LEGEND_ROW * num_rows
    figure = Figure(figsize=(style.WIDTH, height))
    every = figure.subplots(1, len(style.FAMILIES), sharey=True)
    bottom = (0.5 + _LEGEND_ROW * num_rows) / height
    figure.subplots_adjust(left=0.055, right=0.985, bottom=bottom, top=0.92, wspace=0.1)
    last = np.array([line.num_steps for own in by_label.values() for line in own])
    paints = dict(zip(by_label, _paints(theme, list(by_label)), strict=True))
    for axes, family in zip(every, style.FAMILIES, strict=True):
        for label, own in by_label.items():
            for line in own:
                if family.key in line.curve:
                    shown = _acting(line, family.key)
                    paint, dash = paints[label]
                    axes.plot(line.curve["num_steps"], shown, color=paint, ls=dash, lw=1.1)
        axes.axhline(1, color=theme.muted, lw=0.7)
        axes.axhline(0, color=theme.rule, lw=0.7)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda x, _: style.number(x)))
        style.title(axes, family.title, theme.ink)
        curves.finish(axes, last)
    for place, (label, (paint, dash)) in enumerate(paints.items()):
        row, column = divmod(place, _LEGEND_COLUMNS)
        x, y = 0.055 + 0.235 * column, (_LEGEND_ROW * (num_rows - row) - 0.07) / height
        words = f"{_MARKS[dash]} {style.plain(label, 30)}"
        figure.text(x, y, words, fontsize=7, color=paint)
    return figure


def _paints(theme: Theme, labels: list[str]) -> list[tuple[str, str]]:
    """Colours and dashes: the agents' own colours where they differ, else one after another."""
    own = [colour(theme, label) for label in labels]
    if len(set(own)) == len(labels):
        return [(paint, "-") for paint in own]
    every = [(theme.palette[hue], dash) for dash in _MARKS for hue in _HUES]
    return [every[place % len(every)] for place in range(len(labels))]
