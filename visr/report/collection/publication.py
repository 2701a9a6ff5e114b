"""From many runs to tables, figures and one page: read everything, draw everything, and only then write."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from visr.config import GRID
from visr.errors import UserError
from visr.report import load, pictures
from visr.report.collection import contests, curves, grid, page, spreads
from visr.report.collection import entries as lines
from visr.report.collection import our_tables as ours
from visr.report.collection import paper_tables as paper
from visr.report.collection.drawing import Drawing, finished
from visr.report.collection.page import Chapter
from visr.report.collection.runs import Run, Trouble, read
from visr.report.collection.suites import Suite, sort
from visr.report.collection.table import Table
from visr.report.pictures import Picture
from visr.run_dir import RunDir, write_bytes

_PORTRAIT = ("features", "rewards", "values")


def write(root: Path, out: Path | None = None) -> dict[str, Any]:
    """Everything there is to tell of the runs below `root`, into `out` (default: its report/); sum it up."""
    runs, troubles = read(root)
    found, doubles = lines.gather(runs)
    grid_lines, odd = grid.gather(root, runs)
    troubles = [*troubles, *doubles, *odd]
    if not runs and not grid_lines:
        raise UserError(_nothing(root, troubles))
    suites = sort([run for run in runs if run.env != GRID], found)
    chapters = [_chapter(suite) for suite in suites]
    if on_grid := _grid_chapter(runs, grid_lines):
        chapters.append(on_grid)
    chapters.append(_published())
    exact = grid.suite(runs)
    summary = _summary(root, runs, troubles, [*suites, *([exact] if exact else [])])
    target = RunDir(root).report if out is None else out
    html = page.html(root, runs, troubles, chapters)
    for name, content in _files(chapters, summary).items():
        write_bytes(target / name, content)
    write_bytes(target / "index.html", html.encode())
    return {"page": str(target / "index.html"), **summary}


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
    full = [paper.table_1(suite)] if suite.is_atari else []
    robust, claims = ours.robust(suite), ours.claims(suite)
    folded = [paper.appendix(suite)] if suite.is_atari else []
    full += robust[-1:] + ([claims] if claims else [])  # the widest part; the others wait folded
    folded += robust[:-1]
    by_game = ours.game_scores(suite)
    if by_game is not None:
        (folded if suite.is_normalised else full).append(by_game)
    drawings = [
        spreads.intervals(suite),
        spreads.profiles(suite),
        curves.over_training(suite),
        contests.regression_or_search(suite),
        contests.frames_of_dqn(suite),
        curves.every_game(suite),
    ]
    plates = tuple(finished(drawing) for drawing in drawings if drawing is not None)
    return Chapter(suite.key, suite.title, page.words_of(suite), tuple(full), tuple(folded), plates)


def _grid_chapter(runs: Sequence[Run], found: Sequence[grid.Line]) -> Chapter | None:
    if not found:
        return None
    suite, tables = grid.suite(runs), [grid.table(found)]
    drawings: list[Drawing | None] = [grid.over_training(found)]
    if suite is not None:
        tables += [*ours.robust(suite), ours.claims(suite)]
        drawings.insert(0, spreads.intervals(suite))
    return Chapter(
        "grid",
        "Grid world",
        "Every state is known here, so policies are valued exactly.",
        tuple(table for table in tables if table is not None),
        (),
        tuple(finished(drawing) for drawing in drawings if drawing is not None),
        _portrait(runs),
    )


def _portrait(runs: Sequence[Run]) -> tuple[Picture, ...]:
    """The paper's three grid figures, of the first run that has what they show."""
    for run in runs:
        if run.env == GRID and RunDir(run.path).portrait.exists():
            try:
                drawn = pictures.draw(load.record(run.path))
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


def _files(chapters: Sequence[Chapter], summary: dict[str, Any]) -> dict[str, bytes]:
    """All but the page, by their names below the report."""
    files: dict[str, bytes] = {}
    for chapter in chapters:
        tables: list[Table] = [*chapter.tables, *chapter.folded]
        for table in tables:
            files |= {f"tables/{name}": text.encode() for name, text in table.files().items()}
        for plate in chapter.plates:
            files |= {f"figures/{name}": content for name, content in plate.files().items()}
        files |= {f"figures/{picture.file}": picture.png for picture in chapter.pictures}
    files["aggregates.json"] = (json.dumps(summary, indent=2) + "\n").encode()
    return files


def _summary(
    root: Path, runs: Sequence[Run], troubles: Sequence[Trouble], suites: Sequence[Suite]
) -> dict[str, Any]:
    """JSON-able: what the tables say."""
    return {
        "directory": str(root),
        "num_runs": len(runs),
        "num_counted": sum(run.has_score for run in runs),
        "left_out": {
            **{run.name: run.state for run in runs if not run.has_score},
            **{trouble.name: trouble.sentence for trouble in troubles},
        },
        "suites": {suite.key: _suite_summary(suite) for suite in suites},
    }


def _suite_summary(suite: Suite) -> dict[str, Any]:
    by_key = {entry.key: entry for entry in suite.entries}
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
            for contest in ours.contests(suite)
        ],
        "scores": {
            f"{key.name}, {key.num_steps} steps": entry.scores for key, entry in by_key.items()
        },
    }
