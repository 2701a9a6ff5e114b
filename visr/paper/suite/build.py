"""Write the report of many runs: read all, draw all, and then write tables, figures and the page."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from visr.config import GRID
from visr.errors import UserError
from visr.paper.suite import claims, entries, figures, grid, pairwise, tables
from visr.paper.suite.drawing import Drawing
from visr.paper.suite.entries import Suite
from visr.paper.suite.read import RunSummary, read
from visr.paper.suite.tables import Table
from visr.report import figures as run_figures
from visr.report import page
from visr.report import read as load
from visr.report.figures import Picture
from visr.report.read import RunData
from visr.storage.files import write_bytes
from visr.storage.run_dir import RunDir

_SNAPSHOT_FIGURES = ("features", "rewards", "values")


@dataclass(frozen=True, eq=False)
class Collection:
    """All runs below a directory."""

    root: Path
    runs: list[RunSummary]
    damaged: dict[str, str]
    """Runs that cannot be read, repeat another or are too short, with the reason."""
    suites: list[Suite]
    grid: Suite | None

    @property
    def left_out(self) -> dict[str, str]:
        """Why a run is not in the tables, by its name."""
        return {run.name: run.why_left_out for run in self.runs if not run.has_score} | self.damaged


@dataclass(frozen=True)
class Section:
    """The part of the page about one suite."""

    key: str
    title: str
    words: str
    tables: Sequence[Table]
    figures: Sequence[Drawing]
    snapshot: RunData | None = None
    """A run whose features, rewards and values are shown."""
    pictures: dict[str, Picture] = field(default_factory=dict)
    """Figures of that run, without CSV."""

    @property
    def headline(self) -> Table | None:
        """The table that the page shows first: the claims, else the first one."""
        judged = [table for table in self.tables if table.name.endswith("_claims")]
        return next(iter([*judged, *self.tables]), None)

    def files(self) -> dict[str, bytes]:
        """The contents of its files, by their names below the report."""
        texts = {f"tables/{name}": text for t in self.tables for name, text in t.files().items()}
        texts |= {f"figures/{figure.name}.csv": figure.csv() for figure in self.figures}
        pictures = [*(figure.picture for figure in self.figures), *self.pictures.values()]
        return {name: text.encode() for name, text in texts.items()} | {
            f"figures/{picture.file}": picture.png for picture in pictures
        }


def write(root: Path, out: Path | None = None) -> dict[str, Any]:
    """Write the report of the runs below `root` into `out` (default: its report/); return the aggregates."""
    if out is None:
        RunDir(root).refuse_links()
    found = gather(root)
    sections = [_section(suite) for suite in found.suites]
    if by_name := grid.evaluated(found.runs):
        sections.append(_grid_section(found, by_name))
    aggregates = summary(found)
    target = RunDir(root).report if out is None else out
    files = {name: content for section in sections for name, content in section.files().items()}
    files["aggregates.json"] = (json.dumps(aggregates, indent=2) + "\n").encode()
    files["index.html"] = _page(found, sections).encode()
    for name, content in files.items():
        write_bytes(target / name, content)
    return {"page": str(target / "index.html"), **aggregates}


def gather(root: Path) -> Collection:
    """Read and sort every run; a UserError if there is none."""
    runs, damaged = read(root)
    if damaged and not runs:
        name, sentence = next(iter(damaged.items()))
        raise UserError(
            f"No run below {root} can be read; the first of {len(damaged)} damaged runs is "
            f"{name}: {sentence}"
        )
    if not runs:
        raise UserError(
            f"{root} holds no run (no config.json), nor any below it; name a run's own directory or "
            "one that holds several."
        )
    short = entries.too_short(runs)
    used = [run for run in runs if run.name not in short]
    found, repeated = entries.collect(used)
    repeated |= grid.repeated(used)
    others = [run for run in runs if run.name in short]
    suites = entries.sort([run for run in used if run.env != GRID], found, others)
    return Collection(root, runs, damaged | repeated | short, suites, grid.suite(used))


def _section(suite: Suite) -> Section:
    *smaller, largest = tables.robust(suite) or [None]
    by_game = tables.game_scores(suite)
    if suite.is_normalised:
        shown = [tables.table_1(suite), largest, *claims.tables(suite)]
        shown += [tables.appendix(suite), *smaller, by_game]
    else:
        shown = [*claims.tables(suite), by_game]
    drawings = (
        figures.intervals(suite),
        figures.profiles(suite),
        figures.over_training(suite),
        pairwise.regression_or_search(suite),
        pairwise.frames_of_dqn(suite),
        figures.every_game(suite),
    )
    return Section(
        suite.key,
        suite.title,
        f"{_highest(suite)}{suite.scale_words} Raw scores are of whole episodes and never clipped.",
        [table for table in shown if table is not None],
        [drawing for drawing in drawings if drawing is not None],
    )


def _highest(suite: Suite) -> str:
    """The agents with the highest interquartile means, among those that played every game."""
    games = suite.largest_set.key
    complete = [entry for entry in suite.entries if len(entry.scores) == len(suite.games)]
    found = [(entry.key.name, suite.aggregates.get((entry.key, games))) for entry in complete]
    scored = [(name, of) for name, of in found if of is not None]
    if len(scored) < 2:
        return ""
    scored.sort(key=lambda pair: -pair[1].iqm)
    best = (f"{name} {tables.with_interval(of.iqm, of.iqm_interval)}" for name, of in scored[:3])
    return f"Highest interquartile means over {len(suite.games)} games: {'; '.join(best)}. "


def _grid_section(found: Collection, by_name: grid.ByName) -> Section:
    shown, drawings = [grid.table(by_name)], [grid.over_training(by_name)]
    if found.grid is not None:
        shown += [*tables.robust(found.grid), *claims.tables(found.grid)]
        drawings = [figures.intervals(found.grid), *drawings]
    return Section(
        "grid_world",  # its first table is `grid`
        "Grid world",
        "Every state is known here, so the values of policies are exact.",
        shown,
        [drawing for drawing in drawings if drawing is not None],
        *_snapshot(found.runs),
    )


def _snapshot(runs: Sequence[RunSummary]) -> tuple[RunData | None, dict[str, Picture]]:
    """The paper's three grid figures of one run with a snapshot: of GPI VISR if there is one."""
    for run in sorted(runs, key=lambda run: run.label != "GPI VISR"):
        if run.env == GRID and RunDir(run.path).grid_snapshot.exists():
            try:
                data = load.run_data(run.path)
                drawn = run_figures.draw(data)
            except UserError:
                continue  # of another version, or damaged: the report of that run says so
            return data, {name: drawn[name] for name in _SNAPSHOT_FIGURES}
    return None, {}


def _page(found: Collection, sections: Sequence[Section]) -> str:
    """One self-contained HTML page; the same runs give the same page."""
    template = page.environment("visr.paper.suite").get_template("suite.html")
    return template.render(
        title=found.root.resolve().name,
        found=found,
        sections=sections,
        command=shlex.join(["visr", "report", str(found.root)]),
    )


def summary(found: Collection) -> dict[str, Any]:
    """The numbers of the tables, JSON-able."""
    suites = [*found.suites, *([found.grid] if found.grid else [])]
    return {
        "directory": str(found.root),
        "num_runs": len(found.runs),
        "num_counted": sum(run.name not in found.left_out for run in found.runs),
        "left_out": found.left_out,
        "suites": {suite.key: _suite_summary(suite) for suite in suites},
    }


def _suite_summary(suite: Suite) -> dict[str, Any]:
    return {
        "unit": suite.unit,
        "aggregates": [
            {
                "algorithm": key.algorithm,
                "interaction": key.interaction,
                "num_steps": key.num_steps,
                "games": games,
                **asdict(aggregate),
            }
            for (key, games), aggregate in suite.aggregates.items()
        ],
        "claims": [
            {
                "claim": judged.claim.words,
                "better": judged.better.key.name,
                "worse": judged.worse.key.name,
                **asdict(judged.found),
                "games_ahead": judged.games_ahead,
                "verdict": judged.found.verdict,
            }
            for judged in claims.judge(suite, (*claims.PAPER, *claims.BEYOND))
        ],
        "scores": {
            f"{entry.key.name}, {entry.key.num_steps} steps": entry.scores
            for entry in suite.entries
        },
    }
