"""From many runs to tables, figures and one page: read everything, draw everything, and only then write."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visr.config import GRID
from visr.errors import UserError
from visr.paper.suite import curves, grid, interval_figures, page, pairwise_figures
from visr.paper.suite import our_tables as ours
from visr.paper.suite import paper_tables as paper
from visr.paper.suite import rows as lines
from visr.paper.suite.drawing import Drawing, finished
from visr.paper.suite.game_suites import Suite, sort
from visr.paper.suite.page import Chapter
from visr.paper.suite.read import Run, Trouble, read
from visr.paper.suite.table import Table
from visr.report import figures
from visr.report import read as load
from visr.report.figures import Picture
from visr.storage.files import write_bytes
from visr.storage.run_dir import RunDir

_PORTRAIT = ("features", "rewards", "values")


@dataclass(frozen=True, eq=False)
class Collection:
    """All that was found below a directory."""

    root: Path
    runs: list[Run]
    troubles: list[Trouble]
    suites: list[Suite]
    grid_lines: list[grid.Line]
    grid: Suite | None


def gather(root: Path) -> Collection:
    """Every run read and sorted; a UserError where there is nothing to tell of."""
    runs, troubles = read(root)
    found, doubles = lines.gather(runs)
    grid_lines, odd = grid.gather(root, runs)
    troubles = [*troubles, *doubles, *odd]
    if not runs and not grid_lines:
        raise UserError(_nothing(root, troubles))
    suites = sort([run for run in runs if run.env != GRID], found)
    return Collection(root, runs, troubles, suites, grid_lines, grid.suite(runs))


def write(root: Path, out: Path | None = None) -> dict[str, Any]:
    """Everything there is to tell of the runs below `root`, into `out` (default: its report/); sum it up."""
    if out is None:
        RunDir(root).refuse_links()
    found = gather(root)
    chapters = [_chapter(suite) for suite in found.suites]
    if found.grid_lines:
        chapters.append(_grid_chapter(found))
    chapters.append(_published())
    told = summary(found)
    target = RunDir(root).report if out is None else out
    html = page.html(root, found.runs, found.troubles, chapters)
    for name, content in _files(chapters, told).items():
        write_bytes(target / name, content)
    write_bytes(target / "index.html", html.encode())
    return {"page": str(target / "index.html"), **told}


def _nothing(root: Path, troubles: Sequence[Trouble]) -> str:
    if troubles:
        return (
            f"Nothing below {root} can be reported on; the first of {len(troubles)} damaged runs "
            f"is {troubles[0].name}: {troubles[0].sentence}"
        )
    return (
        f"{root} holds no run (no config.json), nor any below it; name a run's own directory or "
        "one that holds several."
    )


def _chapter(suite: Suite) -> Chapter:
    full = [paper.table_1(suite)] if suite.is_normalised else []
    robust, claims = ours.robust(suite), (ours.claims(suite), ours.claims_beyond(suite))
    folded = [paper.appendix(suite)] if suite.is_normalised else []
    full += robust[-1:]  # the widest part; the others wait folded
    full += [table for table in claims if table is not None]
    folded += robust[:-1]
    by_game = ours.game_scores(suite)
    if by_game is not None:
        (folded if suite.is_normalised else full).append(by_game)
    drawings = [
        interval_figures.intervals(suite),
        interval_figures.profiles(suite),
        curves.over_training(suite),
        pairwise_figures.regression_or_search(suite),
        pairwise_figures.frames_of_dqn(suite),
        curves.every_game(suite),
    ]
    plates = tuple(finished(drawing) for drawing in drawings if drawing is not None)
    return Chapter(suite.key, suite.title, page.words_of(suite), tuple(full), tuple(folded), plates)


def _grid_chapter(found: Collection) -> Chapter:
    tables = grid.tables(found.grid_lines)
    drawings: list[Drawing | None] = [*grid.over_training(found.grid_lines)]
    if found.grid is not None:
        told = [*ours.robust(found.grid), ours.claims(found.grid)]
        tables[1:1] = [table for table in told if table is not None]
        drawings.insert(0, interval_figures.intervals(found.grid))
    return Chapter(
        "grid_world",  # its first table is `grid`
        "Grid world",
        "Every state is known here, so policies are valued exactly.",
        tuple(tables),
        (),
        tuple(finished(drawing) for drawing in drawings if drawing is not None),
        _portrait(found.runs),
    )


def _portrait(runs: Sequence[Run]) -> tuple[Picture, ...]:
    """The paper's three grid figures, of the first run that has what they show: VISR's, if there is one."""
    for run in sorted(runs, key=lambda run: run.agent != "visr"):
        if run.env == GRID and RunDir(run.path).portrait.exists():
            try:
                drawn = figures.draw(load.run_data(run.path))
            except UserError:
                continue  # of another version, or damaged: its own report says so
            return tuple(
                dataclasses.replace(drawn[name], caption=f"{run.name}: {drawn[name].caption}")
                for name in _PORTRAIT
            )
    return ()


def _published() -> Chapter:
    words = (
        "Nothing here was run by us: scores as others published them, put through the same code."
    )
    return Chapter("published", "Published scores", words, (ours.published_scores(),), (), ())


def _files(chapters: Sequence[Chapter], told: dict[str, Any]) -> dict[str, bytes]:
    """All but the page, by their names below the report."""
    files: dict[str, bytes] = {}
    for chapter in chapters:
        tables: list[Table] = [*chapter.tables, *chapter.folded]
        for table in tables:
            files |= {f"tables/{name}": text.encode() for name, text in table.files().items()}
        for plate in chapter.plates:
            files |= {f"figures/{name}": content for name, content in plate.files().items()}
        files |= {f"figures/{picture.file}": picture.png for picture in chapter.pictures}
    files["aggregates.json"] = (json.dumps(told, indent=2) + "\n").encode()
    return files


def summary(found: Collection) -> dict[str, Any]:
    """JSON-able: what the tables say."""
    suites = [*found.suites, *([found.grid] if found.grid else [])]
    return {
        "directory": str(found.root),
        "num_runs": len(found.runs),
        "num_counted": sum(run.has_score for run in found.runs),
        "left_out": {
            **{run.name: run.state for run in found.runs if not run.has_score},
            **{trouble.name: trouble.sentence for trouble in found.troubles},
        },
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
                "games": part,
                **dataclasses.asdict(found),
            }
            for (key, part), found in suite.aggregates.items()
        ],
        "claims": [
            {
                "claim": contest.claim.words,
                "better": contest.better.key.name,
                "worse": contest.worse.key.name,
                **dataclasses.asdict(contest.found),
                "games_ahead": contest.games_ahead,
                "verdict": contest.found.verdict,
            }
            for contest in ours.contests(suite, (*ours.CLAIMS, *ours.BEYOND))
        ],
        "scores": {
            f"{entry.key.name}, {entry.key.num_steps} steps": entry.scores
            for entry in suite.entries
        },
    }
